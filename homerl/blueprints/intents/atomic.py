"""Atomic control, QT1: one controllable device, one supported change (HomeFlow Table 10, TC1)."""

from __future__ import annotations

import random

from envs.homeenv.home import Home
from homerl.blueprints.actions import actions
from homerl.blueprints.blueprint import Factors
from homerl.blueprints.intents.draft import Ask, Draft


def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A change of a device that no other intent of the blueprint has taken."""
    for action in actions(home, rng):
        if action.device.did not in ask.taken:
            noise = "noisy" if ask.wording == "noisy" else "clean"
            return Draft("atomic", ask.wording, (action,), Factors(noise=noise))
    return None
