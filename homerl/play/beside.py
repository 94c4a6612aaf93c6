"""Work beside the event loop: what a message of an agent does, since its code may be slow.

Invariants:
- The loop stands still for at most `GRACE` seconds for one message. Most code has ended by then; to wait for it keeps the
  order in which episodes go on.
- Nothing that follows depends on which messages were slow: who takes what episodes ask at the same time (a sampler, for a
  batch) waits until the loop is `settled`, and orders it by `place`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import TypeVar
from weakref import WeakKeyDictionary

GRACE = 0.02  # tens of times what a usual snippet takes
Done = TypeVar("Done")
_places = count()
_place: ContextVar[int | None] = ContextVar("place", default=None)


@dataclass
class _Slow:
    """The work of one loop that outlasted its grace: how much runs, and what is to be called when none does."""

    running: int = 0
    after: list[Callable[[], None]] = field(default_factory=list)


_slow: WeakKeyDictionary[asyncio.AbstractEventLoop, _Slow] = WeakKeyDictionary()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads for the work, as many as the sandbox has workers. A forked process has none of its parent's."""
    return ThreadPoolExecutor(max(4, os.cpu_count() or 1), "beside")


async def beside(work: Callable[[], Done]) -> Done:
    """The result of work that is done in a thread. If this is cancelled, work that has begun goes on to its end."""
    working = _threads(os.getpid()).submit(work)
    try:
        return working.result(GRACE)
    except TimeoutError:
        if working.done():  # by now, or by such an error of its own
            return working.result()
    loop = asyncio.get_running_loop()
    slow = _slow.setdefault(loop, _Slow())
    slow.running += 1
    _place.set(next(_places))
    try:
        return await asyncio.wrap_future(working)
    finally:
        slow.running -= 1
        if not slow.running:
            after, slow.after = slow.after, []
            for then in after:
                loop.call_soon(then)


def settled(then: Callable[[], None]) -> bool:
    """Whether no slow work runs beside this loop. If some does, `then` is called when all of it has ended."""
    slow = _slow.get(asyncio.get_running_loop())
    if slow is None or not slow.running:
        return True
    slow.after.append(then)
    return False


def place() -> int:
    """The place of this task in the order of all: when its last slow work began, or now. It is used up."""
    begun = _place.get()
    _place.set(None)
    return next(_places) if begun is None else begun
