"""What facts are made from: the people, pets, rooms and devices of a household. Facts of all kinds are drawn from them.

Invariants:
- A life never changes, and everything in it belongs together.
- A fact holds the fields of its kind. What it says is possible for the people and devices that it names, at the age that
  they have now; `consistency_rules.py` looks at the time when it happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, wraps
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.generate.household_priors import HouseholdPriors, load_household_priors
from homerl.envs.personalhome.sim.generate.people import can_do_activity, devices_for_activity, years_before
from homerl.envs.personalhome.sim.household import Fact, Household, Member, Pet
from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS, load_vocabulary


@dataclass(frozen=True)
class Life:
    """People, pets, rooms and devices at a time. `devices` are appliances and sensors."""

    members: tuple[Member, ...]
    pets: tuple[Pet, ...]
    rooms: tuple[Room, ...]
    devices: tuple[Device, ...]
    now: datetime

    @cached_property
    def appliances(self) -> tuple[Device, ...]:
        """The devices that can be told something."""
        return tuple(device for device in self.devices if not is_sensor(device.spec))

    @cached_property
    def members_by_id(self) -> dict[str, Member]:
        """The members by id."""
        return {member.member_id: member for member in self.members}

    @cached_property
    def by_did(self) -> dict[str, Device]:
        """The devices by id."""
        return {device.did: device for device in self.devices}

    @cached_property
    def pets_by_name(self) -> dict[str, Pet]:
        """The pets by name."""
        return {pet.name: pet for pet in self.pets}

    def devices_of_kinds(self, wanted: Collection[str]) -> list[Device]:
        """The devices of some kinds."""
        return [device for device in self.devices if device.spec.category in wanted]

    def members_from_age(self, youngest: int) -> list[Member]:
        """The members who are of an age or older now."""
        return [member for member in self.members if member.age(self.now.date()) >= youngest]


def household_life(household: Household, home: Home) -> Life:
    """The life of a household in its home."""
    return Life(household.members, household.pets, home.plan.rooms, home.plan.devices, household.now)


AWAKE = (8, 20)  # hours of what has none of its own
ADULT, TRAVELLER, COMPLAINER, CARER = 18, 16, 5, 8  # years
REST = ("bedroom", "living_room")
PARTY = ("living_room", "dining_room", "kitchen", "balcony", "leisure")
COMPLAINED_IN = {"weak_coffee": ("kitchen",), "hard_mattress": ("bedroom",)}  # a complaint -> the rooms of it
NO_PROMOTION = {"pupil": ["exam_passed"], "student": ["exam_passed"], "toddler": [], "retired": [], "unemployed": []}
AFTER = {"graduated": "graduation", "retired": "retirement", "moved_in": "housewarming"}  # a life event -> its occasion


@dataclass(frozen=True)
class FactDraft:
    """A fact, the local hours [first, last] in which it happens, and its day if that is fixed."""

    fact: Fact
    hours: tuple[int, int] = AWAKE
    day: date | None = None


# A maker draws a fact of its kind; None: nobody and nothing suits. The fact, if given, is one to repeat with other values.
Maker = Callable[[Life, random.Random, Fact | None], FactDraft | None]
MemberMaker = Callable[[Life, Member, random.Random, Fact | None], FactDraft | None]


def _of_member(youngest: Callable[[HouseholdPriors], int], repeat: bool = True) -> Callable[[MemberMaker], Maker]:
    """Let a maker get a member of an age who is drawn; with `repeat`, whoever did the fact that is to be repeated."""

    def wrap(make: MemberMaker) -> Maker:
        @wraps(make)
        def draw(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
            if repeat and like is not None and like.who is not None:
                return make(life, life.members_by_id[like.who], rng, like)
            fitting = life.members_from_age(youngest(load_household_priors()))
            return make(life, rng.choice(fitting), rng, like) if fitting else None

        return draw

    return wrap


def _make_fact(kind: str, who: Member, value: float | None = None, device: Device | None = None, **fields: Any) -> Fact:
    """A fact of a member, with the unit of its kind, and with a device and its room."""
    if value is not None:
        fields |= {"value": value, "unit": fields.get("unit", FACT_UNITS.get(kind))}
    if device is not None:
        fields |= {"appliance": device.did, "room": device.room.id}
    return Fact(kind=kind, who=who.member_id, **fields)


def _draw_others(life: Life, who: Member, rng: random.Random) -> tuple[str, ...]:
    """Some of the other members, in the order of the household."""
    others = [member.member_id for member in life.members if member is not who]
    chosen = {*rng.sample(others, rng.randint(0, len(others)))}
    return tuple(other for other in others if other in chosen)


def _draw_room(life: Life, types: tuple[str, ...], rng: random.Random) -> str:
    """A room of one of these types, or any room."""
    return rng.choice([room.id for room in life.rooms if room.type in types] or [room.id for room in life.rooms])


def _draw_stepped_number(low: float, high: float, step: float, rng: random.Random) -> float:
    """A number from `low` to `high` in steps."""
    return low + step * rng.randint(0, round((high - low) / step))


@_of_member(lambda priors: 3)
def draw_use(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An appliance used for an activity, for some minutes. Habits are more usual than other uses."""
    activities = load_household_priors().activities
    if like is not None and like.what and like.appliance:
        key, device = like.what, life.by_did[like.appliance]
    else:
        # Whoever has habits follows one in seven of ten uses, so that what is usual can be told from what is not.
        habit = rng.choice(who.habits) if who.habits and rng.random() < 0.7 else None
        if habit is not None and habit.appliance:
            key, device = habit.activity, life.by_did[habit.appliance]
        else:
            able = {key: use for key, use in activities.items() if can_do_activity(who, who.age(life.now.date()), use)}
            fitting = [(key, it) for key, use in able.items() for it in devices_for_activity(use, life.appliances)]
            if not fitting:
                return None
            key, device = rng.choice(fitting)
    minutes = _draw_stepped_number(*activities[key].minutes, 1 if activities[key].minutes[1] < 60 else 5, rng)
    fact = _make_fact("used", who, minutes, device, what=key)
    # It happens at the hour of the habit, or in the hours of the activity for who has no such habit.
    hours = next(((habit.hour, habit.hour) for habit in who.habits if habit.activity == key), activities[key].hours)
    return FactDraft(fact, hours)


