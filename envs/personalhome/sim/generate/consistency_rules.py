"""Rules that find what contradicts itself in the life of a household.

Generators drop and count what breaks a rule; a household breaks none.

Invariants: a rule has a name, by which it is counted; rules look at data alone, and know nothing of how it was drawn; a life
never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.household import Fact, Household, Member, Pet
from homerl.envs.personalhome.sim.situations import condition_verdicts, load_situations
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary

REACH = timedelta(days=731)  # how far memories reach back
DAY = timedelta(days=1)
MEAL = timedelta(hours=4)  # between two times that somebody cooks
OUT_OF_ORDER = timedelta(days=3)  # for which an appliance that nobody repaired is not used
AT_HOME = (
    "used", "cooked", "adjusted", "complained", "cared", "repaired", "celebrated", "visited", "travelled", "ill", "entered",
)  # fmt: skip
USES = ("used", "cooked", "adjusted")
YOUNGEST = {"travelled": 16, "visited": 18, "repaired": 18, "cared": 8, "complained": 5, "celebrated": 0, "ill": 0}
GAP = 18  # years between generations
OPTIONAL = ("who", "others", "sensor", "value", "unit", "appliance")  # fields that events may lack


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


def household_life(household: Household, home: Home) -> Life:
    """The life of a household in its home."""
    return Life(household.members, household.pets, home.plan.rooms, home.plan.devices, household.now)


@dataclass(frozen=True)
class DatedFact:
    """A fact and the time at which it happened or began."""

    fact: Fact
    time: datetime

    @property
    def members_involved(self) -> set[str]:
        """The members who took part."""
        return {*self.fact.others, *((self.fact.who,) if self.fact.who else ())}

    @property
    def end_time(self) -> datetime:
        """When it was over."""
        units = {"day": DAY, "minute": timedelta(minutes=1)}
        length = units.get(self.fact.unit or "")
        return self.time + length * (self.fact.value or 0) if length else self.time


def fact_problem(told: DatedFact, life: Life) -> str | None:
    """The rule that a fact breaks by itself, or None."""
    fact, day, priors = told.fact, told.time.date(), load_household_priors()
    if not _names_exist(told, life):
        return "unknown_name"
    if not _has_its_fields(fact):
        return "wrong_fields"
    if fact.appliance and fact.room != life.by_did[fact.appliance].room.id:
        return "wrong_room"
    if fact.who and life.members_by_id[fact.who].age(day) < _youngest_age(fact):
        return "too_young"
    if any(life.members_by_id[who].birthday > day for who in told.members_involved):
        return "not_born"
    if fact.pet and not _has_pet_then(fact.pet, told.time, life):
        return "pet_not_there"
    dish = priors.dishes.get(fact.what or "") if fact.kind == "cooked" else None
    if dish and dish.meat and fact.who and "vegetarian" in life.members_by_id[fact.who].traits:
        return "against_trait"
    if fact.kind == "celebrated":
        # Birthdays and anniversaries are celebrated on their day.
        who = life.members_by_id[fact.who or ""]
        days = {"birthday": [who.birthday], "anniversary": [e.date for e in who.major_events if e.kind == "married"]}
        # Who was born on 29 February celebrates on the 28th.
        fixed = {(on.month, min(on.day, 28 if on.month == 2 else 31)) for on in days.get(fact.what or "", ())}
        if fact.what in days and (day.month, day.day) not in fixed:
            return "wrong_day"
    return None


def _names_exist(told: DatedFact, life: Life) -> bool:
    fact = told.fact
    return (
        told.members_involved <= life.members_by_id.keys()
        and {*filter(None, (fact.appliance, fact.sensor))} <= life.by_did.keys()
        and (fact.room is None or fact.room in {room.id for room in life.rooms})
        and (fact.pet is None or fact.pet in life.pets_by_name)
        and fact.who not in fact.others
    )


def _has_its_fields(fact: Fact) -> bool:
    """Whether a fact has the fields of its kind, and a `what` of its group."""
    shape = load_vocabulary().facts[fact.kind]
    given = {name for name in Fact.model_fields if name != "kind" and getattr(fact, name) not in (None, ())}
    needed = {field for field in shape.fields if field not in OPTIONAL}
    known = shape.what is None or fact.what in load_vocabulary().group_keys(shape.what)
    return needed <= given <= {*shape.fields} and known and (fact.value is None) == (fact.unit is None)


def _youngest_age(fact: Fact) -> int:
    """The age from which on somebody does this."""
    priors = load_household_priors()
    match fact.kind:
        case "used":
            return priors.activities[fact.what or ""].ages[0]
        case "learned":
            return priors.skills[fact.what or ""]
        case "cooked":
            return priors.cooking_age
        case "adjusted":
            return priors.adjusting_age
        case "bought":
            return priors.buying_age
    return YOUNGEST.get(fact.kind, 0)


def _has_pet_then(name: str, time: datetime, life: Life) -> bool:
    """Whether a pet was born, and adopted if it is the only one of which that is told."""
    # Ages are whole years. A pet of age 0 has been there for some weeks, so for a tenth of a year.
    if (life.now - time).days > max(life.pets_by_name[name].age, 0.1) * 365:
        return False
    adopted = [event.date for member in life.members for event in member.major_events if event.kind == "adopted_pet"]
    return len(life.pets) > 1 or all(time.date() >= day for day in adopted)


def find_fact_clash(one: DatedFact, other: DatedFact) -> str | None:
    """The rule that two facts break together, or None. The order of the two does not matter."""
    first, second = sorted((one, other), key=lambda told: (told.time, told.fact.kind, told.fact.who or ""))
    if first.time == second.time:
        return "same_time"
    begun, later = first.fact, second.fact
    if first.members_involved & second.members_involved and second.time <= first.end_time:
        # One person cannot do the second while the first goes on.
        if begun.kind == "travelled" and later.kind in AT_HOME:
            return "away"
        if begun.kind == "used" and begun.who == later.who and later.kind in USES:
            return "busy"
        return "ill_already" if begun.kind == "ill" and later.kind in ("ill", "travelled") else None
    if begun.kind == later.kind:
        return _repetition_problem(first, second)
    if begun.kind == "broke" and later.kind in USES and begun.appliance == later.appliance:
        return "out_of_order" if second.time - first.time < OUT_OF_ORDER else None
    return None


def dated_fact_problem(told: DatedFact, kept: Iterable[DatedFact], life: Life) -> str | None:
    """The rule that a fact breaks, by itself or beside those that are kept; None if it breaks none."""
    return fact_problem(told, life) or next((rule for other in kept if (rule := find_fact_clash(told, other))), None)


def _repetition_problem(first: DatedFact, second: DatedFact) -> str | None:
    """What does not happen twice, or not so soon."""
    one, other, apart = first.fact, second.fact, second.time - first.time
    match one.kind:
        case "learned" if (one.who, one.what) == (other.who, other.what):
            return "learned_twice"
        case "cooked" if one.who == other.who and apart < MEAL:
            return "cooked_twice"
        case "celebrated" if one.what == other.what and (one.what == "new_year" or one.who == other.who) and apart < DAY:
            return "celebrated_twice"
        case "broke" if one.appliance == other.appliance and apart < OUT_OF_ORDER:
            return "broken_already"
    return None


# A whole household


def household_problems(household: Household, home: Home) -> Iterator[str]:
    """The rules that a household breaks. `home` is its home, as `home_from_json` loads it."""
    life = household_life(household, home)
    yield from _people_problems(life)
    for member in household.members:
        for event in member.major_events:
            if not member.birthday < event.date <= life.now.date():
                yield "life_event_out_of_life"
            elif member.age(event.date) < load_household_priors().life_events[event.kind].ages[0] - 2:
                yield "life_event_too_young"
    memories = [DatedFact(memory.fact, memory.time) for memory in household.memories]
    events = [DatedFact(event.fact, event.time) for event in household.context.events]
    yield from (rule for told in (*memories, *events) if (rule := fact_problem(told, life)))
    yield from (rule for i, one in enumerate(memories) for other in memories[:i] if (rule := find_fact_clash(one, other)))
    times = [told.time for told in events]
    if times != sorted(times) or len({*times}) < len(times):
        yield "events_out_of_order"
    if not all(life.now - REACH <= told.end_time < life.now - DAY for told in memories):
        yield "memory_out_of_reach"
    if not all(life.now - DAY <= time <= life.now for time in times):
        yield "event_out_of_reach"
    gone: set[str] = set()
    for told in events:  # who has left home does nothing there before coming back
        if told.fact.kind == "entered":
            gone -= told.members_involved
        elif told.members_involved & gone:
            yield "away"
        if told.fact.kind == "left_home":
            gone |= told.members_involved
    for key in household.context.situations:  # a part that is settled before anybody acts
        if any(condition_verdicts(load_situations()[key], home)):
            yield "settled_at_start"


def _people_problems(life: Life) -> Iterator[str]:
    """Ages against roles and occupations, and names that are not unique."""
    ages = {role: [m.age(life.now.date()) for m in life.members if m.role == role] for role in load_vocabulary().roles}
    if ages["child"] and ages["parent"] and min(ages["parent"]) - max(ages["child"]) < GAP:
        yield "parent_too_young"
    if ages["parent"] and ages["grandparent"] and min(ages["grandparent"]) - min(ages["parent"]) < GAP:
        yield "grandparent_too_young"
    if any(age < GAP for role in ("single", "roommate", "partner") for age in ages[role]):
        yield "alone_too_young"
    names = [*(member.name for member in life.members), *(pet.name for pet in life.pets)]
    if len({*names}) < len(names):
        yield "name_twice"
    for member in life.members:
        job = load_household_priors().occupations.get(member.occupation)
        if job and not job.fits_age(member.age(life.now.date())):
            yield "occupation_against_age"
        if len({taste.kind for taste in member.tastes}) < len(member.tastes):
            yield "taste_twice"
