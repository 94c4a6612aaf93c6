"""What happened: memories of the two years before now, and events of the last day (PersonalHomeBench 3.1).

A theme is a fact that repeats with other values and on other days, such as what one person cooked. So there is something to
count, to compare and to look up last. Some events tell of a situation, the others are ordinary.

Invariants:
- A fact holds the fields of its kind. What it says is possible for the people and devices that it names, at the age that
  they have now; `consistency_rules.py` looks at the time when it happened.
- Memories are in the order of time; none breaks a rule. What would is dropped and counted.
- A text says its fact and no more; `additional_information` says the weekday and part of the day that `time` says already.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import wraps
from typing import Any

from homerl.envs.homeenv.maker.initial_state import Values
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.generate.consistency_rules import REACH, DatedFact, Life, dated_fact_problem
from homerl.envs.personalhome.sim.generate.household_priors import HouseholdPriors, load_household_priors
from homerl.envs.personalhome.sim.generate.people import can_do_activity, devices_for_activity, years_before
from homerl.envs.personalhome.sim.household import Event, Fact, Member, Memory
from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS, FactWords, load_vocabulary

AWAKE = (8, 20)  # hours of what has none of its own
ADULT, TRAVELLER, COMPLAINER, CARER = 18, 16, 5, 8  # years
RESTING_ROOMS = ("bedroom", "living_room")
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
            least = youngest(load_household_priors())
            fitting = [member for member in life.members if member.age(life.now.date()) >= least]
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
    types = COMPLAINED_IN.get(what or "", (*RESTING_ROOMS, "study", "kitchen", "bathroom"))
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
    return FactDraft(_make_fact("ill", who, days, what=what, room=_draw_room(life, RESTING_ROOMS, rng)))


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


# Kinds of themes: weight, and the weights of 1, 2, .. facts of a theme.
THEMES: dict[str, tuple[Maker, float, tuple[float, ...]]] = {
    "used": (draw_use, 4, (0, 1, 2, 2, 1)),
    "cooked": (draw_cooking, 3, (1, 2, 2, 1)),
    "adjusted": (draw_adjustment, 3, (0, 1, 2, 2, 1)),
    "complained": (draw_complaint, 1.5, (2, 2, 1)),
    "bought": (draw_purchase, 1.5, (2, 2, 1)),
    "visited": (draw_visit, 1.2, (3, 1)),
    "travelled": (draw_trip, 1.5, (2, 2, 1)),
    "ill": (draw_illness, 1.2, (3, 2)),
    "cared": (draw_pet_care, 1.5, (1, 2, 2, 1)),
    "broke": (draw_breakdown, 1.2, (3, 1)),
    "celebrated": (draw_celebration, 1.5, (3, 1)),
    "learned": (draw_learning, 0.8, (1,)),
}
SHORTEST = 2  # days that everything must be over before now
MEMORY_TRIES = 40  # themes for each memory that is wanted


def draw_memories(count: int, life: Life, rng: random.Random, dropped: Counter[str]) -> tuple[DatedFact, ...]:
    """About `count` facts of the past, in the order of time. What contradicts itself is counted in `dropped`."""
    kept: list[DatedFact] = []
    for _ in range(MEMORY_TRIES * count):
        if len(kept) >= count:
            break
        for told in _draw_theme(life, rng):
            problem = memory_problem(told, kept, life)
            if problem is None and len(kept) < count:
                kept.append(told)
            elif problem is not None:
                dropped[problem] += 1
    return tuple(sorted(kept, key=lambda told: told.time))


def memory_problem(told: DatedFact, kept: Sequence[DatedFact], life: Life) -> str | None:
    """The rule that a memory breaks, by itself or beside those that are kept; None if it breaks none."""
    if not life.now - REACH <= told.time <= told.end_time < life.now - timedelta(days=SHORTEST):
        return "out_of_reach"
    return dated_fact_problem(told, kept, life)


def _draw_theme(life: Life, rng: random.Random) -> Iterator[DatedFact]:
    """The facts of one theme: of one person and thing, or of one thing and several people."""
    kind = rng.choices(list(THEMES), [weight for _, weight, _ in THEMES.values()])[0]
    maker, _, lengths = THEMES[kind]
    first = maker(life, rng, None)
    if first is None:
        return
    told = _date_draft(first, life, rng)
    yield told
    if kind == "broke" and rng.random() < 0.7 and (repair := draw_repair(life, rng, told.fact)) is not None:
        day = told.time.date() + timedelta(days=rng.randint(1, 14))
        yield _date_draft(replace(repair, day=day), life, rng)
    shared = rng.random() < 0.35  # then other people do the same
    for _ in range(rng.choices(range(len(lengths)), lengths)[0]):
        # Without `who` the maker draws somebody anew.
        like = first.fact.model_copy(update={"who": None}) if shared else first.fact
        if (again := maker(life, rng, like)) is not None:
            yield _date_draft(again, life, rng)


def _date_draft(draft: FactDraft, life: Life, rng: random.Random) -> DatedFact:
    """The fact at a time: on its day, or on any day that memories reach, in its hours."""
    day = draft.day or life.now.date() - timedelta(days=rng.randint(SHORTEST, REACH.days - 1))
    return DatedFact(draft.fact, datetime(day.year, day.month, day.day, rng.randint(*draft.hours), rng.randrange(0, 60, 5)))


def fact_to_memory(told: DatedFact, text: str, words: FactWords) -> Memory:
    """The memory of a fact that a text says."""
    return Memory(
        memory=text,
        subjects=fact_subjects(told.fact),
        additional_information=words.moment_text(told.time.weekday(), told.time.hour),
        time=told.time,
        fact=told.fact,
    )


def fact_to_event(told: DatedFact, text: str) -> Event:
    """The event of a fact that a text says."""
    fact = told.fact
    return Event(
        time=told.time,
        description=text,
        fact=fact,
        sensors=(fact.sensor,) if fact.sensor else (),
        appliances=(fact.appliance,) if fact.appliance else (),
    )


def fact_subjects(fact: Fact) -> tuple[str, ...]:
    """Whom a fact is about: member ids and the pet's name, or the appliance's or sensor's if there is none."""
    people = (*((fact.who,) if fact.who else ()), *fact.others, *((fact.pet,) if fact.pet else ()))
    return people or tuple(filter(None, (fact.appliance, fact.sensor)))


