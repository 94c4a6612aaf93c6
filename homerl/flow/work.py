"""A worker's part of a synthesis: shards in order, so many blueprints in play at once, in one event loop.

Invariants: a shard's bytes are a pure function of the recipe and its range of blueprints (if models answer alike to like
requests); few shards are open at a time, so memory does not grow with their number; shards come in the order in which
they were given.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.flow.config import SynthesisConfig
from homerl.flow.make import REFUSED, Maker
from homerl.play import InfraError
from homerl.trajectory import Outcome, as_lines


@dataclass(frozen=True)
class Shard:
    """A range of blueprints, done: the lines of the dataset, and the statistics."""

    blueprints: range
    lines: str
    stats: dict[str, Any]


def dealt(config: SynthesisConfig, todo: Sequence[range], workers: int) -> list[tuple[Sequence[range], int]]:
    """(shards, blueprints in play) of each worker."""
    count = max(1, min(workers, len(todo), config.in_flight))
    return [(todo[w::count], (config.in_flight + w) // count) for w in range(count)]


def work(config: SynthesisConfig, todo: Sequence[range], at_once: int) -> Iterator[Shard]:
    """Make shards one after the other, `at_once` blueprints in play across their borders."""
    with asyncio.Runner() as loop:
        shards = _shards(config, todo, at_once)
        while (shard := loop.run(_next(shards))) is not None:
            yield shard


async def _next(shards: AsyncIterator[Shard]) -> Shard | None:
    return await anext(shards, None)


async def _shards(config: SynthesisConfig, todo: Sequence[range], at_once: int) -> AsyncIterator[Shard]:
    maker, gate = Maker(config), asyncio.Semaphore(at_once)
    ahead = 2 + at_once // config.shard
    pending: deque[asyncio.Task[Shard]] = deque()
    try:
        for blueprints in todo:
            pending.append(asyncio.create_task(_shard(maker, blueprints, gate)))
            if len(pending) == ahead:
                yield await pending.popleft()
        while pending:
            yield await pending.popleft()
    finally:
        for task in pending:
            task.cancel()
        await maker.close()


async def _shard(maker: Maker, blueprints: range, gate: asyncio.Semaphore) -> Shard:
    """One range; where no server answered for any of it, there is no use in going on."""

    async def one(index: int) -> Any:
        async with gate:
            return await maker.one(index)

    made = await asyncio.gather(*map(one, blueprints))
    lines = [part.stats for part in made]
    if all(line["outcome"] in (Outcome.INFRA_ERROR, REFUSED) for line in lines):
        raise InfraError(lines[0]["fault"])
    dropped = sum((part.dropped for part in made), Counter())
    stats = {"blueprints": lines, "dropped": dict(sorted(dropped.items())), "transport": maker.transport()}
    return Shard(blueprints, "".join(as_lines(row for part in made for row in part.rows)), stats)
