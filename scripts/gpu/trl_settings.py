"""The settings with which TRL's own trainers run here: the best that its documentation names, of what is installed.

Invariants: the model, its adapter, its number format and the data are homerl's; nothing of homerl's trainers is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu.machine import Machine, has


def best_attention(machine: Machine) -> str:
    """flash attention if one is installed, which TRL advises for packed rows, else torch's."""
    if machine.tiny:
        return "sdpa"
    if has("flash_attn_interface"):
        return "flash_attention_3"
    return "flash_attention_2" if has("flash_attn") else "sdpa"


def common(machine: Machine, out: Path, checkpointing: bool, updates: int) -> dict[str, Any]:
    """Arguments of both trainers."""
    return {
        "output_dir": str(out),
        "max_steps": updates,
        "learning_rate": 1e-5,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": machine.tiny,
        "bf16": not machine.tiny,
        "gradient_checkpointing": checkpointing,
        "use_liger_kernel": has("liger_kernel") and not machine.tiny,
    }


def load(machine: Machine, source: Path) -> Any:
    """The model as both sides train it."""
    import torch
    from transformers import AutoModelForCausalLM

    dtype = machine.pick(torch.bfloat16, torch.float32)
    return AutoModelForCausalLM.from_pretrained(source, dtype=dtype, attn_implementation=best_attention(machine))


def named(machine: Machine, arguments: Any) -> dict[str, Any]:
    """The settings that explain the figures."""
    keys = ("per_device_train_batch_size", "gradient_checkpointing", "use_liger_kernel", "padding_free", "packing_strategy")
    own = {key: getattr(arguments, key) for key in keys if hasattr(arguments, key)}
    return {"attention": best_attention(machine)} | own
