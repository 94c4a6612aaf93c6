"""A device of a home: a specification, with an id, a name and a room."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import chain, count

from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.devices.spec import DeviceSpec


@dataclass(frozen=True)
class Device:
    """A device in a room. `did` is its id in the home. `name` is what people call it, unique within its room."""

    did: str
    name: str
    room: Room
    spec: DeviceSpec

    @property
    def slug_name(self) -> str:
        """The room's and the device's name as one word: `kitchen_wall_light`."""
        return slug_of_words(f"{self.room.name} {self.name}")


def slug_of_words(words: str) -> str:
    """Words as one: `kitchen_wall_light`."""
    return re.sub(r"\W+", "_", words).strip("_")


def unused_id(id: str, taken: Container[str]) -> str:
    """The id, or the first of `id_2`, `id_3` ... that is not taken."""
    return next(name for name in chain([id], (f"{id}_{number}" for number in count(2))) if name not in taken)
