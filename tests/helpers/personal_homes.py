"""Small homes of the PersonalHome catalogue, in their ordinary state or at the start of situations."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, sensor_kinds, usual_state
from homerl.envs.personalhome.sim.situations import HouseholdSituation

ROOMS = (Room("den", "living_room", "den"), Room("attic", "bedroom", "attic"))
AIR = {"temperature": 21.0, "humidity": 50.0, "brightness": 100.0}


def home_of(
    owned: Collection[str], seed: int = 0, goes_on: Sequence[HouseholdSituation] = (), rooms: Sequence[Room] = ROOMS
) -> Home:
    """A home that has every kind of `owned` once a room, as it is at the start of the situations."""
    rng = random.Random(f"home {seed}")
    specs = {**appliance_kinds(), **sensor_kinds()}
    devices, state = [], {owner: dict(AIR) for owner in (OUTDOORS, *(room.id for room in rooms))}
    for room in rooms:
        for kind in owned:
            device = Device(f"{room.id}_{specs[kind].name}", specs[kind].name, room, specs[kind])
            devices.append(device)
            state[device.did] = usual_state(specs[kind], rng)
            for situation in goes_on:
                state[device.did] |= situation.start_values.get(kind, {})
    return Home.build_home(rooms, devices, state)
