"""Prefetches rollouts: while the trainer takes batch u, the batches up to u + k are already being played.

Invariants:
- With k = 0 a batch is played when it is asked for, in the calling thread. It is exactly on-policy.
- With k > 0 the episodes run in one thread beside the trainer. Batch u starts only after the sampler has the weights of
  update u - k, so no token is sampled by weights older than k updates.
- Episodes that are running when the sampler receives new weights continue with the new weights.
- Collective operations stay in the trainer's thread.
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
    """Starts batches up to `k` updates ahead and hands them out in order.

    `updates` is the number of updates in the run: no batch is started beyond the last one.
    """

    def __init__(self, supply: Supply, k: int, updates: int) -> None:
        self.supply, self.k, self.updates = supply, k, updates
        self.begun: OrderedDict[int, tuple[list[int], Callable[[], dict[int, Rollout]]]] = OrderedDict()
        self.run, self.begin = _beside() if k else _here()

    def take(self, update: int, sync: Callable[[], None]) -> Batch:
        """Return the batch of an update, played and credited.

        `sync` sends this update's weights to the sampler. It is called after this batch, if the batch was started
        earlier, and before any batch that starts now.
        """
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
    """An event loop that runs only while a result is awaited. It is kept, so that connections survive from call to call."""
    runner = asyncio.Runner()
    return runner.run, lambda coroutine: lambda: runner.run(coroutine)


def _beside() -> tuple[Run, Callable[[Coroutine], Callable[[], Any]]]:
    """An event loop in a daemon thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rollouts", daemon=True).start()

    def begin(coroutine: Coroutine) -> Callable[[], Any]:
        future: Future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return future.result

    return lambda coroutine: begin(coroutine)(), begin
