"""The page of a journal: what the agent did, or would have done, day by day.

Invariants: the page is one file without network and script; all that people, models and devices said is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path

from homerl.pages.templates import spaced, template
from homerl.worlds.homeenv.serving.journal import Damaged, Entry

MEANING = {  # of each outcome, as the page says it
    "said": "answered", "shadowed": "would have acted", "asked": "asked for consent", "done": "acted",
    "acting": "is acting, or was stopped while it acted", "partly": "acted in part",
    "refused": "could not", "failed": "failed", "declined": "left it",
}  # fmt: skip


@dataclass(frozen=True)
class Day:
    """The exchanges of one day, the latest first."""

    date: date
    entries: tuple[Entry, ...]

    @property
    def counts(self) -> list[tuple[str, str, int]]:
        """(outcome, its meaning, number), the most frequent first."""
        return [(key, MEANING[key], number) for key, number in Counter(one.outcome for one in self.entries).most_common()]

    @property
    def differences(self) -> int:
        """How often the real home became other than the twin."""
        return sum(change.differs for entry in self.entries for change in entry.changes)


def days(entries: Sequence[Entry]) -> Iterator[Day]:
    """The days of a journal in this machine's time zone, the latest first."""
    ordered = sorted(entries, key=lambda entry: entry.time, reverse=True)
    for day, of_day in groupby(ordered, key=lambda entry: entry.time.astimezone().date()):
        yield Day(day, tuple(of_day))


def journal_page(entries: Sequence[Entry], damaged: Sequence[Damaged] = ()) -> str:
    """The page as HTML. Damaged lines of the log stand before the days."""
    filters = {"plain": lambda path: spaced(path).replace(".", " "), "value": lambda v: "nothing" if v is None else str(v)}
    journal = template(Path(__file__).with_name("journal.html.jinja"), **filters)
    return journal.render(days=list(days(entries)), meaning=MEANING, entries=entries, damaged=damaged)
