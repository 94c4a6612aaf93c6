"""How many tokens a pass may have: from the memory that weights, gradients, the optimizer and the engine leave.

`MemoryHeadroom` makes a `TokenBudget` of an estimate (`homerl/train/memory_estimate.py`). `MemoryProfiler` measures what a
token takes on a GPU, at the beginning of a run, so that the budget follows from it.

Invariants of a budget:
- A number in the recipe wins over estimates and measurements, but not in passes without gradients: they keep no activations.
- With `gradient_checkpointing: auto` a pass keeps its activations if they fit, and computes them again otherwise.
- Importing this file imports no torch, since recipes are checked with it.

Invariants of the measurement:
- Until a pass was measured, passes are half as large as the estimate allows. The second pass of an update is measured, since
  the first also makes the gradients. Where updates have one pass nothing is measured: a larger budget would change nothing.
- All ranks take the same budget at the same update, since in shards they make the same passes.
- Without CUDA, and with a number of tokens in the recipe, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from homerl.train.model_settings import AUTO
from homerl.train.recipe import OptimSettings

if TYPE_CHECKING:
    from accelerate import Accelerator

RECOMPUTED = 0.33  # share of a pass's time that checkpointing adds: its forward pass is made twice
STEP = 128  # a budget, and on a GPU the length of a row, is a multiple of it: the allocator meets few sizes
START = 64  # tokens that cost as much time as beginning a pass


@dataclass(frozen=True)
class TokenBudget:
    """The most tokens of a pass: `plain` with all activations kept, `most` with checkpointing, if that is `allowed`.

    `scored` are those of a pass without gradients, if these are more than `most`.
    """

    plain: int
    most: int
    allowed: bool = True
    scored: int = 0

    def __str__(self) -> str:
        scored = f"; {self.scored} without gradients" if self.scored > self.most else ""
        if self.plain == self.most:
            return f"{self.most}, with all activations kept{scored}"
        kept = f"{self.plain} with all activations kept, " if self.plain else ""
        return f"{kept}{self.most} with checkpointing{scored}"

    def halved_budget(self, scoring: bool = False) -> TokenBudget:
        """Half of it, after a pass ran out of memory; of its passes without gradients alone, if `scoring` did."""
        if scoring and self.scored > self.most:
            return replace(self, scored=self.scored // 2)
        return replace(self, plain=self.plain // 2, most=max(1, self.most // 2), scored=self.scored // 2)

    def without_gradients(self) -> TokenBudget:
        """The budget of passes that keep no activations."""
        return TokenBudget(max(self.most, self.scored), max(self.most, self.scored))

    def needs_checkpointing(self, tokens: int) -> bool:
        """Whether a pass of so many tokens must compute its activations again."""
        return self.allowed and tokens > self.plain

    def pass_cost(self, tokens: int) -> float:
        """The time of a pass, in tokens."""
        return START + tokens * (1 + RECOMPUTED * self.needs_checkpointing(tokens))


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


SECOND = 1  # index of the pass that is measured


class MemoryProfiler:
    """Measures one pass on each rank, and makes the budget of it. `waits` tells that none was measured yet."""

    def __init__(self, accelerator: Accelerator, headroom: MemoryHeadroom) -> None:
        self.accelerator, self.headroom = accelerator, headroom
        self.waits = headroom.needs_measurement and accelerator.device.type == "cuda"
        self._factor = 0.0
        self.budget = headroom.cautious_budget() if self.waits else headroom.make_budget()

    @contextmanager
    def measure_pass(self, index: int, tokens: int, recomputed: bool) -> Iterator[None]:
        """Measure the pass that is made within the context, if it is an update's second."""
        if not (self.waits and index == SECOND and tokens):
            yield
            return
        before = self.allocated_bytes()
        yield
        self._factor = (self.peak_bytes() - before) / self.headroom.expected_bytes(tokens, recomputed)

    def settle_budget(self) -> str | None:
        """After an update: what was measured and the budget, in words, if the budget follows from this update.

        The rank that took the most decides for all, and that with the least memory.
        """
        if not self.waits:
            return None
        import torch

        own = torch.tensor([[self._factor, -self.headroom.free]], device=self.accelerator.device, dtype=torch.float64)
        # one exchange for both: the most that a rank took, and (negated) the least that is free
        factor, free = self.accelerator.gather(own).amax(0).tolist()
        if not factor:
            return None
        estimated = self.headroom.token.plain_peak
        self.headroom = replace(self.headroom, token=self.headroom.token.multiplied_by(factor), free=-free)
        self.waits, self.budget = False, self.headroom.make_budget()
        measured = self.headroom.token.plain_peak
        return (
            f"activations of a token: {measured / 1e6:.3g} MB measured, {estimated / 1e6:.3g} MB estimated; "
            f"tokens of a pass from now on: {self.budget}"
        )

    def allocated_bytes(self) -> int:
        """Bytes that are allocated now. The peak begins anew."""
        import torch

        torch.cuda.reset_peak_memory_stats(self.accelerator.device)
        return int(torch.cuda.memory_allocated(self.accelerator.device))

    def peak_bytes(self) -> int:
        """The most bytes that were allocated since then."""
        import torch

        return int(torch.cuda.max_memory_allocated(self.accelerator.device))
