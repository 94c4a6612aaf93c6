"""Atomic control, QT1: one controllable device, one supported change (HomeFlow Table 10, TC1)."""

from __future__ import annotations

import random

from envs.homeenv.home import Home
from homerl.blueprints.actions import actions
from homerl.blueprints.blueprint import Factors, Wording
from homerl.blueprints.intents.draft import Draft


def propose(home: Home, rng: random.Random, wording: Wording, taken: frozenset[str]) -> Draft | None:
    """A change of a device that no other intent of the blueprint has taken."""
    for action in actions(home, rng):
        if action.device.did not in taken:
            noise = "noisy" if wording == "noisy" else "clean"
            return Draft("atomic", wording, (action,), Factors(noise=noise))
    return None
