"""The budget of a pass, from the memory that weights, gradients, the optimizer and the engine leave.

On a GPU the first passes of a run are smaller (`Headroom.cautious_budget`); what they took makes the budget (`profiler.py`).

Invariants: no torch, since recipes are checked with it; a number in the recipe wins over estimates and measurements, but not
in passes without gradients, which keep no activations; with `gradient_checkpointing: auto` a pass keeps its activations if
they fit, and computes them again otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from homerl.train.model import AUTO
from homerl.train.optim_settings import OptimSettings
from homerl.train.rows.passes import STEP, TokenBudget

LARGEST, LARGEST_ON_CPU = 32_768, 4096  # tokens; a larger pass is no faster, or leaves the processor's caches
SCORED = 65_536  # the same without gradients, on a GPU: fewer passes share more beginnings
SPARE = 0.9  # share of the free memory that is used, since some is lost between blocks


@dataclass(frozen=True)
class TokenBytes:
    """Bytes of the activations of one token: what the forward pass keeps if it keeps all (`kept`), or the input of each
    layer and one complete layer (`recomputed`); and what the largest `layer` keeps.

    While a layer's backward pass runs, its gradients take as much again as the layer kept, at the most.
    """

    kept: float
    recomputed: float
    layer: float = 0.0

    @property
    def plain_peak(self) -> float:
        """The most bytes at a time, if all activations are kept."""
        return self.kept + self.layer

    @property
    def checkpointed_peak(self) -> float:
        """The most bytes at a time with checkpointing."""
        return self.recomputed + self.layer

    @property
    def scoring_peak(self) -> float:
        """The most bytes at a time without gradients: no more than a layer keeps with them."""
        return self.layer or self.recomputed

    def multiplied_by(self, factor: float) -> TokenBytes:
        """So many times these bytes."""
        return TokenBytes(self.kept * factor, self.recomputed * factor, self.layer * factor)


@dataclass(frozen=True)
class MemoryHeadroom:
    """What a budget is made from: the recipe's settings, a token's bytes, the free bytes, and whether it is for a CPU."""

    settings: OptimSettings
    token: TokenBytes
    free: float
    cpu: bool

    def make_budget(self) -> TokenBudget:
        """The budget of a pass."""
        asked, checkpointing = self.settings.tokens_per_step, self.settings.gradient_checkpointing
        largest = LARGEST_ON_CPU if self.cpu else LARGEST
        plain, most = (
            max(STEP, min(largest, int(SPARE * self.free / each) // STEP * STEP))
            for each in (self.token.plain_peak, self.token.checkpointed_peak)
        )
        scored = 0 if self.cpu else max(STEP, min(SCORED, int(SPARE * self.free / self.token.scoring_peak) // STEP * STEP))
        if asked != AUTO:
            plain, most = (asked if checkpointing is False else min(plain, asked)), asked
        if checkpointing == AUTO:
            return TokenBudget(plain, max(plain, most), scored=scored)
        return (
            TokenBudget(0, most, scored=scored) if checkpointing else TokenBudget(plain, plain, allowed=False, scored=scored)
        )

    @property
    def needs_measurement(self) -> bool:
        """Whether the budget is to follow from a measured pass."""
        return not self.cpu and self.settings.tokens_per_step == AUTO

    def cautious_budget(self) -> TokenBudget:
        """The budget before a pass was measured: half of what the estimate allows."""
        return self.make_budget().halved_budget()

    def expected_bytes(self, tokens: int, recomputed: bool) -> float:
        """The bytes that a pass of so many tokens is expected to take."""
        return tokens * (self.token.checkpointed_peak if recomputed else self.token.plain_peak)
