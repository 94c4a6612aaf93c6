"""Rooms, and the quantities of the air that every room and the outdoors have.

Invariants: a room never changes; its state has the three quantities of `ROOM_STATE`, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType

RoomType = Literal[
    "living_room", "bedroom", "kitchen", "dining_room", "bathroom", "closet", "pantry", "study", "hallway",
    "laundry", "balcony", "garage", "leisure", "storage",
]  # fmt: skip
ROOM_STATE: dict[str, ValueType] = {
    "temperature": ValueType(type="float", range=(-40, 60), precision=0.1, unit="celsius"),
    "humidity": ValueType(type="float", range=(0, 100), precision=0.1, unit="percentage"),
    "brightness": ValueType(type="float", range=(0, 120000), precision=0.1, unit="lux"),
}
HOME: Literal["home"] = "home"  # the id and type of the room of what is in no room
OUTDOORS = "outdoors"  # the owner of the weather's slots, as room and device ids are owners of theirs


@dataclass(frozen=True)
class Room:
    """A room (SMH-Bench Table 5).

    `type` is its use (`bedroom`). `parent` is the id of the room that contains it, such as a bedroom with its closet.
    """

    id: str
    type: str
    name: str
    floor: int = 0
    parent: str | None = None
