"""The watchdog: no phase outlasts its deadline; the run then says who waits for whom, and stops with code 4.

Invariants: it runs beside the work, in a thread, so that a rank that hangs in a collective can still speak; it only
reads what ranks wrote of themselves, and asks no rank anything.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping

from homerl.train.phases import Phases, RankPhase

STALLED = 4  # the exit code
POLL = 0.5


class Stalled(RuntimeError):
    """Something outside was waited for too long; the message says who waited for what."""


class Watchdog:
    """Watches one rank. `deadlines` are seconds by phase; phases without one may take as long as they like."""

    def __init__(
        self, phases: Phases, deadlines: Mapping[str, float], stop: Callable[[str], None] | None = None, poll: float = POLL
    ) -> None:
        self.phases, self.deadlines, self.poll = phases, deadlines, poll
        self.stop = stop or _stop
        self._over = threading.Event()

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def complaint(self) -> str | None:
        """What is wrong, if a phase has outlasted its deadline."""
        now = self.phases.clock()
        doing, _ = self.phases.stack[-1]
        deadline = self.deadlines.get(doing.phase)
        late = deadline is not None and now - doing.since > deadline
        return _in_words(doing, deadline, now, self.phases) if late else None

    def _watch(self) -> None:
        while not self._over.wait(self.poll):
            if text := self.complaint():
                self.stop(text)
                return


def _in_words(doing: RankPhase, deadline: float, now: float, phases: Phases) -> str:
    others = phases.others()
    late = [other for other in others if (other.update, other.phase) != (doing.update, doing.phase)]
    text = f"{_of_rank(doing, now).replace(', which', '')} (allowed: {deadline:g} s)"
    if doing.waits and late:
        return f"{text}; it waits for " + ", ".join(_of_rank(other, now) for other in late)
    inside = str(phases.detail())
    return text + (f"; {inside}" if inside else "") + "".join(f"; {_of_rank(other, now)}" for other in late)


def _of_rank(doing: RankPhase, now: float) -> str:
    return f"rank {doing.rank}, which has been in `{doing.phase}` of update {doing.update} for {now - doing.since:.0f} s"


def _stop(text: str) -> None:
    print(f"homerl: the watchdog stopped the run: {text}", file=sys.stderr, flush=True)
    os._exit(STALLED)
