"""Names as people give them in Home Assistant: in title case, and often with the name of the room before the device's.

Invariants: the same seed gives the same names; names that differ still do; in a home with whole names, the name of a device
is what people call it in its room, and the whole name is what an agent reads, as in an imported home.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.plan.origin import Link, Origin

CAPITALS = ("tv", "ac")  # words that are written in capitals
WHOLE = 0.6  # share of devices with a whole name, in every second home


def title_names(
    rooms: Sequence[Room], devices: Sequence[Device], seed: int
) -> tuple[tuple[Room, ...], tuple[Device, ...], Origin | None]:
    """The rooms and devices with names in title case, and the devices' whole names, if the home has some."""
    rng = random.Random(f"titles {seed}")
    renamed = {room.id: replace(room, name=title_case(room.name)) for room in rooms}
    named = tuple(replace(device, room=renamed[device.room.id], name=title_case(device.name)) for device in devices)
    if rng.random() < 0.5:
        return tuple(renamed.values()), named, None
    apart = [one for one in named if one.room.id != HOME and not one.name.startswith(one.room.name)]
    links = {one.did: Link(name=f"{one.room.name} {one.name}") for one in apart if rng.random() < WHOLE}
    return tuple(renamed.values()), named, Origin(system="homemaker", version="1", devices=links)


def title_case(name: str) -> str:
    """The name with a capital in each word: "Kids Bedroom", "TV"."""
    return re.sub("[a-z]+", lambda word: word[0].upper() if word[0] in CAPITALS else word[0].capitalize(), name)
