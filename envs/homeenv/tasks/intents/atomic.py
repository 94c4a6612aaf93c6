"""Atomic control, QT1 and TC1: one controllable device, one supported change (HomeFlow Table 10).

The three subcategories differ only in wording.
"""

from __future__ import annotations

import random
from dataclasses import replace

from homerl.envs.homeenv.language.speaker import Wording
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, draft_of_actions


def _propose_in_wording(wording: Wording) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """A change of a device that no other intent of the blueprint has taken."""
        for action in actions(home, rng):
            if action.device.did not in ask.taken:
                return replace(draft_of_actions(wording, (action,), Factors()), wording=wording)
        return None

    return propose


SUBCATEGORIES = {wording: _propose_in_wording(wording) for wording in ("clear", "colloquial", "noisy")}
