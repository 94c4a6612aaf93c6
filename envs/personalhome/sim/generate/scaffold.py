"""Scaffolds: the type of a household, the ages and roles of its people, its rooms and its time (PersonalHomeBench 3.1).

Invariants:
- Shares hold in any run of seeds, not only on average: what is counted (type, size, pets) is drawn from a sequence of low
  discrepancy over the seeds.
- A parent is at least 18 years older than a child, and a grandparent than a parent.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from homerl.envs.homeenv.maker.home_names import Half, Lexicon
from homerl.envs.homeenv.maker.layout_and_furniture import draw_layout
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.household import Gender, Occupancy

T = TypeVar("T")
# Irrational steps that are independent of each other, one for each thing that is drawn (Kronecker's sequence).
STEPS = tuple(root**0.5 % 1 for root in (2, 3, 5, 7, 11))
OCCUPANCY: dict[Occupancy, float] = {"single occupant": 0.5, "family": 0.3, "non-related roommates": 0.2}
SIZES: dict[Occupancy, dict[int, float]] = {
    "single occupant": {1: 1.0},
    "family": {2: 0.3, 3: 0.33, 4: 0.25, 5: 0.12},
    "non-related roommates": {2: 0.7, 3: 0.3},
}
PET_OWNERS: dict[Occupancy, float] = {"single occupant": 0.3, "family": 0.52, "non-related roommates": 0.33}  # 409 of 1,100
PETS: dict[int, float] = {1: 0.375, 2: 0.34, 3: 0.185, 4: 0.1}  # animals of an owner: 823 of 409
# Families by size: how many grandparents, adults and children, with weights.
FAMILIES: dict[int, dict[tuple[int, int, int], float]] = {
    2: {(0, 2, 0): 0.55, (0, 1, 1): 0.45},
    3: {(0, 2, 1): 0.7, (0, 1, 2): 0.3},
    4: {(0, 2, 2): 0.7, (0, 1, 3): 0.1, (1, 2, 1): 0.2},
    5: {(0, 2, 3): 0.5, (1, 2, 2): 0.35, (2, 2, 1): 0.15},
}
ROOMS: dict[int, tuple[int, int]] = {1: (4, 6), 2: (5, 7), 3: (6, 8), 4: (7, 9), 5: (8, 10)}  # by size
OLDEST = 92  # years
GENDERS: tuple[Gender, ...] = ("Female", "Male")
OTHER: dict[Gender, Gender] = {"Female": "Male", "Male": "Female"}


@dataclass(frozen=True)
class PlannedPerson:
    """A person to be: role, age in whole years, and gender."""

    role: str
    age: int
    gender: Gender


@dataclass(frozen=True)
class Scaffold:
    """The frame of a household: its type, its people, the number of its pets, and its rooms."""

    occupancy: Occupancy
    people: tuple[PlannedPerson, ...]
    pets: int
    rooms: tuple[Room, ...]


def spread_shares(seed: int) -> tuple[float, ...]:
    """One number in [0, 1) for each of `STEPS`. Those of successive seeds are spread evenly."""
    return tuple((0.5 + seed * step) % 1 for step in STEPS)


def pick_by_share(weights: Mapping[T, float], share: float) -> T:
    """The key at a share (0..1) of the summed weights."""
    left = share * sum(weights.values())
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    return key  # rounding left a rest


def draw_scaffold(shares: tuple[float, ...], lexicon: Lexicon, half: Half, rng: random.Random) -> Scaffold:
    """A scaffold. `shares` (of `spread_shares`) choose type, size, how many pets there are, and the first gender."""
    occupancy = pick_by_share(OCCUPANCY, shares[0])
    size = pick_by_share(SIZES[occupancy], shares[1])
    pets = pick_by_share(PETS, shares[3]) if shares[2] < PET_OWNERS[occupancy] else 0
    people = _draw_people(occupancy, size, rng)
    # The first gender is counted as well. If it is to be the other one, everybody's is swapped.
    if (people[0].gender == "Female") != (shares[4] < 0.5):
        people = tuple(replace(person, gender=OTHER[person.gender]) for person in people)
    return Scaffold(occupancy, people, pets, draw_layout(rng.randint(*ROOMS[len(people)]), lexicon, half, rng))


def add_missing_rooms(
    rooms: tuple[Room, ...], wanted: Iterable[Collection[str]], lexicon: Lexicon, half: Half, rng: random.Random
) -> tuple[Room, ...]:
    """The rooms, and one more for each collection of types of which there is none."""
    for types in wanted:
        if not any(room.type in types for room in rooms):
            chosen = rng.choice(sorted(types))
            rooms = (*rooms, Room(chosen, chosen, lexicon.room_name(chosen, half, {room.name for room in rooms}, rng)))
    return rooms


# People


def _draw_people(occupancy: Occupancy, size: int, rng: random.Random) -> tuple[PlannedPerson, ...]:
    if occupancy == "single occupant":
        return (PlannedPerson("single", rng.randint(19, OLDEST), rng.choice(GENDERS)),)
    if occupancy == "non-related roommates":  # they are within six years of each other
        youngest = rng.randint(19, 33) if rng.random() < 0.45 else rng.randint(34, 75)
        ages = [youngest, *(youngest + rng.randint(0, 6) for _ in range(size - 1))]
        return tuple(PlannedPerson("roommate", age, rng.choice(GENDERS)) for age in ages)
    grandparents, adults, children = pick_by_share(FAMILIES[size], rng.random())
    if not children:
        return _draw_pair("partner", rng.randint(23, OLDEST - 4), rng)
    oldest = rng.randint(0, 40 if size == 2 else 20)
    ages = [oldest]
    while len(ages) < children:
        ages.append(max(ages[-1] - rng.randint(1, 5), 0))
    parent = oldest + rng.randint(22, 36)
    parents = _draw_pair("parent", parent, rng)[:adults]
    elders = _draw_pair("grandparent", parent + rng.randint(26, 34), rng)[:grandparents]
    return (*parents, *(PlannedPerson("child", age, rng.choice(GENDERS)) for age in ages), *elders)


def _draw_pair(role: str, age: int, rng: random.Random) -> tuple[PlannedPerson, PlannedPerson]:
    """Two partners within four years of each other, most often of two genders."""
    first = rng.choice(GENDERS)
    same = rng.random() < 0.08
    return PlannedPerson(role, age, first), PlannedPerson(role, age + rng.randint(-4, 4), first if same else OTHER[first])
