"""What an intent family is asked for, and what it hands over before it is put into words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from envs.homeenv.home import Home
from homerl.language.answers import Answer
from homerl.worlds.homeenv.blueprints.actions import DeviceAction
from homerl.worlds.homeenv.blueprints.blueprint import Automation, Call, Factors
from homerl.worlds.homeenv.language.meaning import Command, Meaning
from homerl.worlds.homeenv.language.speaker import Wording

DEVICE = re.compile(r'device\("([^"]+)"\)')


@dataclass(frozen=True)
class Ask:
    """How to word an intent, the devices that it may not touch, how many it names if it names several, and whether it
    is the blueprint's first (only then may it have a past). An agent that is `briefed` knows on which floor rooms lie,
    and where the person is."""

    wording: Wording
    taken: frozenset[str] = frozenset()
    devices: tuple[int, int] = (2, 3)
    first: bool = True
    briefed: bool = False


@dataclass(frozen=True)
class PastTurn:
    """A message of the dialogue before: a user's meaning, or what the assistant answered (`done`, or words of its own)."""

    meaning: Meaning
    reply: Meaning | None = None


@dataclass(frozen=True)
class Draft:
    """One intent before verbalisation. `meaning` is what the user says first, `plainly` what he answers when asked
    (the same, if nothing was left open). `before` are calls that the home has seen already, `past` what was said of
    them, `memory` what is known of the person; `then` are intents that come after it in this order. `wording` is given where
    the subcategory fixes it.
    """

    subcategory: str
    meaning: Meaning
    factors: Factors
    conditions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    plan: tuple[Call, ...] = ()
    plainly: Meaning | None = None
    automation: Automation | None = None
    answer: Answer | None = None
    clarify: bool = False
    keeps: tuple[str, ...] = ()
    reads: tuple[tuple[str, str], ...] = ()
    reply: Meaning | None = None
    question: Meaning | None = None
    before: tuple[Call, ...] = ()
    past: tuple[PastTurn, ...] = ()
    memory: tuple[Meaning, ...] = ()
    then: tuple[Draft, ...] = ()
    wording: Wording | None = None

    @property
    def concerned(self) -> frozenset[str]:
        """Devices that no other intent of the blueprint may have: those that may change, now or by its automation, and
        those that set it off."""
        later = self.automation
        if later is None:
            return frozenset(self.devices)
        watched = (did for condition in later.conditions for did in DEVICE.findall(condition))
        return frozenset((*self.devices, *(call.did for call in later.actions), *watched))


Propose = Callable[[Home, random.Random, Ask], Draft | None]


def control(subcategory: str, actions: tuple[DeviceAction, ...], factors: Factors, meaning: Meaning | None = None) -> Draft:
    """A draft that asks for these actions, each by its device's name unless `meaning` says it otherwise."""
    return Draft(
        subcategory,
        meaning or Command(tuple(action.act() for action in actions)),
        factors,
        conditions=tuple(action.condition for action in actions),
        devices=tuple(dict.fromkeys(action.device.did for action in actions)),
        plan=tuple(call for action in actions for call in action.plan),
    )
