"""What happened: memories of the two years before now, and events of the last day (PersonalHomeBench 3.1).

A theme is a fact that repeats with other values and on other days, such as what one person cooked. So there is something to
count, to compare and to look up last. Some events tell of a situation, the others are ordinary.

Invariants:
- Memories are in the order of time; none breaks a rule of `consistency_rules.py`. What would is dropped and counted.
- A text says its fact and no more; `additional_information` says the weekday and part of the day that `time` says already.
- What was measured or noticed by a sensor is of a sensor of the home, in its room; people who are away notice nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from homerl.envs.homeenv.maker.initial_state import Values
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.generate import life_facts as facts
from homerl.envs.personalhome.sim.generate.consistency_rules import REACH, DatedFact, dated_fact_problem
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.life_facts import FactDraft, Life, Maker
from homerl.envs.personalhome.sim.generate.people import devices_for_activity
from homerl.envs.personalhome.sim.household import Event, Fact, Member, Memory
from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS, FactWords

# Kinds of themes: weight, and the weights of 1, 2, .. facts of a theme.
THEMES: dict[str, tuple[Maker, float, tuple[float, ...]]] = {
    "used": (facts.draw_use, 4, (0, 1, 2, 2, 1)),
    "cooked": (facts.draw_cooking, 3, (1, 2, 2, 1)),
    "adjusted": (facts.draw_adjustment, 3, (0, 1, 2, 2, 1)),
    "complained": (facts.draw_complaint, 1.5, (2, 2, 1)),
    "bought": (facts.draw_purchase, 1.5, (2, 2, 1)),
    "visited": (facts.draw_visit, 1.2, (3, 1)),
    "travelled": (facts.draw_trip, 1.5, (2, 2, 1)),
    "ill": (facts.draw_illness, 1.2, (3, 2)),
    "cared": (facts.draw_pet_care, 1.5, (1, 2, 2, 1)),
    "broke": (facts.draw_breakdown, 1.2, (3, 1)),
    "celebrated": (facts.draw_celebration, 1.5, (3, 1)),
    "learned": (facts.draw_learning, 0.8, (1,)),
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
    if kind == "broke" and rng.random() < 0.7 and (repair := facts.draw_repair(life, rng, told.fact)) is not None:
        day = told.time.date() + timedelta(days=rng.randint(1, 14))
        yield _date_draft(replace(repair, day=day), life, rng)
    shared = rng.random() < 0.35  # then other people do the same
    for _ in range(rng.choices(range(len(lengths)), lengths)[0]):
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
AWAKE = (7, 22)  # hours [from, to) of ordinary events
LAST = 23 * 60 + 30  # minutes before now from which ordinary events are
REST = 20  # minutes between ordinary events and what comes next
EVENT_TRIES = 30


def sign_fact(
    kind: str,
    what: str | None,
    room: str | None,
    who: Member,
    life: Life,
    states: Mapping[str, Values],
    *,
    by_sensor: bool,
    rng: random.Random,
) -> Fact:
    """The fact of an event that tells of a situation in a room. `by_sensor` says that no person could tell of it."""
    priors, here = load_household_priors(), {"room": room, "what": what}
    match kind:
        case "measured":
            sensors = life.devices_of_kinds([priors.gauges[what or ""]])
            return _read_sensor(what or "", _choose_device(sensors, room, rng), states)
        case "noticed":  # by a sensor of the room; else by a person, or by any sensor if no person could
            sensors = life.devices_of_kinds([priors.signs.get(what or "", "")])
            if by_sensor or any(sensor.room.id == room for sensor in sensors):
                sensor = _choose_device(sensors, room, rng)
                return Fact(kind=kind, sensor=sensor.did, room=sensor.room.id, what=what)
        case "used":  # it has begun, with an appliance of the room that is for it, or without one
            activity = priors.activities[what or ""]
            near = [device for device in devices_for_activity(activity, life.appliances) if device.room.id == room]
            appliance, minutes = rng.choice(near).did if near else None, activity.minutes[0]
            return Fact(kind=kind, who=who.member_id, appliance=appliance, value=minutes, unit=FACT_UNITS[kind], **here)
        case "broke":
            device = _choose_device(life.devices_of_kinds(priors.faults[what or ""]), room, rng)
            return Fact(kind=kind, appliance=device.did, room=device.room.id, what=what)
        case "pet_did":
            pets = [pet for pet in life.pets if pet.animal in priors.pet_acts[what or ""]]
            return Fact(kind=kind, pet=rng.choice(pets).name, **here)
        case "left_home":
            return Fact(kind=kind, who=who.member_id)
    return Fact(kind=kind, who=who.member_id, **here)  # entered, complained, ill, and what a person noticed


def _choose_device(devices: Sequence[Device], room: str | None, rng: random.Random) -> Device:
    """One of some devices, in the room if there is one."""
    return rng.choice([device for device in devices if device.room.id == room] or devices)


def _read_sensor(what: str, sensor: Device, states: Mapping[str, Values]) -> Fact:
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
    makers: list[Maker] = [facts.draw_use, facts.draw_cooking, facts.draw_adjustment]
    # Nothing ordinary goes on when the events that tell of the situations begin.
    latest = until - timedelta(minutes=REST)
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
        fact, hours = _read_sensor(*rng.choice(gauges), states), (0, 23)
        value = (fact.value or 0) * rng.uniform(0.92, 1.08)  # some hours ago it read about the same
        value = round(value, 1) if fact.what in ("temperature", "humidity") else round(value)
        fact = fact.model_copy(update={"value": value})
    elif share < 0.4 and life.pets:
        pet = rng.choice(life.pets)
        acts = [act for act, animals in priors.pet_acts.items() if pet.animal in animals and act != "barked"]
        fact, hours = Fact(kind="pet_did", pet=pet.name, room=rng.choice(life.rooms).id, what=rng.choice(acts)), AWAKE
    else:
        draft = maker(life, rng, None)
        if draft is None:
            return None
        fact, hours = draft.fact, draft.hours
    minute = rng.randrange(60)
    # The last day may begin yesterday. A time out of its reach is dropped by the caller.
    day = rng.choice([(life.now - timedelta(minutes=LAST)).date(), life.now.date()])
    return DatedFact(fact, datetime(day.year, day.month, day.day, rng.randint(*hours), minute))
