"""What each rank is doing, since when, and where the time of an update went.

Invariants: every second since the last `take` is in exactly one share, and what no phase names is `train`; each rank
writes its phase to a file of its own beside the run, whole or not at all, so that any rank can say what the others do.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from envs.documents import write_atomic

SHARES = ("rollout", "user", "world", "reward", "train", "sync", "idle")
TRAIN = "train"


@dataclass(frozen=True)
class RankPhase:
    """A rank's phase. `since` is a time of day, which machines share: when it began, or went on after one inside it;
    `waits` says whether it is one of waiting for the other ranks."""

    rank: int
    phase: str
    since: float
    update: int = 0
    waits: bool = False


@dataclass
class Phases:
    """`detail` may say more about the phase that is on."""

    folder: Path
    rank: int = 0
    clock: Callable[[], float] = time.time
    update: int = 0
    detail: Callable[[], object] = str
    spent: Counter[str] = field(default_factory=Counter)
    stack: list[tuple[RankPhase, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._since = self.clock()
        self._begin("start", TRAIN, False)

    @contextmanager
    def phase(self, name: str, share: str | None = None, waits: bool = False) -> Iterator[None]:
        """Be in a phase; its time, less that of phases inside it, goes to `share` (by default, its name)."""
        self._begin(name, share or name, waits)
        try:
            yield
        finally:
            self._settle()
            self.stack.pop()
            outer, kept = self.stack[-1]
            self.stack[-1] = replace(outer, since=self.clock()), kept
            self._tell()

    def training(self, update: int) -> None:
        """The trainer's own work on an update begins, which is what is done outside all phases."""
        self._settle()
        self.update = update
        self.stack[0] = (RankPhase(self.rank, TRAIN, self.clock(), update), TRAIN)
        self._tell()

    def move(self, source: str, target: str, seconds: float) -> None:
        """Book seconds of one share on another, where only what happened inside can tell."""
        moved = min(max(0.0, seconds), self.spent[source])
        self.spent[source] -= moved
        self.spent[target] += moved

    def take(self) -> dict[str, float]:
        """Each share of the time since the last time, and the seconds."""
        self._settle()
        total = sum(self.spent.values())
        shares = {f"time/{name}": self.spent[name] / total if total else 0.0 for name in SHARES}
        self.spent.clear()
        return shares | {"time/seconds": total}

    def others(self) -> list[RankPhase]:
        """What the other ranks say that they do."""
        phases = []
        for path in sorted(self.folder.glob("rank_*.json")):
            try:
                phases.append(RankPhase(**json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError):  # being written, or another version's
                continue
        return [doing for doing in phases if doing.rank != self.rank]

    def _begin(self, name: str, share: str, waits: bool) -> None:
        self._settle()
        self.stack.append((RankPhase(self.rank, name, self.clock(), self.update, waits), share))
        self._tell()

    def _settle(self) -> None:
        now = self.clock()
        if self.stack:
            self.spent[self.stack[-1][1]] += now - self._since
        self._since = now

    def _tell(self) -> None:
        if self.folder != Path(os.devnull):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self.folder / f"rank_{self.rank}.json", json.dumps(asdict(self.stack[-1][0])))
