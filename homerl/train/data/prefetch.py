"""Plays the groups of updates: in their own update, or ahead of them beside the trainer.

Invariants:
- With k = 0 a batch is played when it is asked for, in the calling thread. It is exactly on-policy.
- With k > 0 groups are played in one thread beside the trainer. `queue.py` says which of them an update takes, so that no
  token is sampled by weights older than k updates. The update then begins as many others, with its own weights.
- While an update is trained on, (k + 1) / 2 batches are played. k batches could be; fewer are younger on average, and
  leave the queue a choice (tests/benchmarks/stragglers.py has the figures).
- Groups that are running when the sampler receives new weights continue with the new weights.
- Collective operations stay in the trainer's thread: each rank plays, and takes, as many groups in every update.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from homerl.train.data.curriculum import GroupDraw
from homerl.train.data.queue import GroupQueue
from homerl.train.data.supply import RolloutBatch, RolloutSupply

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class RolloutPrefetcher:
    """Hands out the batches of updates, whose groups it begins up to `k` updates ahead.

    `updates` is the number of updates in the run: no group is drawn that none of them would take.
    """

    def __init__(self, supply: RolloutSupply, k: int, updates: int) -> None:
        self.supply, self.k, self.updates = supply, k, updates
        self.run, self.begin = _beside() if k else _here()
        self.queue = GroupQueue(len(supply.ranks.rank_share(supply.groups)), k)
        self.first: int | None = None  # the update with which this process began

    def take_batch(self, update: int, sync: Callable[[], None]) -> RolloutBatch:
        """Return the batch of an update, played and credited.

        `sync` sends this update's weights to the sampler. Groups that were begun earlier are waited for before it.
        """
        early = self.queue.take_groups(update) if self.k and self.first is not None else None
        sync()
        self.first = first = update if self.first is None else self.first

        def begun(updates: int, share: int) -> int:
            """The number of groups that a rank of this share has begun when so many updates have been trained on."""
            return min((self.updates - first) * share, updates * share + count_groups_ahead(share, self.k)) if updates else 0

        draws = self.supply.draw_groups(lambda share: begun(update + 1 - first, share) - begun(update - first, share))
        if not self.k:
            return self.supply.finish_batch(self.run(self.supply.play_groups(draws)))
        for draw in draws:
            self.begin(self._play(draw))
        return self.supply.finish_batch(early or self.queue.take_groups(update))

    async def _play(self, draw: GroupDraw) -> None:
        def begins() -> None:
            self.queue.mark_begun(draw.number, self.supply.player.engine.version)

        try:
            self.queue.mark_ended(await self.supply.play_group(draw, begins))
        except BaseException as error:  # the trainer's thread, which waits for the group, raises it
            self.queue.fail_with(error)


def count_groups_ahead(share: int, k: int) -> int:
    """The number of groups that a rank plays while it trains, if it trains on `share` groups in an update."""
    return -(-share * (k + 1) // 2) if k else 0


def _here() -> tuple[Run, Run]:
    """An event loop that runs only while a result is awaited. It is kept, so that connections survive from call to call."""
    run = asyncio.Runner().run
    return run, run


def _beside() -> tuple[Run, Run]:
    """An event loop in a daemon thread of its own: `run` waits for a result, `begin` does not."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rollouts", daemon=True).start()

    def begin(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    return lambda coroutine: begin(coroutine).result(), begin
