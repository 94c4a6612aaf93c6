"""One message of a person, and what comes of it.

Invariants: an exchange is filled as things happen, so that it tells at any time what was done; its entries have one time.
No secret that the agent gave, and no code that the person gave, is in an entry. `codes` holds those that no call shows, and
`fields` are the password fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from homerl.envs.assistant.serving.agent_journal import ChangeRecord, Fate, JournalEntry, Outcome
from homerl.envs.assistant.serving.agent_request import Asker, RequestCare, replace_lone_surrogates
from homerl.envs.assistant.serving.call_effects import LaterEffects, changes_between, foresee_later_effects
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.assistant.serving.missed_actions import MissedAction
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker
from homerl.envs.assistant.serving.secret_masking import HIDDEN, mask_secrets, secrets_in_calls, visible_arguments
from homerl.envs.homeenv.sim.home import Home


@dataclass
class TrackedCall:
    """A service call of the twin, and what became of it in the real home."""

    made: TwinCall
    fate: Fate = "meant"

    def to_call_record(self, fields: frozenset[str]) -> dict[str, Any]:
        """The call as the journal keeps it."""
        made = self.made
        return {"did": made.did, "service": made.service, "arguments": visible_arguments(made, fields), "fate": self.fate}


@dataclass
class Exchange:
    """What has come of a message so far.

    `home` is the twin in which it plays, and `acts` the number of times that anybody had acted, or the home was set up anew,
    when that was looked at. If somebody hears parts of the reply (`speak`), `speaking` tells what was said already. `lists`
    are those whose items were read.
    """

    said: str
    asker: Asker
    home: Home
    care: RequestCare = field(default_factory=RequestCare)
    area: str | None = None
    speaker: str = ""
    speak: Callable[[str], None] | None = None
    speaking: SentenceSpeaker | None = None
    acts: int = 0
    agent: str = ""  # who took the sentence, if it was not the model
    reply: str = ""
    outcome: Outcome = "said"
    calls: list[TrackedCall] = field(default_factory=list)
    changes: tuple[ChangeRecord, ...] = ()
    later: LaterEffects = field(default_factory=LaterEffects)
    refusals: tuple[str, ...] = ()
    missed: tuple[MissedAction, ...] = ()
    guarded: dict[str, str] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)
    fields: frozenset[str] = frozenset()
    codes: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    begun: float = field(default_factory=monotonic)
    kept: float | None = None

    def plan_calls(self, made: Sequence[TwinCall]) -> None:
        """Take these calls as what is to be done."""
        self.calls = [TrackedCall(one) for one in made]

    def foresee_changes(self, before: Home, after: Home) -> None:
        """Take what differs between the home and its twin as what the calls change, at once and later."""
        later = foresee_later_effects(before, after)
        self.changes = self._hidden(changes_between(before, after))
        self.later = replace(later, changes=self._hidden(later.changes))

    def _hidden(self, changes: Sequence[ChangeRecord]) -> tuple[ChangeRecord, ...]:
        """Changes without the values of password fields."""
        values = {"before": HIDDEN, "after": HIDDEN, "settled": HIDDEN, "hidden": True}
        return tuple(one.model_copy(update=values) if one.did in self.fields else one for one in changes)

    def mask_text(self, text: str) -> str:
        """A text without the secrets that were given."""
        return mask_secrets(text, self.codes | secrets_in_calls(self.made_calls, self.fields))

    @property
    def touched_dids(self) -> list[str]:
        """The devices that the calls change, at once or later."""
        return [*(change.did for change in self.changes), *self.later.affected_dids]

    @property
    def made_calls(self) -> list[TwinCall]:
        """The calls as the twin carried them out."""
        return [call.made for call in self.calls]

    @property
    def done_calls(self) -> list[TwinCall]:
        """The calls that the real home has carried out."""
        return [call.made for call in self.calls if call.fate == "done"]

    @property
    def undone_calls(self) -> list[TwinCall]:
        """The other calls."""
        return [call.made for call in self.calls if call.fate != "done"]

    @property
    def call_outcome(self) -> Outcome:
        """The outcome, by what became of the calls, and by what the agent tried in vain."""
        fates = {call.fate for call in self.calls}
        whole = fates == {"done"} and not self.missed
        return "done" if whole else "partly" if fates & {"done", "sent"} else "failed"

    def to_journal_entry(self, mode: str, agent: str) -> JournalEntry:
        """The exchange as the journal keeps it."""
        reply, error, *refusals = map(self.mask_text, (self.reply, "; ".join(self.errors), *self.refusals))
        entry = {
            "time": self.time,
            "mode": mode,
            "agent": agent,
            "said": self.said,
            "reply": reply,
            "outcome": self.outcome,
            "calls": [call.to_call_record(self.fields) for call in self.calls],
            "changes": [change.model_dump() for change in self.changes],
            "later": [change.model_dump() for change in self.later.changes],
            "refusals": refusals,
            "guarded": self.guarded,
            "error": error or None,
            "seconds": round(monotonic() - self.begun, 3),
            "kept": self.kept,
        }
        return JournalEntry.model_validate(replace_lone_surrogates(entry))
