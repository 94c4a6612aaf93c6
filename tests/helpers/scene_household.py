"""Households to write scenes for: every kind of appliance, made without the generator, so that scenes are tested alone."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from typing import Any

from homerl.envs.personalhome.sim.household import Context, Household, Indoor, Member, Outdoor, Pet, Weather

TYPES = ("kitchen", "living_room", "bedroom", "bathroom", "hallway", "study", "balcony", "garage")
CHINESE = ("厨房", "客厅", "卧室", "卫生间", "门厅", "书房", "阳台", "车库")
ROOMS = {"en": {type: type.replace("_", " ") for type in TYPES}, "zh": dict(zip(TYPES, CHINESE))}
APPLIANCES = {
    "kitchen": [
        "stove",
        "oven",
        "refrigerator",
        "microwave",
        "dishwasher",
        "smoke_alarm",
        "trash-bin",
        "coffee-maker",
        "water-purifier",
    ],
    "living_room": ["tv", "speaker", "thermostat", "air-purifier", "security-camera", "lighting", "massage-chair"],
    "bedroom": ["humidifier", "air-conditioner", "speaker"],
    "bathroom": ["shower", "washer-dryer", "mirror"],
    "hallway": ["lock", "video-doorbell", "lighting"],
    "garage": ["garage-door-opener"],
    "balcony": ["sprinklers"],
}
WEATHER = Weather(
    outdoor=Outdoor(rain=0, snow=0, sunny=0.5, temperature=20, wind=2),
    indoor=Indoor(dust=9, humidity=45, odor=0, temperature=21),
)


def scene_household(seed: int = 0, language: str = "en", small: bool = False) -> Household:
    """A household of one to five people. A small one has one adult, the four usual rooms, and few appliances."""
    rng = random.Random(f"scene household {seed}")
    ages = [34] if small else [rng.randint(19, 80), *(rng.randint(3, 90) for _ in range(rng.randint(0, 4)))]
    animals = [] if small else rng.sample(["cat", "dog", "rabbit", "fish"], rng.randint(0, 3))
    rooms = list(ROOMS[language].items())[: 4 if small else None]
    kept = {"stove", "refrigerator", "microwave", "tv", "speaker", "thermostat"} if small else None
    return Household(
        household_id=f"h{seed}",
        language=language,
        occupancy_type="single occupant" if len(ages) == 1 else "family",
        layout="",
        pets=tuple(Pet(name=f"Pet{n}", animal=animal, age=3) for n, animal in enumerate(animals)),
        members=tuple(_member(f"h{seed}_{n}", age) for n, age in enumerate(ages, 1)),
        home=_home(rooms, kept, rng),
        memories=(),
        context=Context(events=(), weather=WEATHER),
    )


def _member(member_id: str, age: int) -> Member:
    return Member(
        member_id=member_id,
        name=f"Name {member_id}",
        role="adult",
        birthday=date(2026 - age, 1, 1),
        gender="Female",
        occupation="",
        persona="",
        hobbies=(),
        lifestyle="",
        preference="",
    )


def _home(rooms: list[tuple[str, str]], kept: set[str] | None, rng: random.Random) -> dict[str, Any]:
    placed = [(kind, room) for room, _ in rooms for kind in APPLIANCES.get(room, []) if kept is None or kind in kept]
    spids = {kind: str(990000 + n) for n, kind in enumerate(sorted({kind for kind, _ in placed}))}
    state = [{"name": "state", "type": "str", "options": ["on", "off"], "description": "Whether it is on"}]
    specs = {
        spid: {"name": kind, "description": kind, "userdata": {"category": kind, "spid": spid}, "attributes": state}
        for kind, spid in spids.items()
    }
    devices = [
        {
            "did": f"{room}_{kind.replace('-', '_')}",
            "name": kind,
            "room": room,
            "spid": spids[kind],
            "state": {"state": "off"},
        }
        for kind, room in placed
    ]
    return {
        "format": 2,
        "clock": int(datetime(2026, 6, 1, rng.randrange(24), tzinfo=UTC).timestamp()),
        "rooms": [{"id": id, "type": id, "name": name} for id, name in rooms],
        "devices": devices,
        "specs": specs,
    }
