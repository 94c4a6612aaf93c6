"""A sentence and all that comes of it: who waits for the answer, what is known by now, and the log that keeps it.

A person who hears nothing says it again. So what was asked first must not be carried out minutes later.

Invariants:
- The values never change, and a step returns new ones. An `Exchange` is written as things happen, so that it tells at any
  time what was done, whatever ends it; its entries in the log have one time.
- A request never makes an agent less careful.
- The log has one line of JSON for each thing that a person said, and one before the calls for it. Lines are only ever
  appended, each whole and on disk before the home is touched or the person hears the answer.
- No token is in the log, no secret that the agent gave, and no code that the person gave. Of codes and passwords given as
  arguments, also in refused calls, it tells only that there was one. Only its owner reads the file.
- A line that cannot be read costs no other one, and is told.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeVar

from pydantic import AwareDatetime, ValidationError

from homerl.envs.assistant.serving.call_effects import ChangeRecord, Effects
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.assistant.serving.missed_actions import MissedAction
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker
from homerl.envs.assistant.serving.secret_masking import (
    HIDDEN,
    mask_codes,
    mask_secrets,
    secrets_in_calls,
    visible_arguments,
)
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan

OWNER_ALONE = 0o600  # the mode of a log: it says what people said, and when they are at home
SHOWN = 200  # characters of a damaged line
Outcome = Literal["said", "shadowed", "asked", "acting", "done", "partly", "refused", "failed", "declined"]
Fate = Literal["meant", "sent", "done", "failed"]
LOOK_SECONDS = 0.25  # between two looks whether the asker is still there
T = TypeVar("T")


class AskerGone(Exception):
    """Nobody waits for the reply any more."""


async def never_gone() -> bool:
    """The `gone` of an asker who never goes."""
    return False


@dataclass(frozen=True)
class Asker:
    """Someone who waits until a time of the monotonic clock, or goes before."""

    until: float
    gone: Callable[[], Awaitable[bool]] = never_gone

    async def require_waiting(self) -> None:
        """Raise `AskerGone` if the asker does not wait any more."""
        if monotonic() > self.until:
            raise AskerGone("it took too long")
        if await self.gone():
            raise AskerGone("whoever asked has hung up")

    async def run_while_waiting(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work, which is cancelled once nobody waits for it. Raises `AskerGone`."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await self.require_waiting()
                await asyncio.wait({task}, timeout=LOOK_SECONDS)
            return await task
        finally:
            task.cancel()
            await asyncio.wait({task})


Mode = Literal["shadow", "confirm", "act"]
MODES: tuple[Mode, ...] = ("shadow", "confirm", "act")  # from the most careful


@dataclass(frozen=True)
class RequestCare:
    """The most that is done for a request, and the ids of devices that are guarded as well."""

    mode: Mode = "act"
    guard: frozenset[str] = frozenset()

    def limit_mode(self, mode: Mode) -> Mode:
        """The mode of an agent that was started in this mode."""
        return min(self.mode, mode, key=MODES.index)


@dataclass(frozen=True)
class Sentence:
    """What a person said, with the dialogue before it, in which `***` stands for codes, and how it was asked.

    `mode` limits what is done for it, and `guard` are the ids of devices that are guarded as well. `speak` hears the parts
    of the reply that may be spoken before its end. `code` is the code that the sentence gives; as long as nobody has looked
    for one, nothing of the dialogue is known. Who `wants_json` asked for data in place of words.
    """

    asker: Asker
    mode: Mode
    guard: frozenset[str] = frozenset()
    area: str | None = None
    speaker: str = ""
    speak: Callable[[str], None] | None = None
    dialogue: Sequence[Message] = ({"role": "user", "content": HIDDEN},)
    code: str | None = None
    wants_json: bool = False
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    begun: float = field(default_factory=monotonic)

    @property
    def said(self) -> str:
        """The sentence itself."""
        return str(self.dialogue[-1]["content"])


@dataclass(frozen=True)
class SeenHome:
    """The home when it was looked at, and the number of times that anybody had acted in it, or it was set up anew, by then.

    `fields` are its password fields.
    """

    home: Home
    acts: int = 0
    fields: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AgentTurn:
    """What the agent did in the twin for a sentence: its calls, what it tried in vain, and its words.

    `agent` is who took the sentence, if it was not the model. `refused` are the service calls that the twin refused, and
    `refusals` what the agent was told of all that was refused.
    """

    calls: tuple[TwinCall, ...] = ()
    agent: str = ""
    refusals: tuple[str, ...] = ()
    missed: tuple[MissedAction, ...] = ()
    words: str = ""
    refused: tuple[TwinCall, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """Calls that wait for consent, as the person was shown them in a home of this plan.

    `guarded` are the guarded devices for which the person is asked, and `missed` is what else the agent tried in vain.
    """

    made: tuple[TwinCall, ...]
    shown: str
    guarded: dict[str, str]
    missed: tuple[MissedAction, ...]
    plan: FixedPlan


@dataclass(frozen=True)
class Ending:
    """How an exchange ended. `proposal` waits for consent, if the reply asks for it."""

    outcome: Outcome
    reply: str
    proposal: Proposal | None = None


@dataclass
class Exchange:
    """What has come of a sentence by now.

    `fates` tell what became of the first calls of `turn`; the others were not sent. `secrets` are those that no call shows.
    `unclear` are the devices of calls that the sentence may not mean. If somebody hears parts of the reply, `speaking` tells
    what was said already. `void_proposal` waited until then.
    """

    sentence: Sentence
    seen: SeenHome
    secrets: set[str] = field(default_factory=set)
    turn: AgentTurn = AgentTurn()
    effects: Effects = field(default_factory=Effects)
    guarded: dict[str, str] = field(default_factory=dict)
    unclear: tuple[str, ...] = ()
    fates: list[Fate] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    speaking: SentenceSpeaker | None = None
    void_proposal: Proposal | None = None
    kept: float | None = None

    def mask_text(self, text: str) -> str:
        """A text without the secrets that were given."""
        return mask_secrets(text, self.secrets | secrets_in_calls(self.turn.calls, self.seen.fields))

    def note_error(self, error: BaseException) -> None:
        """Keep what went wrong."""
        self.errors.append(str(error) or type(error).__name__)

    @property
    def call_fates(self) -> Iterator[tuple[TwinCall, Fate]]:
        """The calls, each with what became of it."""
        return zip(self.turn.calls, chain(self.fates, repeat("meant")))

    @property
    def done_calls(self) -> list[TwinCall]:
        """The calls that the real home has carried out."""
        return [call for call, fate in self.call_fates if fate == "done"]

    @property
    def undone_calls(self) -> list[TwinCall]:
        """The other calls."""
        return [call for call, fate in self.call_fates if fate != "done"]

    @property
    def call_outcome(self) -> Outcome:
        """The outcome, by what became of the calls, and by what the agent tried in vain."""
        if self.turn.calls and not self.undone_calls and not self.turn.missed:
            return "done"
        return "partly" if {"done", "sent"} & {*self.fates} else "failed"

    def to_journal_entry(self, agent: str, ending: Ending) -> JournalEntry:
        """The exchange as the journal keeps it. `agent` is the name of the model."""
        texts = (ending.reply, "; ".join(self.errors), *self.turn.refusals)
        reply, error, *refusals = map(self.mask_text, texts)
        calls = [
            {"did": call.did, "service": call.service, "arguments": visible_arguments(call, self.seen.fields), "fate": fate}
            for call, fate in self.call_fates
        ]
        entry = {
            "time": self.sentence.time,
            "mode": self.sentence.mode,
            "agent": self.turn.agent or agent,
            "said": self.sentence.said,
            "reply": reply,
            "outcome": ending.outcome,
            "calls": calls,
            "changes": [change.model_dump() for change in self.effects.changes],
            "later": [change.model_dump() for change in self.effects.later.changes],
            "refusals": refusals,
            "guarded": self.guarded,
            "unclear": self.unclear,
            "error": error or None,
            "seconds": round(monotonic() - self.sentence.begun, 3),
            "kept": self.kept,
        }
        return JournalEntry.model_validate(replace_lone_surrogates(entry))


class CallRecord(Model):
    """A service call as the twin of the home carried it out, and what became of it in the real home.

    `fate`: `meant` (not sent), `sent` (nothing is known of its end), `done`, `failed`.
    """

    did: str
    service: str
    arguments: dict[str, Any] = {}
    fate: Fate = "meant"


class JournalEntry(Model):
    """One exchange, or its beginning.

    `outcome`: `said` (no call), `shadowed` (it would have acted), `asked` (waits for consent), `acting` (its calls are about
    to be made), `done`, `partly` (some calls were made, others failed or were refused by the twin), `refused` (the twin took
    nothing that the agent tried, or one device was to be called too often), `failed` (Home Assistant did not do it),
    `declined` (consent was not given).
    An exchange that acts has two entries of the same `time`, which is when it began: `acting`, and how it ended.
    `later` is what automations change afterwards, against what would be so without the calls.
    `guarded` holds the reason by device, `unclear` the devices that the words may not have meant, and `refusals` what the
    twin refused. `kept` is the share of prompt and tools, from their beginning, that the model had for the sentence before
    as well: a server's cache saves it.
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
    unclear: tuple[str, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    kept: float | None = None


@dataclass(frozen=True)
class DamagedLine:
    """A line of a log that is no exchange: its number from 1, what is wrong with it, and its beginning."""

    line: int
    why: str
    text: str


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

    def read_entries(self) -> list[JournalEntry]:
        """All entries, in order."""
        return read_journal(self.path)[0]


def read_journal(path: Path) -> tuple[list[JournalEntry], list[DamagedLine]]:
    """The entries of a log, and its damaged lines, in order. Raises `InputError` if there is no such file.

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
    return [*entries.values()], [one for one in read if isinstance(one, DamagedLine)]


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


def replace_lone_surrogates(value: Any) -> Any:
    """A value of JSON whose texts can be written as UTF-8: half of a pair of surrogates becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_lone_surrogates(key): replace_lone_surrogates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(part) for part in value]
    return tuple(replace_lone_surrogates(part) for part in value) if isinstance(value, tuple) else value
