"""accelerate silently ignores FSDP if several processes run on a CPU.

`AcceleratorState` turns FSDP on for GPUs and similar devices only (`DistributedType.MULTI_CPU` is not among them). But
torch can shard over gloo as well.

Versions: accelerate 1.10 to 1.15.
Upstream: no upstream issue known (Lightning has a similar one: https://github.com/Lightning-AI/pytorch-lightning/issues/21812).
To reproduce: two processes, `Accelerator(cpu=True, fsdp_plugin=...)`, and `distributed_type` is MULTI_CPU.
"""

from __future__ import annotations


def allow_fsdp_on_cpus() -> None:
    """Present several CPU processes as GPUs to accelerate. Call it before the `Accelerator` is created."""
    from accelerate import DistributedType, PartialState

    shared = PartialState._shared_state
    if shared.get("distributed_type") == DistributedType.MULTI_CPU:
        shared["distributed_type"] = DistributedType.MULTI_GPU
