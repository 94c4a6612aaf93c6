"""Measures what a token takes on a GPU, at the beginning of a run, so that the budget of a pass follows from it.

Until a pass was measured, passes are half as large as the estimate allows. The second pass of an update is measured, since
the first also makes the gradients. Where updates have one pass nothing is measured: a larger budget would change nothing.

Invariants: all ranks take the same budget at the same update, since in shards they make the same passes; without CUDA, and
with a number of tokens in the recipe, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from accelerate import Accelerator
from accelerate.utils import gather

from homerl.train.rows.budget import Headroom

SECOND = 1  # index of the pass that is measured


class MemoryProfiler:
    """Measures one pass on each rank, and makes the budget of it. `waits` tells that none was measured yet."""

    def __init__(self, accelerator: Accelerator, headroom: Headroom) -> None:
        self.accelerator, self.headroom = accelerator, headroom
        self.waits = headroom.measures and accelerator.device.type == "cuda"
        self._factor = 0.0
        self.budget = headroom.cautious() if self.waits else headroom.budget()

    @contextmanager
    def watch(self, index: int, tokens: int, recomputed: bool) -> Iterator[None]:
        """Measure the pass that is made within the context, if it is an update's second."""
        if not (self.waits and index == SECOND and tokens):
            yield
            return
        before = self.allocated()
        yield
        self._factor = (self.peak() - before) / self.headroom.expected(tokens, recomputed)

    def settled(self) -> str | None:
        """After an update: what was measured and the budget, in words, if the budget follows from this update.

        The rank that took the most decides for all, and that with the least memory.
        """
        if not self.waits:
            return None
        own = torch.tensor([[self._factor, -self.headroom.free]], device=self.accelerator.device, dtype=torch.float64)
        factor, free = gather(own).amax(0).tolist()
        if not factor:
            return None
        estimated = self.headroom.token.plain
        self.headroom = replace(self.headroom, token=self.headroom.token.times(factor), free=-free)
        self.waits, self.budget = False, self.headroom.budget()
        measured = self.headroom.token.plain
        return (
            f"activations of a token: {measured / 1e6:.3g} MB measured, {estimated / 1e6:.3g} MB estimated; "
            f"tokens of a pass from now on: {self.budget}"
        )

    def allocated(self) -> int:
        """Bytes that are allocated now. The peak begins anew."""
        torch.cuda.reset_peak_memory_stats(self.accelerator.device)
        return int(torch.cuda.memory_allocated(self.accelerator.device))

    def peak(self) -> int:
        """The most bytes that were allocated since then."""
        return int(torch.cuda.max_memory_allocated(self.accelerator.device))
