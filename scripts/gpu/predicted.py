"""The memory that homerl predicts for a recipe, in the terms in which `Watch` measures it.

Invariant: what torch does not allocate itself (`overhead`) is in neither.
"""

from __future__ import annotations

from typing import Any

TRAINING, SAMPLING = "training", "sampling"  # phases of an update


def predicted_gb(recipe: Any, memory: float) -> dict[str, float]:
    """Predicted GB by phase on one GPU with `memory` GB; the phase `sampling` is there if the recipe samples."""
    from homerl.train.memory_estimate import estimate_training_memory

    found = estimate_training_memory(recipe, 1, memory)
    always = sum(size for name, size in found.always.items() if name != "overhead")
    phases = {TRAINING: found.training, SAMPLING: found.sampling}
    return {phase: always + sum(parts.values()) for phase, parts in phases.items() if parts}


def gpu_memory(tiny: bool) -> float:
    """GB of the GPU; 80 for tiny models."""
    import torch

    return 80.0 if tiny else torch.cuda.get_device_properties(0).total_memory / 1e9
