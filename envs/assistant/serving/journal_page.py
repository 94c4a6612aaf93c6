"""The page of a log: what the agent did, or would have done, day by day.

Invariants: the page is one file without network and script; all that people, models and devices said is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path

from homerl.envs.assistant.serving.call_effects import ChangeRecord
from homerl.envs.assistant.serving.exchange_journal import CallRecord, DamagedLine, JournalEntry
from homerl.host.html_pages import identifier_to_words, load_template

MEANING = {  # of each outcome, as the page says it
    "said": "answered",
    "shadowed": "would have acted",
    "nothing": "would change nothing",
    "asked": "asked for consent",
    "done": "acted",
    "acting": "is acting, or was stopped while it acted",
    "partly": "acted in part",
    "refused": "could not",
    "failed": "failed",
    "declined": "left it",
    "unexpected": "not as expected",
}


@dataclass(frozen=True)
class DeviceLine:
    """What changes in a device: the changes that its line tells, and the number of others."""

    device: str
    did: str
    told: tuple[ChangeRecord, ...]
    more: int

    @property
    def is_as_expected(self) -> bool:
        """Whether the real home was looked at, and all that is told is there as it should be."""
        return all(change.compared and not change.differs for change in self.told)


def device_lines(changes: Sequence[ChangeRecord], calls: Sequence[CallRecord] = ()) -> list[DeviceLine]:
    """A line for each device. It tells its state, what a call named, and what is not as expected; if nothing is, all."""
    named = {(call.did, name) for call in calls for name in call.arguments}
    found: dict[str, list[ChangeRecord]] = {}
    for change in changes:
        found.setdefault(change.did, []).append(change)
    lines = []
    for own in found.values():
        names = [change.path.rpartition(".")[2] for change in own]
        main = [one for one, name in zip(own, names) if name == "state" or one.differs or (one.did, name) in named]
        told = tuple(main or own)
        lines.append(DeviceLine(own[0].device, own[0].did, told, len(own) - len(told)))
    return lines


def exchange_badges(entry: JournalEntry) -> tuple[str, ...]:
    """The keys of `MEANING` for what came of an exchange."""
    nothing = entry.outcome == "shadowed" and not (entry.changes or entry.later)
    outcome = "nothing" if nothing else entry.outcome
    return (outcome, "unexpected") if any(change.differs for change in entry.changes) else (outcome,)


@dataclass(frozen=True)
class JournalDay:
    """The exchanges of one day, the latest first."""

    date: date
    entries: tuple[JournalEntry, ...]

    @property
    def badge_counts(self) -> list[tuple[str, str, int]]:
        """(badge, its meaning, number of exchanges that have it), the most frequent first."""
        found = Counter(badge for one in self.entries for badge in exchange_badges(one))
        return [(key, MEANING[key], number) for key, number in found.most_common()]


def journal_days(entries: Sequence[JournalEntry]) -> Iterator[JournalDay]:
    """The days of a journal in this machine's time zone, the latest first."""
    ordered = sorted(entries, key=lambda entry: entry.time, reverse=True)
    for day, of_day in groupby(ordered, key=lambda entry: entry.time.astimezone().date()):
        yield JournalDay(day, tuple(of_day))


def render_journal_page(
    entries: Sequence[JournalEntry], damaged: Sequence[DamagedLine] = (), simulated: bool = False
) -> str:
    """The page as HTML. Damaged lines of the log stand before the days, and whether the served home is `simulated`."""
    journal = load_template(
        Path(__file__).with_name("journal.html.jinja"),
        plain=lambda path: identifier_to_words(path).replace(".", " "),
        value=lambda value: "nothing" if value is None else str(value),
    )
    ways = {(one.mode, one.agent) for one in entries}
    return journal.render(
        days=list(journal_days(entries)),
        meaning=MEANING,
        entries=entries,
        damaged=damaged,
        simulated=simulated,
        badges=exchange_badges,
        lines=device_lines,
        ways=ways,
    )
