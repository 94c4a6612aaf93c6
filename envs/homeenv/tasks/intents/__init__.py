"""Intent families, one module each; what a family receives (`Ask`), and what it proposes (`Draft`).

A family is a module with `SUBCATEGORIES`: functions by subcategory that propose a draft for a home, or None if the home
offers nothing suitable. The name of the family is the name of its module. A family says a `Meaning` through grammar
frames that every language has; frames of one family have the keys `<family>.*`. The environment variable HOMERL_INTENTS
may name further folders, separated as in PATH.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from homerl.envs.core.plugins import added_plugin_folders, discover
from homerl.envs.homeenv.language.meaning import Meaning, SpokenCommand
from homerl.envs.homeenv.language.speaker import Speaker, Wording
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import DeviceAction
from homerl.envs.homeenv.tasks.blueprint import Automation, Call, Factors
from homerl.play.words.answer_rules import Answer

# Files of added folders are modules of this package, so `discover` imports them as it does our own.
__path__ += added_plugin_folders("intents")
PARTS = ("device_choice", "earlier_dialogue", "questions")  # what families share; these are none themselves
DEVICE = re.compile(r'device\("([^"]+)"\)')


@dataclass(frozen=True)
class Ask:
    """What a draft must respect.

    `taken` are ids of devices that the draft may not touch. `devices` are the fewest and most devices of a draft that
    names several. Only the `first` intent of a blueprint may have an earlier dialogue. A `briefed` agent knows on which
    floor each room is, and where the user is. A `timed` agent knows the date and time. `language` is the user's; without it,
    it is the one of the home's names. With `whole_sets`, the plan of a set of devices has all of them, also those that are
    as wanted already. An agent that can act `later` has automations, and one with a `clock` has a tool for the time. A share
    of the wishes for one device is about `doors`: what opens, locks or arms. Commands in the languages `understood` are met.
    """

    wording: Wording
    taken: frozenset[str] = frozenset()
    devices: tuple[int, int] = (2, 3)
    first: bool = True
    briefed: bool = False
    timed: bool = False
    language: str | None = None
    whole_sets: bool = False
    later: bool = False
    clock: bool = False
    doors: float = 0.0
    understood: frozenset[str] = frozenset()


def user_room(home: Home, ask: Ask) -> Room | None:
    """The room in which the user is, if the agent knows it."""
    told = ask.briefed or home.plan.entrance in home.plan.rooms_by_id
    return home.plan.entrance_room if told else None


@dataclass(frozen=True)
class PastTurn:
    """One exchange of the dialogue before the episode: what the user meant, and the reply of the assistant.

    Without `reply`, the assistant says "done".
    """

    meaning: Meaning
    reply: Meaning | None = None


@dataclass(frozen=True)
class Draft:
    """One intent before it is put into words.

    - `meaning` is what the user says first; `plainly` is the answer when asked (None: the same).
    - `names` gives the words of which a clarifying question has one.
    - `before` are calls that were made in the home before the episode; `past` is the dialogue about them.
    - `memory` is what is known of the user.
    - `then` are intents that follow this one, in order.
    - `wording` is set if the subcategory determines it.
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
    names: Callable[[Speaker], Iterable[str]] | None = None
    before: tuple[Call, ...] = ()
    past: tuple[PastTurn, ...] = ()
    memory: tuple[Meaning, ...] = ()
    then: tuple[Draft, ...] = ()
    wording: Wording | None = None

    @property
    def concerned_devices(self) -> frozenset[str]:
        """Ids of the devices that no other intent of the blueprint may change.

        These are the devices that may change, now or by the automation, and those whose state triggers the automation.
        """
        later = self.automation
        if later is None:
            return frozenset(self.devices)
        watched = (did for condition in later.conditions for did in DEVICE.findall(condition))
        return frozenset((*self.devices, *(call.did for call in later.actions), *watched))


Propose = Callable[[Home, random.Random, Ask], Draft | None]


def draft_of_actions(
    subcategory: str, actions: tuple[DeviceAction, ...], factors: Factors, meaning: Meaning | None = None
) -> Draft:
    """A draft that asks for these actions; without `meaning`, each device is called by its name."""
    return Draft(
        subcategory,
        meaning or SpokenCommand(tuple(action.act() for action in actions)),
        factors,
        conditions=tuple(action.condition for action in actions),
        devices=tuple(dict.fromkeys(action.device.did for action in actions)),
        plan=tuple(call for action in actions for call in action.plan),
    )


@lru_cache
def intent_families() -> dict[str, Mapping[str, Propose]]:
    """The subcategories of each family, by its name."""
    return discover(sys.modules[__name__], "SUBCATEGORIES", Mapping, PARTS)
