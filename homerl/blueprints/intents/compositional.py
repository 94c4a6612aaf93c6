"""Compositional control, QT2 and TC2: several operations, or a set of devices (HomeFlow Table 10)."""

from __future__ import annotations

import random

from envs.homeenv.home import Home
from homerl.blueprints.actions import Action, actions
from homerl.blueprints.blueprint import Factors
from homerl.blueprints.intents.draft import Ask, Draft, control


def explicit(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """Changes of several devices, one each; of fewer than wanted where the home offers no more, of two at least."""
    wanted = rng.randint(*ask.devices)
    found: dict[str, Action] = {}
    for action in actions(home, rng):
        if action.device.did not in ask.taken:
            found.setdefault(action.device.did, action)
        if len(found) == wanted:
            break
    if len(found) < 2:
        return None
    factors = Factors(noise="noisy" if ask.wording == "noisy" else "clean", scope="multi_device")
    return control("explicit", tuple(found.values()), factors)


SUBCATEGORIES = {"explicit": explicit}
