"""What facts are made from: the people, pets, rooms and devices of a household, and its time.

Invariant: a life never changes, and everything in it belongs together.

Facts of all kinds, as they are drawn from a life.

Invariants: a fact holds the fields of its kind; what it says is possible for the people and devices that it names, at the
age that they have now (`checks.py` looks at the time when it happened).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.people import can_do_activity, devices_for_activity, years_before
from homerl.envs.personalhome.sim.household import Fact, Habit, Household, Member, Pet
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary


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
    def sensors(self) -> tuple[Device, ...]:
        """The devices that only measure."""
        return tuple(device for device in self.devices if is_sensor(device.spec))

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

    def members_of_age(self, youngest: int, day: date, oldest: int = 200) -> list[Member]:
        """The members who have an age on a day."""
        return [member for member in self.members if youngest <= member.age(day) <= oldest]


def household_life(household: Household, home: Home) -> Life:
    """The life of a household in its home."""
    return Life(household.members, household.pets, home.plan.rooms, home.plan.devices, household.now)


AWAKE = (8, 20)  # hours of what has none of its own
ADULT, TRAVELLER, COMPLAINER, CARER = 18, 16, 5, 8  # years
REST = ("bedroom", "living_room")
PARTY = ("living_room", "dining_room", "kitchen", "balcony", "leisure")


@dataclass(frozen=True)
class FactDraft:
    """A fact, the local hours [first, last] in which it happens, and its day if that is fixed."""

    fact: Fact
    hours: tuple[int, int] = AWAKE
    day: date | None = None


Maker = Callable[
    [Life, random.Random, Fact | None], FactDraft | None
]  # the fact, if given, is one to repeat with other values


def _who(life: Life, youngest: int, rng: random.Random, like: Fact | None = None, oldest: int = 200) -> Member | None:
    """A member of an age, or the one of the fact to repeat."""
    if like is not None and like.who is not None:
        return life.members_by_id[like.who]
    fitting = life.members_of_age(youngest, life.now.date(), oldest)
    return rng.choice(fitting) if fitting else None


def _others(life: Life, who: Member, rng: random.Random) -> tuple[str, ...]:
    """Some of the other members, in the order of the household."""
    others = [member.member_id for member in life.members if member is not who]
    chosen = {*rng.sample(others, rng.randint(0, len(others)))}
    return tuple(other for other in others if other in chosen)


def _room(life: Life, types: tuple[str, ...], rng: random.Random) -> str:
    """A room of one of these types, or any room."""
    return rng.choice([room.id for room in life.rooms if room.type in types] or [room.id for room in life.rooms])


def _place(device: Device) -> dict[str, str]:
    return {"appliance": device.did, "room": device.room.id}


def draw_stepped_number(low: float, high: float, step: float, rng: random.Random) -> float:
    """A number from `low` to `high` in steps."""
    return low + step * rng.randint(0, round((high - low) / step))


def draw_use(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An appliance used for an activity, for some minutes. Habits are more usual than other uses."""
    who = _who(life, 3, rng, like)
    if who is None:
        return None
    activities = load_household_priors().activities
    if like is not None and like.what and like.appliance:
        key, device = like.what, life.by_did[like.appliance]
    else:
        habit = rng.choice(who.habits) if who.habits and rng.random() < 0.7 else None
        if habit is not None and habit.appliance:
            key, device = habit.activity, life.by_did[habit.appliance]
        else:
            age = who.age(life.now.date())
            fitting = [
                (k, d)
                for k, a in activities.items()
                if can_do_activity(who, age, a)
                for d in devices_for_activity(a, life.appliances)
            ]
            if not fitting:
                return None
            key, device = rng.choice(fitting)
    minutes = draw_stepped_number(*activities[key].minutes, 1 if activities[key].minutes[1] < 60 else 5, rng)
    fact = Fact(kind="used", who=who.member_id, what=key, value=minutes, unit="minute", **_place(device))
    return FactDraft(fact, _usual_hours(who.habits, key, activities[key].hours))


def _usual_hours(habits: tuple[Habit, ...], activity: str, hours: tuple[int, int]) -> tuple[int, int]:
    """The hour of the habit, or the hours of the activity for who has no such habit."""
    return next(((habit.hour, habit.hour) for habit in habits if habit.activity == activity), hours)


