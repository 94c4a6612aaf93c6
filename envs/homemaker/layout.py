"""Layouts: which rooms a home has, how they nest, and on which floor they lie.

Invariants: room names are unique; a nested room comes after its parent and lies on its floor; a room's
kind is what furniture and climate depend on, its type (ensuite, closet, ...) only how it came to be.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from envs.homeenv.home import Room
from envs.homemaker.lexicon import Half, Lexicon

CORE = ("living_room", "bedroom", "kitchen", "bathroom")  # what every home of four rooms has
REPEAT = 0.45  # how much less likely each further room of a type is
FLOORS = ((7, 1), (16, 2))  # up to so many rooms, so many floors; above that, three


@dataclass(frozen=True)
class RoomType:
    """How often a type occurs beyond the core, its kind, what it nests in, whether it may lie upstairs."""

    weight: float
    kind: str
    within: tuple[str, ...] = ()
    upstairs: bool = False


ROOM_TYPES: dict[str, RoomType] = {
    "living_room": RoomType(0.5, "living_room"),
    "kitchen": RoomType(0.1, "kitchen"),
    "dining_room": RoomType(1.5, "dining_room"),
    "bedroom": RoomType(5.0, "bedroom", upstairs=True),
    "bathroom": RoomType(1.0, "bathroom", upstairs=True),
    "ensuite": RoomType(1.8, "bathroom", within=("bedroom",)),
    "closet": RoomType(0.9, "closet", within=("bedroom",)),
    "pantry": RoomType(0.4, "pantry", within=("kitchen",)),
    "study": RoomType(2.0, "study", upstairs=True),
    "hallway": RoomType(1.6, "hallway", upstairs=True),
    "laundry": RoomType(0.9, "laundry"),
    "balcony": RoomType(1.0, "balcony", within=("living_room", "bedroom")),
    "garage": RoomType(0.7, "garage"),
    "leisure": RoomType(0.9, "leisure", upstairs=True),
    "storage": RoomType(0.6, "storage"),
}


def draw_layout(count: int, lexicon: Lexicon, half: Half, rng: random.Random) -> tuple[Room, ...]:
    """`count` rooms: the core first, then what the weights and the rooms already there allow."""
    floors = next((floors for most, floors in FLOORS if count <= most), 3)
    rooms: list[Room] = []
    drawn: dict[str, int] = {}
    for chosen in rng.sample(CORE, min(count, len(CORE))):
        rooms.append(_room(chosen, rooms, floors, lexicon, half, rng))
        drawn[chosen] = 1
    while len(rooms) < count:
        kinds = {room.kind for room in rooms}
        allowed = [name for name, shape in ROOM_TYPES.items() if not shape.within or kinds & {*shape.within}]
        weights = [ROOM_TYPES[name].weight * REPEAT ** drawn.get(name, 0) for name in allowed]
        (chosen,) = rng.choices(allowed, weights)
        rooms.append(_room(chosen, rooms, floors, lexicon, half, rng))
        drawn[chosen] = drawn.get(chosen, 0) + 1
    return tuple(rooms)


def _room(room_type: str, rooms: list[Room], floors: int, lexicon: Lexicon, half: Half, rng: random.Random) -> Room:
    """One more room of this type."""
    shape = ROOM_TYPES[room_type]
    name = lexicon.room_name(room_type, half, {room.name for room in rooms}, rng)
    if shape.within:
        parent = rng.choice([room for room in rooms if room.kind in shape.within])
        return Room(name, shape.kind, parent.name, parent.floor)
    return Room(name, shape.kind, None, rng.randrange(floors) if shape.upstairs else 0)