@_of_member(lambda priors: priors.cooking_age)
def draw_cooking(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A dish for some of the others, in servings."""
    priors = load_household_priors()
    allowed = {key: dish for key, dish in priors.dishes.items() if not (dish.meat and "vegetarian" in who.traits)}
    dishes = {key: devices for key, dish in allowed.items() if (devices := life.devices_of_kinds(dish.kinds))}
    key = like.what if like is not None and like.what in dishes else rng.choice([*dishes]) if dishes else None
    if key is None:
        return None
    others = _draw_others(life, who, rng)
    fact = _make_fact("cooked", who, rng.randint(1, 6), rng.choice(dishes[key]), others=others, what=key)
    return FactDraft(fact, priors.dishes[key].hours or priors.dinner)


@_of_member(lambda priors: priors.adjusting_age)
def draw_adjustment(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A quantity of an appliance, set to a value."""
    settings = load_household_priors().adjustments
    devices = [life.by_did[like.appliance]] if like and like.appliance else life.devices_of_kinds(settings)
    if not devices:
        return None
    device = rng.choice(devices)
    setting = settings[device.spec.category]
    value = _draw_stepped_number(*setting.values, rng)
    return FactDraft(_make_fact("adjusted", who, value, device, what=setting.what, unit=setting.unit), (7, 22))


@_of_member(lambda priors: COMPLAINER)
def draw_complaint(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """Something that somebody did not like in a room."""
    what = like.what if like else rng.choice(load_vocabulary().complaints)
    if what == "weak_coffee" and who.age(life.now.date()) < ADULT:
        return None
    types = COMPLAINED_IN.get(what or "", (*REST, "study", "kitchen", "bathroom"))
    return FactDraft(_make_fact("complained", who, what=what, room=_draw_room(life, types, rng)))


@_of_member(lambda priors: priors.buying_age)
def draw_purchase(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A thing, at a price."""
    what = rng.choice(load_vocabulary().things)
    return FactDraft(_make_fact("bought", who, rng.randint(*load_household_priors().prices[what]), what=what), (9, 19))


@_of_member(lambda priors: ADULT)
def draw_visit(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A guest of a grown-up, for some days."""
    what = like.what if like else rng.choice(load_vocabulary().relations)
    if what == "grandmother" and who.age(life.now.date()) > 45:
        return None
    others = _draw_others(life, who, rng)
    return FactDraft(_make_fact("visited", who, rng.randint(*load_household_priors().stay), others=others, what=what))


@_of_member(lambda priors: TRAVELLER)
def draw_trip(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A trip of some days."""
    what = rng.choice(load_vocabulary().places)
    if what == "grandparents" and who.age(life.now.date()) > 40:
        return None
    others, days = _draw_others(life, who, rng), rng.randint(*load_household_priors().trips[what])
    return FactDraft(_make_fact("travelled", who, days, others=others, what=what), (7, 11))


@_of_member(lambda priors: 2)
def draw_illness(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An illness of some days, spent in a room."""
    what = like.what if like and like.what else rng.choice(load_vocabulary().ailments)
    days = rng.randint(*load_household_priors().illness[what])
    return FactDraft(_make_fact("ill", who, days, what=what, room=_draw_room(life, REST, rng)))


@_of_member(lambda priors: CARER, repeat=False)
def draw_pet_care(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """Something done for a pet."""
    if not life.pets:
        return None
    pet = life.pets_by_name[like.pet] if like and like.pet else rng.choice(life.pets)
    fitting = [care for care, animals in load_household_priors().pet_care.items() if pet.animal in animals]
    return FactDraft(_make_fact("cared", who, pet=pet.name, what=rng.choice(fitting)))


def draw_breakdown(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A fault of an appliance."""
    faults = [
        (fault, device) for fault, kinds in load_household_priors().faults.items() for device in life.devices_of_kinds(kinds)
    ]
    if like is not None:
        faults = [(fault, device) for fault, device in faults if device.did == like.appliance]
    fault, device = rng.choice(faults)
    return FactDraft(Fact(kind="broke", what=fault, appliance=device.did, room=device.room.id))


@_of_member(lambda priors: ADULT, repeat=False)
def draw_repair(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """The repair of an appliance that broke: `like` is the fault."""
    if like is None or like.appliance is None:
        return None
    priors = load_household_priors()
    fitting = [repair for repair, faults in priors.repairs.items() if like.what in faults]
    cost = _draw_stepped_number(*priors.repair_cost, 5, rng)
    return FactDraft(_make_fact("repaired", who, cost, life.by_did[like.appliance], what=rng.choice(fitting)))


@_of_member(lambda priors: 1, repeat=False)
def draw_celebration(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An occasion that there was: a birthday on its day, New Year on its eve, an exam of who goes to school."""
    year = life.now.year - rng.choice((0, 1))  # a day that is still to come breaks a rule, and the fact is dropped
    days = {"birthday": years_before(who.birthday, who.birthday.year - year), "new_year": date(year - 1, 12, 31)}
    for event in who.major_events:
        if event.kind == "married":
            days["anniversary"] = years_before(event.date, event.date.year - year)
        if event.kind in AFTER:
            days[AFTER[event.kind]] = event.date + timedelta(days=rng.randint(1, 20))
    what = rng.choice([*days, *NO_PROMOTION.get(who.occupation, ["promotion"])])
    others, room = _draw_others(life, who, rng), _draw_room(life, PARTY, rng)
    return FactDraft(_make_fact("celebrated", who, others=others, what=what, room=room), (15, 21), days.get(what))


@_of_member(lambda priors: min(priors.skills.values()))
def draw_learning(life: Life, who: Member, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A skill."""
    age = who.age(life.now.date())
    fitting = [skill for skill, youngest in load_household_priors().skills.items() if age >= youngest]
    return FactDraft(_make_fact("learned", who, what=rng.choice(fitting)))
