"""What `auto` means on this machine, for keys whose value a recipe leaves to it.

Invariant: a recipe that is loaded has values, never `auto`; nothing here imports torch.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BeforeValidator, WithJsonSchema

AUTO = "auto"
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # where NVIDIA's, AMD's and Windows' drivers show them on Linux
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")  # flags of processors that multiply this format; the last is Arm's


def has_gpu() -> bool:
    """Whether this machine has the driver of a GPU."""
    return any(Path(name).exists() for name in GPUS)


@cache
def has_bfloat16_cpu(known: str = "/proc/cpuinfo") -> bool:
    """Whether the processor multiplies bfloat16; not on systems that do not tell."""
    try:
        lines = Path(known).read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return any(flag in flags.split() for flag in BFLOAT16)


def _cpu(given: Any) -> Any:
    return not has_gpu() if given == AUTO else given


def _number_format(given: Any) -> Any:
    return ("bfloat16" if has_gpu() or has_bfloat16_cpu() else "float32") if given == AUTO else given


CPU = BeforeValidator(_cpu), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": AUTO}]})
NUMBER_FORMAT = (
    BeforeValidator(_number_format),
    WithJsonSchema({"enum": ["auto", "float32", "bfloat16", "float16"], "type": "string"}),
)
