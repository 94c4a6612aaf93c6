"""A worker's part of a synthesis: it plays the blueprints of its shards concurrently, in one event loop.

Invariants:
- A shard's bytes are a pure function of the recipe and its range of blueprints (if models give the same answer to the same
  request).
- While blueprints are left, the allowed number of them is played, however long some take.
- The number of open shards is bounded, so memory does not grow with the number of shards.
- If asked for, shards are returned in order.
- Where servers fail for one blueprint after another, the work ends: going on would not help.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.play.faults import InfraError
from homerl.play.trajectory import Outcome, rows_to_json_lines
from homerl.synth.make import BlueprintResult, BlueprintSynthesiser
from homerl.synth.recipe import SynthesisConfig

OPEN = 32  # most shards that are open beyond those being played
FAILED = 10  # blueprints in a row, all of their shards, for which servers fail before the work ends


@dataclass(frozen=True)
class Shard:
    """A completed range of blueprints: the dataset's lines, and the statistics."""

    blueprints: range
    lines: str
    stats: dict[str, Any]


def assign_shards(config: SynthesisConfig, todo: Sequence[range], workers: int) -> list[tuple[Sequence[range], int]]:
    """(shards, concurrent blueprints) of each worker."""
    count = max(1, min(workers, len(todo), config.in_flight))
    return [(todo[w::count], (config.in_flight + w) // count) for w in range(count)]


def synthesise_shards(config: SynthesisConfig, todo: Sequence[range], at_once: int, ordered: bool = True) -> Iterator[Shard]:
    """Yield the shards of `todo`, in order or as they are completed.

    `at_once` blueprints are played concurrently, also across the borders of shards.
    """
    with asyncio.Runner() as loop:
        shards = _shards(config, todo, at_once, ordered)
        while (shard := loop.run(_next(shards))) is not None:
            yield shard


async def _next(shards: AsyncIterator[Shard]) -> Shard | None:
    return await anext(shards, None)


class BlueprintLimiter:
    """Lets `at_once` blueprints play at a time.

    `waiting` counts blueprints that are announced but have not started. `room` is set while `waiting` is less than
    `at_once`; the next shard is opened then.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once, self.waiting = at_once, 0
        self._free, self.room = asyncio.Semaphore(at_once), asyncio.Event()
        self.room.set()

    def expect_blueprints(self, more: int) -> None:
        """Announce `more` blueprints that will ask to play; a negative number takes them back."""
        self.waiting += more
        (self.room.set if self.waiting < self.at_once else self.room.clear)()

    async def __aenter__(self) -> None:
        await self._free.acquire()
        self.expect_blueprints(-1)

    async def __aexit__(self, *error: object) -> None:
        self._free.release()


async def _shards(config: SynthesisConfig, todo: Sequence[range], at_once: int, ordered: bool) -> AsyncIterator[Shard]:
    """Raises `InfraError` if servers failed for all blueprints of some shards in a row, and these are not few."""
    maker, limiter, failed = BlueprintSynthesiser(config), BlueprintLimiter(at_once), 0
    coming, pending = deque(todo), list[asyncio.Task[Shard]]()
    most = OPEN + at_once // config.shard
    try:
        while coming or pending:
            awaited = pending[:1] if ordered else pending
            if done := next((task for task in awaited if task.done()), None):
                pending.remove(done)
                faults = _faults(shard := done.result())
                failed = failed + len(faults) if len(faults) == len(shard.blueprints) else 0
                if failed >= min(FAILED, config.shard, config.blueprints):
                    raise InfraError(faults[0])
                yield shard
            elif coming and len(pending) < most and limiter.room.is_set():
                limiter.expect_blueprints(len(coming[0]))
                pending.append(asyncio.create_task(_shard(maker, coming.popleft(), limiter)))
            else:
                await _first(awaited, limiter.room if coming and len(pending) < most else None)
    finally:
        for task in pending:
            task.cancel()
        await maker.close()


async def _first(shards: Sequence[asyncio.Task[Shard]], room: asyncio.Event | None) -> None:
    """Wait until a shard is completed, or until `room` is set."""
    more = [asyncio.create_task(room.wait())] if room else []
    await asyncio.wait((*shards, *more), return_when=asyncio.FIRST_COMPLETED)
    for task in more:
        task.cancel()


async def _shard(maker: BlueprintSynthesiser, blueprints: range, limiter: BlueprintLimiter) -> Shard:
    """Play one range."""

    async def one(index: int) -> BlueprintResult:
        async with limiter:
            return await maker.synthesise_blueprint(index)

    made = await asyncio.gather(*map(one, blueprints))
    lines = [part.stats for part in made]
    dropped = sum((part.dropped for part in made), Counter())
    stats = {"blueprints": lines, "dropped": dict(sorted(dropped.items())), "transport": maker.take_transport_counts()}
    return Shard(blueprints, "".join(rows_to_json_lines(row for part in made for row in part.rows)), stats)


def _faults(shard: Shard) -> list[str]:
    """What failed where servers failed, for each such blueprint."""
    return [line["fault"] for line in shard.stats["blueprints"] if line["outcome"] == Outcome.INFRA_ERROR]
