# my_intents/leaving.py
"""Who goes out wants one device switched off."""

import random
from dataclasses import dataclass

from envs.homeenv.home import Home
from homerl.worlds.homeenv.blueprints.actions import actions
from homerl.worlds.homeenv.blueprints.blueprint import Factors
from homerl.worlds.homeenv.blueprints.intents.draft import Ask, Draft, control
from homerl.worlds.homeenv.language.meaning import Act, Sayer

OPENING = {"en": "i am going out, ", "zh": "我要出门了，"}


@dataclass(frozen=True)
class Leaving:
    """The person goes out and asks for an act."""

    act: Act

    def words(self, speaker: Sayer) -> str:
        return OPENING[speaker.grammar.language] + speaker.act(self.act)


def for_long(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A device that is on, and that no other intent of the blueprint has taken."""
    for action in actions(home, rng):
        if action.service == "turn_off" and action.device.did not in ask.taken:
            return control("for_long", (action,), Factors(), Leaving(action.act()))
    return None


SUBCATEGORIES = {"for_long": for_long}
