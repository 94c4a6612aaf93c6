"""Atomic control, QT1 and TC1: one controllable device, one supported change (HomeFlow Table 10).

The three subcategories differ only in wording.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain

from homerl.envs.homeenv.language.speaker import Wording
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.guarded_kinds import is_guarded_kind
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, draft_of_actions


def _propose_in_wording(wording: Wording) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """A change of a device that no other intent of the blueprint has taken."""
        doors = [device for device in home.plan.devices if is_door(device)]
        among = doors if ask.doors and rng.random() < ask.doors else ()
        for action in chain(actions(home, rng, among) if among else (), actions(home, rng)):
            if action.device.did not in ask.taken:
                return replace(draft_of_actions(wording, (action,), Factors()), wording=wording)
        return None

    return propose


def is_door(device: Device) -> bool:
    """Whether a device opens, locks or arms something, or is a cover."""
    return is_guarded_kind(device.spec) or device.spec.category in ("cover", "curtain")


SUBCATEGORIES = {wording: _propose_in_wording(wording) for wording in ("clear", "colloquial", "noisy")}
