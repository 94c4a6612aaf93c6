"""Explicit multi-device control, QT2: several devices named in one request (HomeFlow Table 10, TC2)."""

from __future__ import annotations

import random

from envs.homeenv.home import Home
from homerl.blueprints.actions import Action, actions
from homerl.blueprints.blueprint import Factors, Wording
from homerl.blueprints.intents.draft import Draft

MOST = 3


def propose(home: Home, rng: random.Random, wording: Wording, taken: frozenset[str]) -> Draft | None:
    """Changes of two or three devices, one each."""
    wanted = rng.randint(2, MOST)
    found: dict[str, Action] = {}
    for action in actions(home, rng):
        if action.device.did not in taken:
            found.setdefault(action.device.did, action)
        if len(found) == wanted:
            break
    if len(found) < 2:
        return None
    factors = Factors(noise="noisy" if wording == "noisy" else "clean", scope="multi_device")
    return Draft("multi_device", "explicit", tuple(found.values()), factors)
