"""Measures what concurrent episodes wait for, and for how long.

Invariants:
- Each moment of waiting counts to one thing: to the policy if any episode waits for it, else to the user.
- An episode does not yield between two waits, but while slow code of its agent runs (`homerl/play/beside.py`). So that time
  is this process's own work: world, rewards, rendering and bookkeeping.
- Nothing here starts or stops anything.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class WaitTimes:
    """The wait times of all episodes: `open` counts current waits by cause, `spent` has their seconds.

    `own` has the seconds of this process's own work, and `rewarding` those of computing rewards.
    """

    clock: Callable[[], float] = time.perf_counter
    open: Counter[str] = field(default_factory=Counter)
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    own: float = 0.0
    rewarding: float = 0.0
    _since: float = 0.0

    @contextmanager
    def measure_wait(self, whom: str) -> Iterator[None]:
        """One episode waits for `whom` within the context."""
        self._settle()
        self.open[whom] += 1
        try:
            yield
        finally:
            self._settle()
            self.open[whom] -= 1

    def take_wait_seconds(self) -> dict[str, float]:
        """The seconds by cause since the last call; then start again from zero."""
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
    """Measures the waits of one episode, and its work between them."""

    def __init__(self, waiting: WaitTimes) -> None:
        self.waiting, self.since = waiting, waiting.clock()

    @contextmanager
    def measure_wait(self, whom: str) -> Iterator[None]:
        """The episode waits for `whom` within the context."""
        self.count_own_work()
        try:
            with self.waiting.measure_wait(whom):
                yield
        finally:
            self.since = self.waiting.clock()

    def count_own_work(self) -> None:
        """Count the time since the last wait as own work."""
        self.waiting.own += self.waiting.clock() - self.since
