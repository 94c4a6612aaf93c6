"""Records what each rank is doing and since when, and stops a run in which a phase exceeds its deadline (exit code 4).

Invariants:
- Every second since the last `take_time_shares` is in exactly one share. Time outside of all phases is in `train`, and
  before the first update in `start`: an engine that begins beside the trainer may take minutes.
- Each rank writes its phase to its own file in the run's folder, completely or not at all. So every rank can read what
  the others do.
- The watchdog runs in a thread beside the work, so that a rank that hangs in a collective operation can still report. It
  names the ranks that were waited for, and only reads the phase files that ranks have written.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from homerl.host.exit_codes import RunStopped, write_exit_code
from homerl.host.terminal import print_error

SHARES = ("rollout", "user", "world", "reward", "train", "sync", "idle", "start")
TRAIN, START = "train", "start"


@dataclass(frozen=True)
class RankPhase:
    """The phase that a rank is in.

    `since` is wall-clock time in seconds, comparable between machines: when the phase began, or when it continued after
    a nested phase. `waits` tells whether the rank waits for other ranks in it.
    """

    rank: int
    phase: str
    since: float
    update: int = 0
    waits: bool = False


@dataclass
class PhaseTimer:
    """The nested phases of one rank, and the seconds spent in each share. `detail` returns text on the current phase.

    `ranks` is the number of ranks, if it is known: an earlier start with more of them left their files.
    """

    folder: Path
    rank: int = 0
    clock: Callable[[], float] = time.time
    update: int = 0
    detail: Callable[[], object] = str
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    stack: list[tuple[RankPhase, str]] = field(default_factory=list)
    ranks: float = math.inf

    def __post_init__(self) -> None:
        self._since = self.clock()
        self._begin_phase(START, START, False)

    @contextmanager
    def enter_phase(self, name: str, share: str | None = None, waits: bool = False) -> Iterator[None]:
        """Be in a phase within the context. Its time, without that of nested phases, counts to `share` (default: `name`)."""
        self._begin_phase(name, share or name, waits)
        try:
            yield
        finally:
            self._count_seconds()
            self.stack.pop()
            outer, kept = self.stack[-1]
            # the deadline of the outer phase begins anew: it is for waiting in it, not for the nested phase
            self.stack[-1] = replace(outer, since=self.clock()), kept
            self._write_phase()

    def begin_training(self, update: int) -> None:
        """Note that the trainer's own work on an update begins: the work outside of all phases."""
        self._count_seconds()
        self.update = update
        self.stack[0] = (RankPhase(self.rank, TRAIN, self.clock(), update), TRAIN)
        self._write_phase()

    def move_seconds(self, source: str, target: str, seconds: float) -> None:
        """Move seconds from one share to another, for time that only the code inside a phase can divide."""
        moved = min(max(0.0, seconds), self.spent[source])
        self.spent[source] -= moved
        self.spent[target] += moved

    def take_time_shares(self) -> dict[str, float]:
        """The shares of the time since the last call, as `time/<share>`, and the seconds; then start again from zero."""
        self._count_seconds()
        total = sum(self.spent.values())
        shares = {f"time/{name}": self.spent[name] / total if total else 0.0 for name in SHARES}
        self.spent.clear()
        return shares | {"time/seconds": total}

    def read_other_ranks(self) -> list[RankPhase]:
        """The phases of the other ranks, as read from their files."""
        phases = []
        for path in sorted(self.folder.glob("rank_*.json")):
            try:
                phases.append(RankPhase(**json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError):  # the file is being written, or is of another version
                continue
        return [doing for doing in phases if doing.rank != self.rank and doing.rank < self.ranks]

    def _begin_phase(self, name: str, share: str, waits: bool) -> None:
        self._count_seconds()
        self.stack.append((RankPhase(self.rank, name, self.clock(), self.update, waits), share))
        self._write_phase()

    def _count_seconds(self) -> None:
        now = self.clock()
        if self.stack:
            self.spent[self.stack[-1][1]] += now - self._since
        self._since = now

    def _write_phase(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"rank_{self.rank}.json"
        written = path.with_suffix(".tmp")  # it need not outlive a crash, so nobody waits for the disk
        written.write_text(json.dumps(asdict(self.stack[-1][0])), encoding="utf-8")
        written.replace(path)


STALLED = 4  # the exit code
POLL = 0.5


class RunStalled(RunStopped):
    """The run waited too long for something outside of it (exit code 4). The message says what."""

    by, code, by_all = "watchdog", STALLED, True


class Watchdog:
    """Watches one rank. `deadlines` are seconds by phase; a phase without one may take any time."""

    def __init__(
        self,
        phases: PhaseTimer,
        deadlines: Mapping[str, float],
        stop: Callable[[str], None] | None = None,
        poll: float = POLL,
    ) -> None:
        self.phases, self.deadlines, self.poll = phases, deadlines, poll
        self.stop = stop or _stop_process
        self._over = threading.Event()  # set when the work ends, which ends the thread

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._watch_deadlines, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def deadline_report(self) -> str | None:
        """The report, if the current phase has exceeded its deadline; else None."""
        now = self.phases.clock()
        doing, _ = self.phases.stack[-1]
        deadline = self.deadlines.get(doing.phase)
        if deadline is None or now - doing.since <= deadline:
            return None
        others = self.phases.read_other_ranks()
        # a rank in the same phase of the same update waits as this one does; any other is one that may be waited for
        late = [other for other in others if (other.update, other.phase) != (doing.update, doing.phase)]
        text = f"{_describe_rank(doing, now).replace(', which', '')} (allowed: {deadline:g} s)"
        if doing.waits and late:
            return f"{text}; it waits for " + ", ".join(_describe_rank(other, now) for other in late)
        inside = str(self.phases.detail())
        return text + (f"; {inside}" if inside else "") + "".join(f"; {_describe_rank(other, now)}" for other in late)

    def _watch_deadlines(self) -> None:
        while not self._over.wait(self.poll):
            if text := self.deadline_report():
                self.stop(text)
                return


def _describe_rank(doing: RankPhase, now: float) -> str:
    return f"rank {doing.rank}, which has been in `{doing.phase}` of update {doing.update} for {now - doing.since:.0f} s"


def _stop_process(text: str) -> None:
    print_error(f"the watchdog stopped the run: {text}")
    write_exit_code(STALLED)
    os._exit(STALLED)  # at once: the main thread may hang in a collective operation, and would never see an exception
