"""Who waits for the reply to a sentence, and how long.

A person who hears nothing says it again. So what was asked first must not be carried out minutes later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

LOOK_SECONDS = 0.25  # between two looks whether the asker is still there
T = TypeVar("T")


class AskerGone(Exception):
    """Nobody waits for the reply any more."""


async def never_gone() -> bool:
    """The `gone` of an asker who never goes."""
    return False


@dataclass(frozen=True)
class Asker:
    """Someone who waits until a time of the monotonic clock, or goes before."""

    until: float
    gone: Callable[[], Awaitable[bool]] = never_gone

    @property
    def remaining_seconds(self) -> float:
        """The seconds that the asker waits on."""
        return max(0.0, self.until - time.monotonic())

    async def require_waiting(self) -> None:
        """Raise `GivenUp` if the asker does not wait any more."""
        if time.monotonic() > self.until:
            raise AskerGone("it took too long")
        if await self.gone():
            raise AskerGone("whoever asked has hung up")

    async def run_while_waiting(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work, which is cancelled once nobody waits for it. Raises `GivenUp`."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await self.require_waiting()
                await asyncio.wait({task}, timeout=LOOK_SECONDS)
            return await task
        finally:
            task.cancel()
            await asyncio.wait({task})
