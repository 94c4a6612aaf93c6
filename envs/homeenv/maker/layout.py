"""Layouts: draws the rooms of a home, their nesting and their floors.

Invariants:
- Room ids and names are unique. An id reveals only the type and a number.
- A nested room comes after its parent and is on the same floor.
- Devices and climate depend on the type of a room. The variant (an ensuite is a variant of the bathroom) decides only how
  often the room occurs, where it is nested, and its name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from homerl.envs.homeenv.maker.lexicon import Half, Lexicon
from homerl.envs.homeenv.sim.devices.rooms import Room

CORE = ("living_room", "bedroom", "kitchen", "bathroom")  # every home with four rooms or more has these
REPEAT = 0.45  # the weight of a variant is multiplied by it for each room of the variant that exists
FLOORS = ((7, 1), (16, 2))  # (most rooms, floors); homes with more rooms have three floors


@dataclass(frozen=True)
class RoomVariant:
    """A kind of room in the draw.

    `weight` says how often it occurs besides the core, and `type` is its room type. `within` are the types of rooms that may
    contain it (none: it stands alone). `upstairs` says whether it may be on any floor.
    """

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
    """Draw `count` rooms: first the core, then variants by weight. A nested variant needs a room that may contain it."""
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
    """A further room of the variant `chosen`."""
    variant = ROOM_VARIANTS[chosen]
    name = lexicon.room_name(chosen, half, {room.name for room in rooms}, rng)
    number = 1 + sum(room.type == variant.type for room in rooms)
    id = variant.type if number == 1 else f"{variant.type}_{number}"
    if variant.within:
        parent = rng.choice([room for room in rooms if room.type in variant.within])
        return Room(id, variant.type, name, parent.floor, parent.id)
    return Room(id, variant.type, name, rng.randrange(floors) if variant.upstairs else 0)
