"""torch cannot load to `cpu:0`, the device that accelerate gives each of several processes on a CPU.

`torch.load(file, map_location="cpu:0")` fails with "don't know how to restore data location", so no checkpoint of such a
run can be resumed.

Versions: torch 2.11 to 2.13, accelerate 1.10 to 1.15.
Upstream: no upstream issue known (https://github.com/SeungjunNah/DeepDeblur-PyTorch/issues/28 shows the same message, in
another project). To reproduce: `torch.load(file, map_location=torch.device("cpu", 0))`.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def register_numbered_cpu() -> None:
    """Teach torch that a numbered CPU is the CPU. It takes effect once in a process."""
    import torch

    def load_to_cpu(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    # without a tag, since storages are saved under torch's own names
    torch.serialization.register_package(0, lambda storage: None, load_to_cpu)
