"""The log of a served agent: one line of JSON for each thing that a person said, and one before the calls for it.

Invariants: lines are only ever appended, each whole and on disk before the home is touched or the person hears the answer;
no token is in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from envs.documents import InputError
from envs.model import Model

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

    `actual` is the value in the real home afterwards, if it was another one; `compared` says whether it was looked at.
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


class Entry(Model):
    """One exchange, or its beginning.

    `outcome`: `said` (no call), `shadowed` (it would have acted), `asked` (waits for consent), `acting` (its calls are about
    to be made), `done`, `partly` (some calls were made), `refused` (the twin refused every call), `failed` (Home Assistant
    did not do it), `declined` (consent was not given).
    An exchange that acts has two entries of the same `time`, which is when it began: `acting`, and how it ended.
    `guarded` holds the reason by device, and `refusals` what the twin refused.
    """

    time: datetime
    mode: str
    agent: str
    said: str
    reply: str
    outcome: Outcome
    calls: tuple[CallRecord, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    refusals: tuple[str, ...] = ()
    guarded: dict[str, str] = {}
    error: str | None = None
    seconds: float = 0.0


def exchanges(entries: Iterable[Entry]) -> list[Entry]:
    """The last entry of each exchange. It is `acting` if the program was stopped before it could tell the end."""
    return list({(entry.time, entry.said): entry for entry in entries}.values())


class Journal:
    """A file of entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _end_cut_line(path)

    def append(self, entry: Entry) -> None:
        """Write an entry to disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(entry.model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[Entry]:
        """All entries, in order. Raises `InputError` if a line is none; a last line that a crash cut is left out."""
        return read_journal(self.path)


def read_journal(path: Path) -> list[Entry]:
    """The exchanges of a log, in order. Raises `InputError` if there is no such file or a line is none of it."""
    return exchanges(_entries(path))


def _end_cut_line(path: Path) -> None:
    """End a line that a crash has cut, so that the next entry has a line of its own."""
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def _entries(path: Path) -> Iterator[Entry]:
    if not path.exists():
        raise InputError("there is no such log", str(path), "name the file of `homerl serve-agent --log`")
    lines = path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield Entry.model_validate_json(line)
        except ValidationError as error:
            if "JSON" in str(error.errors()[0]["msg"]):
                continue  # a crash cut it
            first = error.errors()[0]
            where = f"{path}:{number}"
            raise InputError(
                f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where, "is it a log of an agent?"
            ) from None
