"""The budget of a pass, from the memory that weights, gradients, the optimizer and the engine leave.

Invariants: no torch, since recipes are checked with it; a number in the recipe wins over the estimate; with
`gradient_checkpointing: auto` a pass keeps its activations if they fit, and computes them again otherwise.
"""

from __future__ import annotations

from homerl.train.model import AUTO
from homerl.train.packing.passes import STEP, Budget
from homerl.train.recipe import OptimSettings
from homerl.train.sizes import TokenBytes

LARGEST, LARGEST_ON_CPU = 32_768, 4096  # tokens; a larger pass is no faster, or leaves the processor's caches
SPARE = 0.9  # share of the free memory that is used, since some is lost between blocks


def budget_of(settings: OptimSettings, token: TokenBytes, free: float, cpu: bool) -> Budget:
    """The budget of a pass in `free` bytes."""
    asked, checkpointing = settings.tokens_per_step, settings.gradient_checkpointing
    largest = LARGEST_ON_CPU if cpu else LARGEST
    plain, most = (
        max(STEP, min(largest, int(SPARE * free / each) // STEP * STEP)) for each in (token.plain, token.checkpointed)
    )
    if asked != AUTO:
        plain, most = (asked if checkpointing is False else min(plain, asked)), asked
    if checkpointing == AUTO:
        return Budget(plain, max(plain, most))
    return Budget(0, most) if checkpointing else Budget(plain, plain, allowed=False)
