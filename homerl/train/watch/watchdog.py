"""The watchdog stops a run in which a phase exceeds its deadline (exit code 4), and reports which ranks it waited for.

Invariants: it runs in a thread beside the work, so that a rank that hangs in a collective operation can still report; it
only reads the phase files that ranks have written, and asks no rank anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

from homerl.host.processes.exit_codes import write_exit_code
from homerl.host.terminal.console import print_error
from homerl.host.terminal.endings import RunStopped
from homerl.train.watch.phases import PhaseTimer, RankPhase

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
        self.stop = stop or _stop
        self._over = threading.Event()

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._watch, daemon=True).start()
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
        return _in_words(doing, deadline, now, self.phases)

    def _watch(self) -> None:
        while not self._over.wait(self.poll):
            if text := self.deadline_report():
                self.stop(text)
                return


def _in_words(doing: RankPhase, deadline: float, now: float, phases: PhaseTimer) -> str:
    others = phases.read_other_ranks()
    late = [other for other in others if (other.update, other.phase) != (doing.update, doing.phase)]
    text = f"{_of_rank(doing, now).replace(', which', '')} (allowed: {deadline:g} s)"
    if doing.waits and late:
        return f"{text}; it waits for " + ", ".join(_of_rank(other, now) for other in late)
    inside = str(phases.detail())
    return text + (f"; {inside}" if inside else "") + "".join(f"; {_of_rank(other, now)}" for other in late)


def _of_rank(doing: RankPhase, now: float) -> str:
    return f"rank {doing.rank}, which has been in `{doing.phase}` of update {doing.update} for {now - doing.since:.0f} s"


def _stop(text: str) -> None:
    print_error(f"the watchdog stopped the run: {text}")
    write_exit_code(STALLED)
    os._exit(STALLED)
