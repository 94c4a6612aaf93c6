"""How a run is spread over devices: the recipe's `parallel`, applied in process through training arguments.

Invariants: an accelerate configuration given on the command line wins; nothing here touches one process.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from homerl.recipe import Base


def world_size() -> int:
    """How many processes train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def parallel_arguments(recipe: Base) -> dict[str, Any]:
    """Training arguments for `parallel`, or none where accelerate was configured from outside."""
    chosen_outside = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    if chosen_outside or recipe.parallel in ("none", "ddp"):
        return {"ddp_backend": "gloo"} if recipe.cpu and world_size() > 1 else {}
    if recipe.parallel == "fsdp2":
        return {"fsdp": "full_shard auto_wrap", "fsdp_config": FSDP2}
    return {"deepspeed": zero(2 if recipe.parallel == "zero2" else 3)}


def numbered_cpu(storage: Any, location: str) -> Any:
    """Where accelerate has several processes on a CPU, their checkpoints load to `cpu:0`, which torch does not know."""
    return storage if location.startswith("cpu:") else None


torch.serialization.register_package(0, lambda storage: None, numbered_cpu)


FSDP2: dict[str, Any] = {
    "version": 2,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}


def zero(stage: int) -> dict[str, Any]:
    """A DeepSpeed configuration whose sizes follow the trainer's."""
    optimization: dict[str, Any] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        optimization |= {"stage3_gather_16bit_weights_on_model_save": True}
    return {
        "zero_optimization": optimization,
        "bf16": {"enabled": "auto"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }
