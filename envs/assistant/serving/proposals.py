"""What people are asked, and wait to consent to.

Invariant: a proposal is taken once, within `CONSENT_SECONDS`, by the next message of the dialogue in which it was made. Who
speaks is part of a dialogue, so two people who say the same have a proposal each.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from homerl.envs.assistant.serving.live import TwinCall
from homerl.envs.assistant.serving.missed import MissedAction
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.plan.plan import FixedPlan

CONSENT_SECONDS = 300
PROPOSALS = 100  # that wait for consent at most; the oldest go


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


@dataclass
class WaitingProposals:
    """The proposals that wait, by the dialogue that each ends, with the monotonic time until which it is good."""

    proposals: dict[str, tuple[float, Proposal]] = field(default_factory=dict)

    def add_proposal(self, dialogue: Sequence[Message], speaker: str, proposal: Proposal) -> None:
        """Let a proposal wait that ends a dialogue."""
        self.proposals[_key(dialogue, speaker)] = time.monotonic() + CONSENT_SECONDS, proposal
        while len(self.proposals) > PROPOSALS:
            del self.proposals[next(iter(self.proposals))]

    def take_proposal(self, dialogue: Sequence[Message], speaker: str) -> Proposal | None:
        """The proposal that ends a dialogue, which waits no more."""
        until, found = self.proposals.pop(_key(dialogue, speaker), (0.0, None))
        return found if until > time.monotonic() else None


def _key(dialogue: Sequence[Message], speaker: str) -> str:
    """A hash of a dialogue so far: which conversation it is, since a request carries all of it."""
    said = [speaker, *((message["role"], message["content"]) for message in dialogue)]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()
