"""Requests to switch everything off, in a room or in the whole home, whatever it is.

Invariants: everything is what people leave running: lights, air, heat, sound, plugs. What opens, locks, measures or watches
stays as it is, and so must what is off already. A place with a device of which people could disagree has no such request.
The plan names all that is meant, also what is off already: nobody who asks knows which that is.
"""

from __future__ import annotations

import random
from dataclasses import replace

from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import Operation, can_device_do, carry_out_on_part
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, draft_of_actions

MEANT = frozenset((
    "light", "air_conditioner", "fan", "ceiling_fan", "heater", "humidifier", "dehumidifier", "air_purifier", "speaker",
    "tv", "plug", "wall_switch",
))  # fmt: skip
OFF = (Operation("turn_off", None, None),)


def propose_all_off_in_room(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "Turn everything off in the kitchen"."""
    rooms = list(dict.fromkeys(device.room for device in home.plan.devices))
    drafts = (_draft_all_off("in_room", home, room, ask) for room in rng.sample(rooms, len(rooms)))
    return next(filter(None, drafts), None)


def propose_all_off_in_home(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "All off"."""
    return _draft_all_off("in_home", home, None, ask)


def _draft_all_off(subcategory: str, home: Home, room: Room | None, ask: Ask) -> Draft | None:
    near = [device for device in home.plan.devices if room in (None, device.room)]
    # The parts that can be switched off: their devices, path prefixes and kinds.
    parts = [(one, *part) for one in near for part in one.spec.part_kinds if can_device_do(one, part[0] + "turn_off")]
    dids = {device.did for device, _, _ in parts}
    if len(dids) < 2 or not all(kind in MEANT for _, _, kind in parts) or dids & ask.taken:
        return None
    carried = [carry_out_on_part(home, device, prefix, OFF) for device, prefix, _ in parts]
    done = [one for one in carried if one is not None]
    on = tuple(action for action, changes in done if changes)
    if len(done) < len(carried) or not on:
        return None
    meaning = frame_meaning(f"everything.{subcategory}", **({"room": room} if room else {}))
    draft = draft_of_actions(subcategory, on, Factors(scope="batch_device"), meaning)
    off = tuple(action.condition for action, changes in done if not changes)
    return replace(draft, plan=tuple(call for action, _ in done for call in action.plan), keeps=off)


SUBCATEGORIES: dict[str, Propose] = {"in_room": propose_all_off_in_room, "in_home": propose_all_off_in_home}
