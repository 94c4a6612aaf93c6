"""Patches of other libraries, a function or class each: the defect, its versions, and the upstream change that would end it.

Invariants: nothing is applied at import time; the code that needs a patch calls it. Other modules use a library's private
names only in classes that extend a class of the library: they override a method, or call it on `self`. This module imports
no other library. tests/homerl/train/test_workarounds.py fails as soon as a library no longer needs its patch.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from homerl.host.processes import free_port

if TYPE_CHECKING:
    from transformers import Trainer as Mixed
else:
    Mixed = object


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # in glibc's malloc.h


# TRL


def score_labelled_positions() -> None:
    """Let TRL's fused head score the labelled positions alone. Its kernels still use Triton only where it is.

    `trl.trainer.utils.add_fused_lm_head` selects the labelled positions only where it can use Triton. On a CPU a prompt of
    1,000 tokens then costs the head 1,000 times, although nothing in it is trained on.

    Versions: trl 1.16.
    Upstream: no upstream issue known. To reproduce: count the floating-point operations of a forward pass with
    `fused_lm_head=True` whose labels are all -100.
    """
    import trl.trainer.utils

    trl.trainer.utils._use_triton = lambda device: True


@contextmanager
def add_vllm_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Within the context TRL makes the vLLM beside the trainer with these options besides its own fixed set.

    Versions: trl 1.16 (`VLLMGeneration._init_vllm` calls `LLM` of its module).
    Upstream: no upstream issue known. To reproduce: `VLLMGeneration` has no parameter for `hf_overrides`.
    """
    from trl.generation import vllm_generation

    plain = getattr(vllm_generation, "LLM", None)
    # a server has options of its own, and needs no vLLM here
    with patch.object(vllm_generation, "LLM", partial(plain, **options)) if options and plain else nullcontext():
        yield


@contextmanager
def send_key_to_vllm(key: str) -> Iterator[None]:
    """Within the context TRL makes clients of a vLLM server that send this key with each request.

    Versions: trl 1.16 (`VLLMGeneration._init_vllm` makes the `VLLMClient` of its module, which calls `check_server` before
    its first request that needs a key).
    Upstream: no upstream issue known. To reproduce: `VLLMClient` has no parameter for an API key.
    """
    from trl.generation import vllm_generation

    plain = vllm_generation.VLLMClient

    class Client(plain):  # type: ignore[misc, valid-type]
        def check_server(self, *limits: float, **named: float) -> None:
            self.session.headers["Authorization"] = f"Bearer {key}"
            super().check_server(*limits, **named)

    with patch.object(vllm_generation, "VLLMClient", Client):
        yield


@contextmanager
def wake_vllm(generation: Any) -> Iterator[None]:
    """Wake vLLM's cache, and its weights if they were freed since the last sync; free all of it afterwards.

    TRL wakes the vLLM beside the trainer, and puts it to sleep, only inside its own `generate`. Other callers have no public
    method to do so. They must also update TRL's private flag for freed weights.

    Versions: trl 1.16 (`VLLMGeneration._llm_weights_sleeping`).
    Upstream: no upstream issue known. To reproduce: `VLLMGeneration` has no public method but `generate` and `sync_weights`.
    """
    if generation._llm_weights_sleeping:
        generation.sync_weights()
    generation.llm.wake_up(tags=["kv_cache"])
    try:
        yield
    finally:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True


# transformers, accelerate, torch, and the C library


class CompleteCheckpoints(Mixed):
    """A trainer mixin: the last file of a checkpoint, which marks it complete, is written after every rank has written its
    own.

    `Trainer._save_checkpoint` has no barrier between `_save_rng_state`, which every rank does, and `trainer_state.json`,
    which the first rank writes. A run that is killed between the two leaves a checkpoint that looks complete and cannot be
    resumed.

    Versions: transformers 5.10 to 5.17.
    Upstream: no upstream issue known (https://github.com/huggingface/transformers/issues/28015 was another race of the same
    function). To reproduce: let a second rank sleep in `_save_rng_state`.
    """

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()


@contextmanager
def load_unsharded() -> Iterator[None]:
    """Load models unsharded within the context, though ZeRO-3 is configured.

    transformers loads a model in shards as soon as ZeRO-3 is configured anywhere in the process. Then every process reads
    all weights, and all must load together. The frequencies of the position embedding may be in half precision, unlike those
    of the model that is saved and served, and no adapter can be merged. So the first process loads a complete model, which
    `sharding.py` shards. There is no argument that asks for a complete model.

    Versions: transformers 5.10 to 5.17.
    Upstream: https://github.com/huggingface/transformers/issues/28596 and
    https://github.com/deepspeedai/DeepSpeed/issues/4932 (the frequencies; both are closed, and there is still no such
    argument).
    """
    from transformers.integrations import deepspeed as integration

    with patch.object(integration, "_hf_deepspeed_config_weak_ref", None):
        yield


def forget_zero3_config() -> None:
    """Load models unsharded from now on, and let each rank generate by itself: `load_unsharded` without an end."""
    from transformers.integrations import deepspeed as integration

    integration.unset_hf_deepspeed_config()


