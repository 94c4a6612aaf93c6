"""DeepSpeed compiles its own collectives for CPUs in a folder that all runs share. A killed build leaves it locked for ever.

PyTorch does not remove the lock. Every later start waits for it silently and without end.

Versions: deepspeed 0.19.2 to 0.19.8, torch 2.11 to 2.13.
Upstream: https://github.com/pytorch/pytorch/issues/189245; https://github.com/pytorch/pytorch/pull/190543 uses a lock
that the kernel releases.
"""

from __future__ import annotations


def disable_deepspeed_shm() -> None:
    """Make DeepSpeed use no collectives of its own. Call it before its processes connect."""
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
