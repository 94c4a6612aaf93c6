"""Rollouts ahead of the trainer: batch u+k is begun when the trainer takes batch u.

Invariants: with k = 0 a batch is played when it is asked for, in the thread that asks, so it is on-policy exactly; with
k > 0 episodes run in one thread beside the trainer, and no batch begins before the weights of the update k before its
own are in the sampler, so no token is older than k updates; episodes that are under way when vLLM is sent new weights
go on with those; collectives stay in the trainer's thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from homerl.train.rollout import Rollout
from homerl.train.supply import Batch, Supply

Run = Callable[[Coroutine], Any]


class RolloutPrefetcher:
    """`take(update)` is the batch of an update; the last update's number says when to begin no more."""

    def __init__(self, supply: Supply, k: int, updates: int) -> None:
        self.supply, self.k, self.updates = supply, k, updates
        self.begun: OrderedDict[int, tuple[list[int], Callable[[], dict[int, Rollout]]]] = OrderedDict()
        self.run, self.begin = _beside() if k else _here()

    def take(self, update: int, sync: Callable[[], None]) -> Batch:
        """The batch of an update. `sync` brings this update's weights to the sampler: after this batch, if it was begun
        earlier, and before any that begins now."""
        early = self.begun.pop(update, None)
        rollouts = early[1]() if early else None
        sync()
        for number in range(update, min(update + self.k, self.updates - 1) + 1):
            if number not in self.begun and not (number == update and early):
                drawn = self.supply.draw()
                self.begun[number] = drawn, self.begin(self.supply.play(number, drawn))
        drawn, result = early or self.begun.pop(update)
        return self.supply.finish(update, drawn, rollouts or result(), self.run)


def _here() -> tuple[Run, Callable[[Coroutine], Callable[[], Any]]]:
    """One event loop, which runs when a result is asked for; connections live on in it."""
    runner = asyncio.Runner()
    return runner.run, lambda coroutine: lambda: runner.run(coroutine)


def _beside() -> tuple[Run, Callable[[Coroutine], Callable[[], Any]]]:
    """One event loop in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rollouts", daemon=True).start()

    def begin(coroutine: Coroutine) -> Callable[[], Any]:
        future: Future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return future.result

    return lambda coroutine: begin(coroutine)(), begin
