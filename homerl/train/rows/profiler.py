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

from homerl.train.rows.budget import MemoryHeadroom

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
        own = torch.tensor([[self._factor, -self.headroom.free]], device=self.accelerator.device, dtype=torch.float64)
        factor, free = gather(own).amax(0).tolist()
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
        torch.cuda.reset_peak_memory_stats(self.accelerator.device)
        return int(torch.cuda.memory_allocated(self.accelerator.device))

    def peak_bytes(self) -> int:
        """The most bytes that were allocated since then."""
        return int(torch.cuda.max_memory_allocated(self.accelerator.device))
