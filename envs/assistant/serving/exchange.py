"""What is known of a sentence and of what comes of it, as small values, and the record that the journal keeps of it all.

Invariants: the values never change, and a step returns new ones. An `Exchange` is written as things happen, so that it tells
at any time what was done, whatever ends it; its entries in the journal have one time. No secret that the agent gave, and no
code that the person gave, is in an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from time import monotonic

from homerl.envs.assistant.serving.agent_journal import CallRecord, ChangeRecord, Fate, JournalEntry, Outcome
from homerl.envs.assistant.serving.agent_request import Asker, Mode, replace_lone_surrogates
from homerl.envs.assistant.serving.call_effects import LaterEffects, changes_between, foresee_later_effects
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.assistant.serving.missed_actions import MissedAction
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker
from homerl.envs.assistant.serving.secret_masking import HIDDEN, mask_secrets, secrets_in_calls, visible_arguments
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan


@dataclass(frozen=True)
class Sentence:
    """What a person said, with the dialogue before it, in which `***` stands for codes, and how it was asked.

    `mode` limits what is done for it, and `guard` are the ids of devices that are guarded as well. `code` is the code that
    it gives. `speak` hears the parts of the reply that may be spoken before its end.
    """

    dialogue: Sequence[Message]
    asker: Asker
    mode: Mode
    guard: frozenset[str] = frozenset()
    area: str | None = None
    speaker: str = ""
    speak: Callable[[str], None] | None = None
    code: str | None = None
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

    `agent` is who took the sentence, if it was not the model.
    """

    calls: tuple[TwinCall, ...] = ()
    agent: str = ""
    refusals: tuple[str, ...] = ()
    missed: tuple[MissedAction, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Effects:
    """What calls change, at once and later, without the values of password fields."""

    changes: tuple[ChangeRecord, ...] = ()
    later: LaterEffects = field(default_factory=LaterEffects)

    @classmethod
    def foresee_effects(cls, seen: SeenHome, twin: Home) -> Effects:
        """What differs between the home and its twin."""

        def hidden(changes: Sequence[ChangeRecord]) -> tuple[ChangeRecord, ...]:
            values = {"before": HIDDEN, "after": HIDDEN, "settled": HIDDEN, "hidden": True}
            return tuple(one.model_copy(update=values) if one.did in seen.fields else one for one in changes)

        later = foresee_later_effects(seen.home, twin)
        return cls(hidden(changes_between(seen.home, twin)), replace(later, changes=hidden(later.changes)))

    @property
    def touched_dids(self) -> list[str]:
        """The devices that change, at once or later."""
        return [*(change.did for change in self.changes), *self.later.affected_dids]


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
    If somebody hears parts of the reply, `speaking` tells what was said already.
    """

    sentence: Sentence
    seen: SeenHome
    secrets: set[str]
    turn: AgentTurn = AgentTurn()
    effects: Effects = Effects()
    guarded: dict[str, str] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    speaking: SentenceSpeaker | None = None
    kept: float | None = None

    def mask_text(self, text: str) -> str:
        """A text without the secrets that were given."""
        return mask_secrets(text, self.secrets | secrets_in_calls(self.turn.calls, self.seen.fields))

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
            CallRecord(did=call.did, service=call.service, arguments=visible_arguments(call, self.seen.fields), fate=fate)
            for call, fate in self.call_fates
        ]
        entry = {
            "time": self.sentence.time,
            "mode": self.sentence.mode,
            "agent": self.turn.agent or agent,
            "said": self.sentence.said,
            "reply": reply,
            "outcome": ending.outcome,
            "calls": [call.model_dump() for call in calls],
            "changes": [change.model_dump() for change in self.effects.changes],
            "later": [change.model_dump() for change in self.effects.later.changes],
            "refusals": refusals,
            "guarded": self.guarded,
            "error": error or None,
            "seconds": round(monotonic() - self.sentence.begun, 3),
            "kept": self.kept,
        }
        return JournalEntry.model_validate(replace_lone_surrogates(entry))
