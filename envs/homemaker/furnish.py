"""Furnishing: which devices stand in which room, what they are called, and their ids.

Invariants: a category stands only in room kinds that its prior allows (no oven in a bathroom); a device's
name is unique within its room; ids are drawn without repetition, so an id tells nothing about its device;
at least one device can be controlled, if any of the products can.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from envs.homeenv.home import Device, Room
from envs.homeenv.spec import DeviceSpec
from envs.homemaker.lexicon import Half, Lexicon

# Room kind -> category -> how likely a device there is of this category. The unlisted never stands there.
PRIORS: dict[str, dict[str, float]] = {
    "living_room": {
        "light": 5, "curtain": 3, "air_conditioner": 3, "tv": 3, "speaker": 2, "fan": 1.5,
        "ceiling_fan": 1.5, "air_purifier": 1.5, "vacuum": 1.5, "plug": 1.5, "heater": 1, "humidifier": 1,
        "dehumidifier": 0.5, "temperature_humidity_sensor": 0.8, "motion_sensor": 0.5,
    },
    "bedroom": {
        "light": 5, "curtain": 3, "air_conditioner": 3, "fan": 1.5, "ceiling_fan": 1.5, "humidifier": 1.5,
        "tv": 1, "speaker": 1, "heater": 1.2, "air_purifier": 1.2, "plug": 1.2, "dehumidifier": 0.5,
        "temperature_humidity_sensor": 0.8, "motion_sensor": 0.4,
    },
    "kitchen": {
        "light": 4, "oven": 2, "dishwasher": 1.5, "refrigerator": 1.5, "range_hood": 1.5, "plug": 1.5,
        "speaker": 0.7, "curtain": 0.5, "water_heater": 0.5, "motion_sensor": 0.4,
        "temperature_humidity_sensor": 0.3,
    },
    "dining_room": {
        "light": 4, "curtain": 1.5, "air_conditioner": 1.5, "ceiling_fan": 1.2, "speaker": 0.8, "fan": 0.7,
        "plug": 0.7, "air_purifier": 0.7, "tv": 0.5, "temperature_humidity_sensor": 0.4,
    },
    "bathroom": {
        "light": 4, "water_heater": 1.5, "heater": 1, "dehumidifier": 1, "washer": 0.7, "plug": 0.4,
        "motion_sensor": 0.5, "temperature_humidity_sensor": 0.4,
    },
    "closet": {"light": 3, "dehumidifier": 1, "motion_sensor": 0.5},
    "pantry": {"light": 3, "refrigerator": 0.7, "motion_sensor": 0.4, "temperature_humidity_sensor": 0.3},
    "study": {
        "light": 4, "curtain": 2, "air_conditioner": 2, "speaker": 1.5, "plug": 1.5, "fan": 1, "heater": 1,
        "humidifier": 1, "air_purifier": 1, "tv": 0.5, "temperature_humidity_sensor": 0.4,
    },
    "hallway": {
        "light": 4, "lock": 2, "motion_sensor": 1, "vacuum": 0.8, "plug": 0.4,
        "temperature_humidity_sensor": 0.3,
    },
    "laundry": {
        "washer": 3, "light": 2, "dehumidifier": 1, "plug": 1, "water_heater": 0.7, "motion_sensor": 0.3,
    },
    "balcony": {"light": 3, "curtain": 1, "plug": 1, "fan": 0.5, "washer": 0.3, "motion_sensor": 0.3},
    "garage": {"light": 3, "lock": 1, "plug": 1, "motion_sensor": 0.8},
    "leisure": {
        "light": 4, "tv": 2, "speaker": 2, "air_conditioner": 2, "curtain": 1.5, "fan": 1, "ceiling_fan": 1,
        "plug": 1, "air_purifier": 0.8, "heater": 0.7, "humidifier": 0.4,
        "temperature_humidity_sensor": 0.4,
    },
    "storage": {"light": 3, "dehumidifier": 1, "water_heater": 0.5, "plug": 0.5, "motion_sensor": 0.4},
}  # fmt: skip
KNOWN = frozenset(category for prior in PRIORS.values() for category in prior)
MOST_IN_ROOM = {"light": 4, "plug": 3, "curtain": 2}  # any other category: one a room
# How much less likely a second one is: in another room, and (any category) in the same room.
ONE_A_HOME = frozenset(("vacuum", "lock", "washer", "dishwasher", "oven", "refrigerator", "range_hood", "water_heater"))
RARE = 0.05
AGAIN = 0.6

Products = Mapping[str, Sequence[DeviceSpec]]  # by category


def capacity(rooms: Sequence[Room], products: Products) -> int:
    """How many devices of these products the rooms can hold."""
    pairs = ((room.kind, category) for room in rooms for category in products)
    return sum(MOST_IN_ROOM.get(category, 1) for kind, category in pairs if _prior(kind, category))


def furnish(
    rooms: Sequence[Room],
    count: int,
    products: Products,
    dids: range,
    lexicon: Lexicon,
    half: Half,
    rng: random.Random,
) -> tuple[Device, ...]:
    """`count` devices (no more than `capacity`), in the order of the rooms."""
    drawn = _draw_places(rooms, count, products, rng)
    ids = iter(rng.sample(dids, count))
    devices = []
    for room, categories in zip(rooms, drawn, strict=True):
        used: set[str] = set()
        for category in categories:
            spec = rng.choice(products[category])
            name = lexicon.device_name(spec, room.kind, half, used, rng)
            used.add(name)
            devices.append(Device(str(next(ids)), name, room.name, spec))
    return tuple(devices)


def _draw_places(rooms: Sequence[Room], count: int, products: Products, rng: random.Random) -> list[list[str]]:
    """The categories of each room's devices, drawn one by one from the priors of all rooms."""
    places = [(i, category) for i, room in enumerate(rooms) for category in products if _prior(room.kind, category)]
    weights = [_prior(rooms[i].kind, category) for i, category in places]
    useful = [w if _controllable(products[c]) else 0 for w, (_, c) in zip(weights, places, strict=True)]
    drawn: list[list[str]] = [[] for _ in rooms]
    for turn in range(count):
        (at,) = rng.choices(range(len(places)), useful if turn == 0 and any(useful) else weights)
        i, category = places[at]
        drawn[i].append(category)
        full = drawn[i].count(category) >= MOST_IN_ROOM.get(category, 1)
        weights[at] = 0.0 if full else weights[at] * AGAIN
        if category in ONE_A_HOME and drawn[i].count(category) == 1:
            weights = [w * RARE if c == category else w for w, (_, c) in zip(weights, places, strict=True)]
    return drawn


def _controllable(specs: Sequence[DeviceSpec]) -> bool:
    return any(spec.service_index for spec in specs)


def _prior(kind: str, category: str) -> float:
    """The weight of a category in a room kind; categories of the user's own may stand anywhere."""
    return PRIORS[kind].get(category, 0.0) if category in KNOWN else 1.0
