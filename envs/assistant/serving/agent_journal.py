"""The log of a served agent: one line of JSON for each thing that a person said, and one before the calls for it.

Invariants:
- Lines are only ever appended, each whole and on disk before the home is touched or the person hears the answer.
- No token is in it, and of codes and passwords given as arguments, also in refused calls, only that there was one. Only its
  owner reads the file.
- A line that cannot be read costs no other one, and is told.

The page of a journal: what the agent did, or would have done, day by day.

Invariants: the page is one file without network and script; all that people, models and devices said is escaped.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, ValidationError

from homerl.envs.assistant.serving.secret_masking import mask_codes
from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.host.html_pages import identifier_to_words, load_template

OWNER_ALONE = 0o600  # the mode of a log: it says what people said, and when they are at home
SHOWN = 200  # characters of a damaged line
Outcome = Literal["said", "shadowed", "asked", "acting", "done", "partly", "refused", "failed", "declined"]
Fate = Literal["meant", "sent", "done", "failed"]


class CallRecord(Model):
    """A service call as the twin of the home carried it out, and what became of it in the real home.

    `fate`: `meant` (not sent), `sent` (nothing is known of its end), `done`, `failed`.
    """

    did: str
    service: str
    arguments: dict[str, Any] = {}
    fate: Fate = "meant"


class ChangeRecord(Model):
    """What a call changes: the value before, at once after, and once all that moves has arrived (`settled`).

    `actual` is the value in the real home afterwards, if it was another one; `compared` says whether it was looked at. The
    values of a `hidden` one are not told, and the real home does not tell its own.
    """

    did: str
    device: str
    path: str
    before: Any = None
    after: Any = None
    settled: Any = None
    actual: Any = None
    differs: bool = False
    compared: bool = False
    hidden: bool = False


class JournalEntry(Model):
    """One exchange, or its beginning.

    `outcome`: `said` (no call), `shadowed` (it would have acted), `asked` (waits for consent), `acting` (its calls are about
    to be made), `done`, `partly` (some calls were made, others failed or were refused by the twin), `refused` (the twin took
    nothing that the agent tried, or one device was to be called too often), `failed` (Home Assistant did not do it),
    `declined` (consent was not given).
    An exchange that acts has two entries of the same `time`, which is when it began: `acting`, and how it ended.
    `later` is what automations change afterwards, against what would be so without the calls.
    `guarded` holds the reason by device, and `refusals` what the twin refused. `kept` is the share of prompt and tools, from
    their beginning, that the model had for the sentence before as well: a server's cache saves it.
    """

    time: AwareDatetime
    mode: str
    agent: str
    said: str
    reply: str
    outcome: Outcome
    calls: tuple[CallRecord, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    later: tuple[ChangeRecord, ...] = ()
    refusals: tuple[str, ...] = ()
    guarded: dict[str, str] = {}
    error: str | None = None
    seconds: float = 0.0
    kept: float | None = None


@dataclass(frozen=True)
class DamagedLine:
    """A line of a log that is no exchange: its number from 1, what is wrong with it, and its beginning."""

    line: int
    why: str
    text: str


@dataclass(frozen=True)
class JournalContents:
    """What a log holds, in the order of its lines."""

    entries: tuple[JournalEntry, ...] = ()
    damaged: tuple[DamagedLine, ...] = ()


class JournalWriteError(Exception):
    """An entry could not be written to the log; the text says why."""


class AgentJournal:
    """A file of entries. Raises `InputError` if it cannot be written at the beginning, `JournalWriteError` if not later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            open(path, "ab", opener=_open_for_owner).close()
            if path.is_file():  # no device
                path.chmod(OWNER_ALONE)  # one of an earlier version too
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"the log cannot be written ({reason})", str(path), "name another file with --log") from None

    def append_entry(self, entry: JournalEntry) -> None:
        """Write an entry to disk. Raises `JournalWriteError`."""
        text = json.dumps(mask_codes(entry.model_dump(mode="json")), ensure_ascii=False)
        try:
            with open(self.path, "ab+", opener=_open_for_owner) as file:
                if file.seekable() and file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read() != b"\n":
                    file.write(b"\n")  # a crash has cut the last line
                file.write(text.encode("utf-8", "replace") + b"\n")
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a device has no disk to wait for
                    os.fsync(file.fileno())
        except OSError as error:
            raise JournalWriteError(error.strerror or str(error)) from error

    def read_contents(self) -> JournalContents:
        """All that was written."""
        return read_journal(self.path)

    def read_entries(self) -> list[JournalEntry]:
        """All entries, in order."""
        return list(self.read_contents().entries)


def read_journal(path: Path) -> JournalContents:
    """A log. Raises `InputError` if there is no such file.

    What stands behind the last line break is being written, or was cut by a crash. It is left out if it is no entry.
    """
    if not path.exists():
        raise InputError("there is no such log", str(path), "name the file of `homerl serve-agent --log`")
    *lines, last = path.read_bytes().split(b"\n")  # other signs that end a line may stand in a sentence
    read = [_read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if isinstance(unfinished := _read_line(len(lines) + 1, last), JournalEntry):
        read.append(unfinished)
    # the last entry of each exchange: it is `acting` if the program was stopped before it could tell the end
    entries = {(one.time, one.said): one for one in read if isinstance(one, JournalEntry)}
    return JournalContents(tuple(entries.values()), tuple(one for one in read if isinstance(one, DamagedLine)))


def _read_line(number: int, line: bytes) -> JournalEntry | DamagedLine:
    text = line.decode("utf-8", "replace")  # a crash may cut a character
    try:
        return JournalEntry.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return DamagedLine(number, f"{where}: {first['msg']}" if where else first["msg"], text[:SHOWN])


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, OWNER_ALONE)


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


def render_journal_page(entries: Sequence[JournalEntry], damaged: Sequence[DamagedLine] = ()) -> str:
    """The page as HTML. Damaged lines of the log stand before the days."""
    filters = {
        "plain": lambda path: identifier_to_words(path).replace(".", " "),
        "value": lambda v: "nothing" if v is None else str(v),
    }
    journal = load_template(Path(__file__).with_name("journal.html.jinja"), **filters)
    ways = {(one.mode, one.agent) for one in entries}
    return journal.render(
        days=list(journal_days(entries)),
        meaning=MEANING,
        entries=entries,
        damaged=damaged,
        badges=exchange_badges,
        lines=device_lines,
        ways=ways,
    )