READINGS = {  # quantity -> the attribute and the unit of the sensor that measures it
    "temperature": ("temperature", "celsius"),
    "humidity": ("humidity", "percentage"),
    "dust": ("dust", "micrograms"),
    "brightness": ("illuminance", "lux"),
    "sound": ("loudness", "decibel"),
    "power": ("watts", "watt"),
}
USUAL = ("temperature", "humidity", "sound", "power")  # what is measured without a reason
EVENT_HOURS = (7, 22)  # hours [from, to) of ordinary events
LAST = 23 * 60 + 30  # minutes before now from which ordinary events are
QUIET = 20  # minutes between ordinary events and what comes next
EVENT_TRIES = 30


def choose_device(devices: Sequence[Device], room: str | None, rng: random.Random) -> Device:
    """One of some devices, in the room if there is one."""
    # A device of the room comes first. If there is none, any of them tells of it.
    return rng.choice([device for device in devices if device.room.id == room] or devices)


def read_sensor(what: str, sensor: Device, states: Mapping[str, Values]) -> Fact:
    """What a sensor reads now."""
    attribute, unit = READINGS[what]
    value = states[sensor.did][attribute]
    return Fact(kind="measured", sensor=sensor.did, room=sensor.room.id, what=what, value=value, unit=unit)


# Ordinary events


def draw_background_events(
    count: int, life: Life, until: datetime, states: Mapping[str, Values], rng: random.Random
) -> list[DatedFact]:
    """Up to `count` ordinary events of the last day that are over before `until`."""
    kept: list[DatedFact] = []
    makers: list[Maker] = [draw_use, draw_cooking, draw_adjustment]
    # Nothing ordinary goes on when the events that tell of the situations begin.
    latest = until - timedelta(minutes=QUIET)
    for _ in range(EVENT_TRIES * count):
        if len(kept) == count:
            break
        told = _draw_ordinary_event(rng.choice(makers), life, states, rng)
        if told is None or not told.time <= told.end_time < latest or told.time < life.now - timedelta(minutes=LAST):
            continue
        if dated_fact_problem(told, kept, life) is None:
            kept.append(told)
    return kept


def _draw_ordinary_event(maker: Maker, life: Life, states: Mapping[str, Values], rng: random.Random) -> DatedFact | None:
    """Something that a person, a pet or a sensor did at an hour of the last day."""
    priors, share = load_household_priors(), rng.random()
    if share < 0.2:
        gauges = [(what, sensor) for what in USUAL for sensor in life.devices_of_kinds([priors.gauges[what]])]
        if not gauges:
            return None
        fact, hours = read_sensor(*rng.choice(gauges), states), (0, 23)
        value = (fact.value or 0) * rng.uniform(0.92, 1.08)  # some hours ago it read about the same
        value = round(value, 1) if fact.what in ("temperature", "humidity") else round(value)
        fact = fact.model_copy(update={"value": value})
    elif share < 0.4 and life.pets:
        pet = rng.choice(life.pets)
        acts = [act for act, animals in priors.pet_acts.items() if pet.animal in animals and act != "barked"]
        fact, hours = Fact(kind="pet_did", pet=pet.name, room=rng.choice(life.rooms).id, what=rng.choice(acts)), EVENT_HOURS
    else:
        draft = maker(life, rng, None)
        if draft is None:
            return None
        fact, hours = draft.fact, draft.hours
    minute = rng.randrange(60)
    # The last day may begin yesterday. A time out of its reach is dropped by the caller.
    day = rng.choice([(life.now - timedelta(minutes=LAST)).date(), life.now.date()])
    return DatedFact(fact, datetime(day.year, day.month, day.day, rng.randint(*hours), minute))