def draw_cooking(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A dish for some of the others, in servings."""
    who = _who(life, load_household_priors().cooking_age, rng, like)
    if who is None:
        return None
    dishes = {
        key: life.devices_of_kinds(dish.kinds)
        for key, dish in load_household_priors().dishes.items()
        if not (dish.meat and "vegetarian" in who.traits)
    }
    possible = [key for key, devices in dishes.items() if devices]
    key = like.what if like is not None and like.what in possible else rng.choice(possible) if possible else None
    if key is None:
        return None
    fact = Fact(
        kind="cooked",
        who=who.member_id,
        others=_others(life, who, rng),
        what=key,
        value=rng.randint(1, 6),
        unit="serving",
        **_place(rng.choice(dishes[key])),
    )
    return FactDraft(fact, load_household_priors().dishes[key].hours or load_household_priors().dinner)


def draw_adjustment(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A quantity of an appliance, set to a value."""
    who = _who(life, load_household_priors().adjusting_age, rng, like)
    devices = (
        [life.by_did[like.appliance]]
        if like and like.appliance
        else life.devices_of_kinds(load_household_priors().adjustments)
    )
    if who is None or not devices:
        return None
    device = rng.choice(devices)
    setting = load_household_priors().adjustments[device.spec.category]
    value = draw_stepped_number(*setting.values, rng)
    return FactDraft(
        Fact(kind="adjusted", who=who.member_id, what=setting.what, value=value, unit=setting.unit, **_place(device)),
        (7, 22),
    )


def draw_complaint(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """Something that somebody did not like in a room."""
    who = _who(life, COMPLAINER, rng, like)
    if who is None:
        return None
    what = like.what if like else rng.choice(load_vocabulary().complaints)
    types = {"weak_coffee": ("kitchen",), "hard_mattress": ("bedroom",)}.get(
        what or "", (*REST, "study", "kitchen", "bathroom")
    )
    if what == "weak_coffee" and who.age(life.now.date()) < ADULT:
        return None
    return FactDraft(Fact(kind="complained", who=who.member_id, what=what, room=_room(life, types, rng)))


def draw_purchase(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A thing, at a price."""
    who = _who(life, load_household_priors().buying_age, rng, like)
    if who is None:
        return None
    what = rng.choice(load_vocabulary().things)
    fact = Fact(
        kind="bought",
        who=who.member_id,
        what=what,
        value=rng.randint(*load_household_priors().prices[what]),
        unit="currency",
    )
    return FactDraft(fact, (9, 19))


def draw_visit(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A guest of a grown-up, for some days."""
    who = _who(life, ADULT, rng, like)
    if who is None:
        return None
    what = like.what if like else rng.choice(load_vocabulary().relations)
    if what == "grandmother" and who.age(life.now.date()) > 45:
        return None
    fact = Fact(
        kind="visited",
        who=who.member_id,
        others=_others(life, who, rng),
        what=what,
        value=rng.randint(*load_household_priors().stay),
        unit="day",
    )
    return FactDraft(fact)


def draw_trip(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A trip of some days."""
    who = _who(life, TRAVELLER, rng, like)
    if who is None:
        return None
    what = rng.choice(load_vocabulary().places)
    if what == "grandparents" and who.age(life.now.date()) > 40:
        return None
    fact = Fact(
        kind="travelled",
        who=who.member_id,
        others=_others(life, who, rng),
        what=what,
        value=rng.randint(*load_household_priors().trips[what]),
        unit="day",
    )
    return FactDraft(fact, (7, 11))


def draw_illness(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An illness of some days, spent in a room."""
    who = _who(life, 2, rng, like)
    if who is None:
        return None
    what = like.what if like and like.what else rng.choice(load_vocabulary().ailments)
    days = rng.randint(*load_household_priors().illness[what])
    return FactDraft(Fact(kind="ill", who=who.member_id, what=what, room=_room(life, REST, rng), value=days, unit="day"))


def draw_pet_care(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """Something done for a pet."""
    who = _who(life, CARER, rng)
    if who is None or not life.pets:
        return None
    pet = life.pets_by_name[like.pet] if like and like.pet else rng.choice(life.pets)
    fitting = [care for care, animals in load_household_priors().pet_care.items() if pet.animal in animals]
    return FactDraft(Fact(kind="cared", who=who.member_id, pet=pet.name, what=rng.choice(fitting)))


def draw_breakdown(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A fault of an appliance."""
    faults = [
        (fault, device) for fault, kinds in load_household_priors().faults.items() for device in life.devices_of_kinds(kinds)
    ]
    if like is not None:
        faults = [(fault, device) for fault, device in faults if device.did == like.appliance]
    fault, device = rng.choice(faults)
    return FactDraft(Fact(kind="broke", what=fault, **_place(device)))


def draw_repair(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """The repair of an appliance that broke: `like` is the fault."""
    who = _who(life, ADULT, rng)
    if who is None or like is None or like.appliance is None:
        return None
    fitting = [repair for repair, faults in load_household_priors().repairs.items() if like.what in faults]
    cost = draw_stepped_number(*load_household_priors().repair_cost, 5, rng)
    device = life.by_did[like.appliance]
    return FactDraft(
        Fact(kind="repaired", who=who.member_id, what=rng.choice(fitting), value=cost, unit="currency", **_place(device))
    )


def draw_celebration(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """An occasion that there was: a birthday on its day, New Year on its eve, an exam of who goes to school."""
    who = _who(life, 1, rng)
    if who is None:
        return None
    years = rng.choice((0, 1))
    days: dict[str, date] = {
        "birthday": years_before(who.birthday, who.birthday.year - life.now.year + years),
        "new_year": date(life.now.year - 1 - years, 12, 31),
    }
    for event in who.major_events:
        if event.kind == "married":
            days["anniversary"] = years_before(event.date, event.date.year - life.now.year + years)
        if event.kind in ("graduated", "retired", "moved_in"):
            name = {"graduated": "graduation", "retired": "retirement", "moved_in": "housewarming"}[event.kind]
            days[name] = event.date + timedelta(days=rng.randint(1, 20))
    loose = {"pupil": ["exam_passed"], "student": ["exam_passed"], "toddler": [], "retired": [], "unemployed": []}
    what = rng.choice([*days, *loose.get(who.occupation, ["promotion"])])
    fact = Fact(
        kind="celebrated", who=who.member_id, others=_others(life, who, rng), what=what, room=_room(life, PARTY, rng)
    )
    return FactDraft(fact, (15, 21), days.get(what))


def draw_learning(life: Life, rng: random.Random, like: Fact | None) -> FactDraft | None:
    """A skill."""
    who = _who(life, min(load_household_priors().skills.values()), rng, like)
    if who is None:
        return None
    age = who.age(life.now.date())
    fitting = [skill for skill, youngest in load_household_priors().skills.items() if age >= youngest]
    return FactDraft(Fact(kind="learned", who=who.member_id, what=rng.choice(fitting)))
