"""Who waits for whom while episodes are played, and for how long.

Invariants: of every moment exactly one thing is waited for: the policy, if any episode waits for it; else the user, if
any does. What an episode does between two waits never yields, so its seconds are this process's own work: worlds,
rewards, rendering, bookkeeping. Nothing here starts or stops anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class WaitTimes:
    """`open` counts who is waited for now; `spent` the seconds, `own` those of our own work, `rewarding` of rewards."""

    clock: Callable[[], float] = time.perf_counter
    open: Counter[str] = field(default_factory=Counter)
    spent: Counter[str] = field(default_factory=Counter)
    own: float = 0.0
    rewarding: float = 0.0
    _since: float = 0.0

    @contextmanager
    def on(self, whom: str) -> Iterator[None]:
        """One episode waits."""
        self._settle()
        self.open[whom] += 1
        try:
            yield
        finally:
            self._settle()
            self.open[whom] -= 1

    def take(self) -> dict[str, float]:
        """Seconds by whom, since the last time."""
        self._settle()
        seconds = {"policy": self.spent["policy"], "user": self.spent["user"], "world": self.own, "reward": self.rewarding}
        self.spent.clear()
        self.own = self.rewarding = 0.0
        return seconds

    def __str__(self) -> str:
        waits = [f"{count} of its episodes wait for the {whom}" for whom, count in sorted(self.open.items()) if count]
        return ", ".join(waits) or "no episode waits for anybody"

    def _settle(self) -> None:
        now = self.clock()
        whom = next((name for name in ("policy", "user") if self.open[name]), None)
        if whom:
            self.spent[whom] += now - self._since
        self._since = now


class EpisodeTimer:
    """One episode's turns of waiting and working."""

    def __init__(self, waiting: WaitTimes) -> None:
        self.waiting, self.since = waiting, waiting.clock()

    @contextmanager
    def on(self, whom: str) -> Iterator[None]:
        """The episode waits."""
        self.worked()
        try:
            with self.waiting.on(whom):
                yield
        finally:
            self.since = self.waiting.clock()

    def worked(self) -> None:
        """Book what was done since the last wait."""
        self.waiting.own += self.waiting.clock() - self.since
