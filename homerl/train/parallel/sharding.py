"""Weights that are to be in shards: the first process reads them, and the others get their shards from it.

Invariants:
- Until then a model of another process is empty: its weights are memory that nobody has written to, so the system has not
  given any for them. Its buffers are real.
- Apart from the first, a process holds one whole weight at a time beside its shards.
- Policy, reference and the sampler's copy have the weights that the first process read, to the bit.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
from accelerate import Accelerator, DistributedType, init_empty_weights
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed.tensor import DTensor
from torch.nn import Module, Parameter
from transformers import PreTrainedModel


def make_empty_model(source: str, **options: Any) -> PreTrainedModel:
    """The model of a folder or of the hub without its weights. `options` are those of `from_pretrained`."""
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source), **options)
    # from `meta` to memory that nobody has written to, so that the system gives none
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            setattr(module, name, Parameter(torch.empty_like(weight, device="cpu"), weight.requires_grad))
    model.tie_weights()
    with suppress(OSError):  # a model without one has that of its configuration
        model.generation_config = GenerationConfig.from_pretrained(source)
    return model


def copy_model(model: PreTrainedModel, empty: bool) -> PreTrainedModel:
    """A copy of a model, which is empty if the model is."""
    # deepcopy takes what its memo has: so weights that are empty anyway are not copied
    known = {id(weight): Parameter(torch.empty_like(weight), weight.requires_grad) for weight in model.parameters()}
    return copy.deepcopy(model, known if empty else {})


def broadcast_weights(model: PreTrainedModel, accelerator: Accelerator) -> PreTrainedModel:
    """A model on the device, with all weights. All processes call it together."""
    model = model.to(accelerator.device)
    if accelerator.is_fsdp2 or _is_zero3(accelerator):
        for weight in model.parameters():
            torch.distributed.broadcast(weight.data, 0)
    return model


def prepare_sharding(model: PreTrainedModel, accelerator: Accelerator) -> None:
    """Shard a model for ZeRO-3, or make it ready for accelerate, which shards it for FSDP2. All processes call it together.

    DeepSpeed by itself would first bring the whole model to each GPU.
    """
    if _is_zero3(accelerator):
        import deepspeed

        given = accelerator.deepspeed_plugin.deepspeed_config["zero_optimization"]
        zero = {"stage": 3} | {key: given[key] for key in ("offload_param",) if key in given}
        config = {"zero_optimization": zero, "train_micro_batch_size_per_gpu": 1}  # of which the latter means nothing here
        deepspeed.zero.Init(module=model, config_dict_or_path=config, dtype=model.dtype)
    elif accelerator.is_fsdp2:
        accelerator.state.fsdp_plugin.cpu_ram_efficient_loading = True  # accelerate sends the weights of the first process
        if accelerator.mixed_precision != "no" and not accelerator.is_main_process:
            for weight in model.parameters():
                if weight.requires_grad:  # accelerate would write a 32-bit copy of what nobody needs
                    weight.data = torch.empty_like(weight, dtype=torch.float32)


def shard_frozen_model(model: PreTrainedModel, accelerator: Accelerator) -> Module:
    """A model that is not trained, sharded as the policy is. All processes call it together."""
    prepare_sharding(model.requires_grad_(False), accelerator)
    if accelerator.is_fsdp2:
        return fsdp2_prepare_model(accelerator, model).eval()
    from trl.models import prepare_deepspeed

    return prepare_deepspeed(model, accelerator)


def gather_whole_weights(policy: Module, frozen: bool = True) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a policy's weights by name, each once. A weight is gathered until the next one is requested.

    `policy` is the trainer's `model_wrapped`, unwrapped. All ranks must iterate together. With `frozen=False` only trainable
    weights are yielded.
    """
    seen = set()
    for name, weight in policy.state_dict(keep_vars=True).items():
        if id(weight) in seen or not (frozen or weight.requires_grad):
            continue
        seen.add(id(weight))
        with gather_weights([weight]):
            whole = weight.detach().full_tensor() if isinstance(weight, DTensor) else weight.detach()
            yield name.replace("_checkpoint_wrapped_module.", ""), whole


def gather_weights(weights: Sequence[torch.Tensor]) -> AbstractContextManager[object]:
    """A context in which sharded weights are complete. Outside of it ZeRO-3 keeps them empty."""
    if not any(hasattr(weight, "ds_id") for weight in weights):
        return nullcontext()
    import deepspeed

    whole: AbstractContextManager[object] = deepspeed.zero.GatheredParameters(list(weights))
    return whole


def _is_zero3(accelerator: Accelerator) -> bool:
    in_zero = accelerator.distributed_type == DistributedType.DEEPSPEED
    return bool(in_zero and accelerator.deepspeed_plugin.zero_stage == 3)
