"""Requests to switch everything off, in a room or in the whole home, whatever it is.

Invariants: everything is what people leave running: lights, air, heat, sound, plugs. What opens, locks, measures or watches
stays as it is, and so must what is off already. A place with a device of which people could disagree has no such request.
The plan names all that is meant, also what is off already: nobody who asks knows which that is.
"""

from __future__ import annotations

import random
from dataclasses import replace

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import can_device_do
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, Propose, control
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import frame_meaning, room_text
from homerl.envs.homeenv.tasks.intents.operations import Operation, carry_out_on_part

MEANT = frozenset((
    "light", "air_conditioner", "fan", "ceiling_fan", "heater", "humidifier", "dehumidifier", "air_purifier", "speaker",
    "tv", "plug", "wall_switch",
))  # fmt: skip
OFF = (Operation("turn_off", None, None),)


def propose_all_off_in_room(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "Turn everything off in the kitchen"."""
    rooms = list(dict.fromkeys(device.room for device in home.plan.devices))
    drafts = (_draft("in_room", home, room, ask) for room in rng.sample(rooms, len(rooms)))
    return next((draft for draft in drafts if draft), None)


def propose_all_off_in_home(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "All off"."""
    return _draft("in_home", home, None, ask)


def _draft(subcategory: str, home: Home, room: Room | None, ask: Ask) -> Draft | None:
    there = [device for device in home.plan.devices if room in (None, device.room) and _switchable(device)]
    if len(there) < 2 or not all(_is_meant(device) for device in there) or any(device.did in ask.taken for device in there):
        return None
    carried = [carry_out_on_part(home, device, prefix, OFF) for device in there for prefix in _switchable(device)]
    done = [one for one in carried if one is not None]
    on = tuple(action for action, changes in done if changes)
    if len(done) < len(carried) or not on:
        return None
    meaning = frame_meaning(f"everything.{subcategory}", **({"room": room_text(room)} if room else {}))
    draft = control(subcategory, on, Factors(scope="batch_device"), meaning)
    off = tuple(action.condition for action, changes in done if not changes)
    return replace(draft, plan=tuple(call for action, _ in done for call in action.plan), keeps=off)


def _switchable(device: Device) -> list[str]:
    """The path prefixes of the parts that can be switched off."""
    return [prefix for prefix, _ in device.spec.part_kinds if can_device_do(device, prefix + "turn_off")]


def _is_meant(device: Device) -> bool:
    """Whether everybody would count all of its parts that can be switched off."""
    kinds = dict(device.spec.part_kinds)
    return all(kinds[prefix] in MEANT for prefix in _switchable(device))


SUBCATEGORIES: dict[str, Propose] = {"in_room": propose_all_off_in_room, "in_home": propose_all_off_in_home}