def allow_fsdp_on_cpus() -> None:
    """Present several CPU processes as GPUs to accelerate. Call it before the `Accelerator` is created.

    accelerate silently ignores FSDP if several processes run on a CPU: `AcceleratorState` turns it on for GPUs and similar
    devices only (`DistributedType.MULTI_CPU` is not among them). But torch can shard over gloo as well.

    Versions: accelerate 1.10 to 1.15.
    Upstream: no upstream issue known (Lightning has a similar one:
    https://github.com/Lightning-AI/pytorch-lightning/issues/21812). To reproduce: two processes,
    `Accelerator(cpu=True, fsdp_plugin=...)`, and `distributed_type` is MULTI_CPU.
    """
    from accelerate import DistributedType, PartialState

    shared = PartialState._shared_state
    if shared.get("distributed_type") == DistributedType.MULTI_CPU:
        shared["distributed_type"] = DistributedType.MULTI_GPU


@cache
def register_numbered_cpu() -> None:
    """Teach torch that a numbered CPU is the CPU. It takes effect once in a process.

    torch cannot load to `cpu:0`, the device that accelerate gives each of several processes on a CPU.
    `torch.load(file, map_location="cpu:0")` fails with "don't know how to restore data location", so no checkpoint of such a
    run can be resumed.

    Versions: torch 2.11 to 2.13, accelerate 1.10 to 1.15.
    Upstream: no upstream issue known (https://github.com/SeungjunNah/DeepDeblur-PyTorch/issues/28 shows the same message, in
    another project). To reproduce: `torch.load(file, map_location=torch.device("cpu", 0))`.
    """
    import torch

    def load_to_cpu(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    # without a tag, since storages are saved under torch's own names
    torch.serialization.register_package(0, lambda storage: None, load_to_cpu)


def return_freed_memory() -> None:
    """Return freed memory to the system, where the C library is glibc.

    glibc keeps freed memory in pieces that a larger tensor does not fit in, so what sampling took, training takes once more.
    torch's allocator for a CPU frees by glibc, which returns blocks to the system only from the end of its heap; blocks of
    up to 32 MB come from there, and all after `keep_freed_memory`. Of 5.1 GB after sampling, 4.0 were free and kept.

    Versions: glibc 2.26 and later; torch 2.11 to 2.13.
    Upstream: no upstream issue known. To reproduce: allocate 300 tensors of 1 MB, each with a smaller one after it,
    delete the large ones, and look at the resident memory.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Let the memory that a tensor frees wait for the next one, where the C library is glibc. Call it once, before training.

    glibc asks the system anew for each block above 32 MB, and returns it when it is free. The kernel clears each page that
    it gives, and a virtual machine may have to get it from its host. A third of the two cores that trained a model of 0.5
    billion parameters did nothing else. What is gained in all is not yet shown (docs/results/qwen.md).

    Versions: glibc 2.26 and later; torch 2.11 to 2.13.
    Upstream: no upstream issue known. To reproduce: allocate a tensor of 64 MB a hundred times, and count the page faults.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for setting, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1)):
            libc.mallopt(setting, value)


# DeepSpeed


def disable_deepspeed_shm() -> None:
    """Make DeepSpeed use no collectives of its own. Call it before its processes connect.

    DeepSpeed compiles its own collectives for CPUs in a folder that all runs share. A killed build leaves it locked for
    ever, since PyTorch does not remove the lock. Every later start waits for it silently and without end.

    Versions: deepspeed 0.19.2 to 0.19.8, torch 2.11 to 2.13.
    Upstream: https://github.com/pytorch/pytorch/issues/189245; https://github.com/pytorch/pytorch/pull/190543 uses a lock
    that the kernel releases.
    """
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def connect_zero_on_cpus(timeout: timedelta) -> None:
    """Connect DeepSpeed's processes on a CPU. Call it before the training arguments are created.

    transformers ignores DeepSpeed if `use_cpu` is set, because its `TrainingArguments` check that first. DeepSpeed itself
    can train on CPUs. The patch configures the state beforehand (`use_configured_state`), as accelerate would do for GPUs,
    but over gloo.

    Versions: transformers 5.10 to 5.17, accelerate 1.10 to 1.15.
    Upstream: no upstream issue known. To reproduce: `TrainingArguments(use_cpu=True, deepspeed={...})`, and
    `distributed_state.distributed_type` is not DEEPSPEED.
    """
    from accelerate import PartialState
    from accelerate.state import AcceleratorState

    disable_deepspeed_shm()
    AcceleratorState._reset_state(reset_partial_state=True)
    given = os.environ.get("ACCELERATE_USE_DEEPSPEED", "false")
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo", timeout=timeout)
    os.environ["ACCELERATE_USE_DEEPSPEED"] = given


def set_launcher_environment() -> None:
    """Set the environment variables of a launcher, if there was none.

    DeepSpeed expects a launcher even for a single process. Without one it looks for MPI.

    Versions: deepspeed 0.19.2 to 0.19.8.
    Upstream: https://github.com/deepspeedai/DeepSpeed/pull/8444
    """
    if "LOCAL_RANK" in os.environ:
        return
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= alone | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
