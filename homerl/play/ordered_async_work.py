"""Work beside the event loop: what a message of an agent does, since its code may be slow.

Invariants:
- The loop stands still for at most `GRACE` seconds for one message. Most code has ended by then; to wait for it keeps the
  order in which episodes go on.
- Nothing that follows depends on which messages were slow: who takes what episodes ask at the same time (a sampler, for a
  batch) waits (`call_when_settled`), and orders it by `place_of_task`. By then every episode has asked that asks without a
  wait for something else, also one that began because others had ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from typing import TypeVar
from weakref import WeakKeyDictionary

GRACE = 0.02  # tens of times what a usual snippet takes
ROUNDS = 16  # of the loop, in which an episode that follows upon others has begun: each `gather` between them takes two
NEW = 1 << 62  # the place of a task that has not gone on yet: after all others
Done = TypeVar("Done")
_places = count()
_gone_on: ContextVar[int] = ContextVar("gone_on", default=NEW)
_begun: ContextVar[int] = ContextVar("begun", default=NEW)


@dataclass
class _Slow:
    """The work of one loop that outlasted its grace: how much runs, and what is to be called when none does."""

    running: int = 0
    after: list[Callable[[], None]] = field(default_factory=list)


_slow: WeakKeyDictionary[asyncio.AbstractEventLoop, _Slow] = WeakKeyDictionary()


@lru_cache(maxsize=1)
def _thread_pool(process: int) -> ThreadPoolExecutor:
    """Threads for the work, as many as the sandbox has workers. A forked process has none of its parent's."""
    return ThreadPoolExecutor(max(4, os.cpu_count() or 1), "beside")


async def run_beside_loop(work: Callable[[], Done]) -> Done:
    """The result of work that is done in a thread. If this is cancelled, work that has begun goes on to its end."""
    working = _thread_pool(os.getpid()).submit(work)
    try:
        return working.result(GRACE)
    except TimeoutError:
        if working.done():  # by now, or by such an error of its own
            return working.result()
    loop = asyncio.get_running_loop()
    slow = _slow.setdefault(loop, _Slow())
    slow.running += 1
    try:
        return await asyncio.wrap_future(working)
    finally:
        slow.running -= 1
        if not slow.running:
            after, slow.after = slow.after, []
            for then in after:
                loop.call_soon(then)


def call_when_settled(then: Callable[[], None], rounds: int = ROUNDS) -> None:
    """Call `then` when no slow work runs beside this loop, and what follows upon it has been done."""
    loop = asyncio.get_running_loop()
    slow = _slow.get(loop)
    if slow is not None and slow.running:
        slow.after.append(partial(call_when_settled, then))
    elif rounds:
        loop.call_soon(call_when_settled, then, rounds - 1)
    else:
        then()


def place_of_task() -> tuple[int, int, int]:
    """The place of this task in the order of all: as tasks have gone on last; then those that have not, as their groups
    have begun.
    """
    return _gone_on.get(), _begun.get(), next(_places)


def take_next_place() -> None:
    """Take the next place: what this task has asked for is there, and all who asked at the same time go on in order."""
    _gone_on.set(next(_places))


def begin_task_group() -> None:
    """Take the next place for the tasks that this one will begin."""
    _begun.set(next(_places))
