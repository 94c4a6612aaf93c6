"""Layouts: which rooms a home has, how they nest, and on which floor they lie.

Invariants: room ids and names are unique, and an id tells type and number alone; a nested room comes after its parent
and lies on its floor; a room's type is what furniture and climate depend on, its variant (ensuite, closet, ...) only how
it came to be and what it is called.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from envs.homeenv.rooms import Room
from envs.homemaker.lexicon import Half, Lexicon

CORE = ("living_room", "bedroom", "kitchen", "bathroom")  # what every home of four rooms has
REPEAT = 0.45  # how much less likely each further room of a type is
FLOORS = ((7, 1), (16, 2))  # up to so many rooms, so many floors; above that, three


@dataclass(frozen=True)
class RoomVariant:
    """How often a room occurs beyond the core, its type, what it nests in, whether it may lie upstairs."""

    weight: float
    type: str
    within: tuple[str, ...] = ()
    upstairs: bool = False


ROOM_VARIANTS: dict[str, RoomVariant] = {
    "living_room": RoomVariant(0.5, "living_room"),
    "kitchen": RoomVariant(0.1, "kitchen"),
    "dining_room": RoomVariant(1.5, "dining_room"),
    "bedroom": RoomVariant(5.0, "bedroom", upstairs=True),
    "bathroom": RoomVariant(1.0, "bathroom", upstairs=True),
    "ensuite": RoomVariant(1.8, "bathroom", within=("bedroom",)),
    "closet": RoomVariant(0.9, "closet", within=("bedroom",)),
    "pantry": RoomVariant(0.4, "pantry", within=("kitchen",)),
    "study": RoomVariant(2.0, "study", upstairs=True),
    "hallway": RoomVariant(1.6, "hallway", upstairs=True),
    "laundry": RoomVariant(0.9, "laundry"),
    "balcony": RoomVariant(1.0, "balcony", within=("living_room", "bedroom")),
    "garage": RoomVariant(0.7, "garage"),
    "leisure": RoomVariant(0.9, "leisure", upstairs=True),
    "storage": RoomVariant(0.6, "storage"),
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
        types = {room.type for room in rooms}
        allowed = [name for name, variant in ROOM_VARIANTS.items() if not variant.within or types & {*variant.within}]
        weights = [ROOM_VARIANTS[name].weight * REPEAT ** drawn.get(name, 0) for name in allowed]
        (chosen,) = rng.choices(allowed, weights)
        rooms.append(_room(chosen, rooms, floors, lexicon, half, rng))
        drawn[chosen] = drawn.get(chosen, 0) + 1
    return tuple(rooms)


def _room(chosen: str, rooms: list[Room], floors: int, lexicon: Lexicon, half: Half, rng: random.Random) -> Room:
    """One more room of this variant."""
    variant = ROOM_VARIANTS[chosen]
    name = lexicon.room_name(chosen, half, {room.name for room in rooms}, rng)
    number = 1 + sum(room.type == variant.type for room in rooms)
    id = variant.type if number == 1 else f"{variant.type}_{number}"
    if variant.within:
        parent = rng.choice([room for room in rooms if room.type in variant.within])
        return Room(id, variant.type, name, parent.floor, parent.id)
    return Room(id, variant.type, name, rng.randrange(floors) if variant.upstairs else 0)
