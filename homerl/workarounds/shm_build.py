"""DeepSpeed compiles collectives of its own on a CPU, in a folder of all runs, and a build that is killed locks it for ever.

PyTorch leaves the lock there, and every later start waits for it without a word and without end.

Versions: deepspeed 0.19.2 to 0.19.8, torch 2.9 to 2.13.
Upstream: https://github.com/pytorch/pytorch/issues/189245; https://github.com/pytorch/pytorch/pull/190543 makes the lock
one that the kernel lets go of.
"""

from __future__ import annotations


def apply() -> None:
    """Make DeepSpeed use no collectives of its own. Call it before its processes connect."""
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
