"""What goes on now: the situations of a household, the events of its last day, and the weather (PersonalHomeBench 3.1).

Time and weather are from the typical years of HomeMaker.

Invariants:
- Events are in the order of time, no two at one time; who has left home does nothing there before coming back.
- The devices have the values with which each situation starts; no situation is settled, in whole or in part, at the start.
- The events of the last hour tell every sign of each situation, and no other situation's.
- What was measured or noticed by a sensor is of a sensor of the home, in its room; people who are away notice nothing.
- Rain and snow fall only from humid skies, and snow only in frost; the sun shines only by day.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from statistics import fmean
from typing import Any

from homerl.envs.homeenv.maker.initial_state import Values
from homerl.envs.homeenv.maker.weather import CELLS, HOURS, TypicalWeather, TypicalYear
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.generate.consistency_rules import DatedFact, Life
from homerl.envs.personalhome.sim.generate.household_priors import SituationPrior, load_household_priors
from homerl.envs.personalhome.sim.generate.memories_and_events import choose_device, draw_background_events, read_sensor
from homerl.envs.personalhome.sim.generate.people import PlannedPerson, devices_for_activity
from homerl.envs.personalhome.sim.household import Animal, Fact, Indoor, Member, Outdoor
from homerl.envs.personalhome.sim.situations import HouseholdSituation, SituationSign, load_situations
from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS

EVENTS = (2, 8)  # of the last day
MOST = 3  # situations at once
EXTRA = (0.5, 0.35, 0.15)  # weights of how many there are besides the first
CONSIDERED = 20  # situations that may be added, so that those which always fit are not always there
RECENT = (3, 55)  # minutes before now in which a situation shows
GONE = (60, 180)  # minutes before now at which people left home, if everybody is away


@dataclass(frozen=True)
class SituationScene:
    """A situation at a place: the room where it happens, and whom it concerns."""

    situation: HouseholdSituation
    plausible: SituationPrior
    room: str
    who: Member

    @property
    def is_by_sensor(self) -> bool:
        """Whether only sensors can tell of it."""
        return self.plausible.away or self.plausible.by_sensor


def allowed_situation_keys(wanted: str | None) -> tuple[str, ...]:
    """The keys of the situations that a recipe allows. It is empty if nothing has such a name."""
    return tuple(key for key, known in load_situations().items() if wanted in (None, key, known.category, known.domain))


def can_concern_people(key: str, people: Sequence[PlannedPerson], animals: Sequence[Animal]) -> bool:
    """Whether a situation can concern these people and animals."""
    usual = load_household_priors().situations[key]
    return any(usual.fits_age(person.age) for person in people) and usual.fits_company(len(people), animals)


def needed_device_kinds(key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of devices that show a situation: those that belong into one room, and the others."""
    known = load_situations()[key]
    here = [part.kind for part in known.parts() if part.which == "here" and part.kind]
    together = (*here, *sorted(_telling_sensors(known, by_sensor=False))) if here else ()
    others = (*known.needs, *sorted(_telling_sensors(known, by_sensor=True)))
    return tuple(dict.fromkeys(together)), tuple(dict.fromkeys(others))


# Scenes


def draw_scenes(first: str, life: Life, outdoors: float, rng: random.Random) -> list[SituationScene]:
    """The scene of the first situation, and of others that fit beside it, the most urgent first. Empty if it cannot be."""
    scene = _place_situation(first, life, rng)
    if scene is None:
        return []
    scenes = [scene]
    extra = rng.choices(range(MOST), EXTRA)[0]
    for key in rng.sample([key for key in load_situations() if key != first], CONSIDERED):
        if len(scenes) > extra:
            break
        usual = load_household_priors().situations[key]
        if (
            rng.random() < usual.weight
            and _fits_now(usual, life, outdoors)
            and all(_fits_beside(key, other) for other in scenes)
        ):
            found = _place_situation(key, life, rng)
            if found is not None and _count_events([*scenes, found], life) <= EVENTS[1]:
                scenes.append(found)
    return sorted(scenes, key=lambda scene: -scene.situation.urgency)


def _count_events(scenes: Sequence[SituationScene], life: Life) -> int:
    leaving = len(life.members) if any(scene.plausible.away for scene in scenes) else 0
    return leaving + sum(sign.kind != "left_home" for scene in scenes for sign in scene.situation.events)


def _fits_now(usual: SituationPrior, life: Life, outdoors: float) -> bool:
    first, last = usual.hours or (0, 24)
    hour = life.now.hour
    in_hours = first <= hour < last if first < last else hour >= first or hour < last
    company = usual.fits_company(len(life.members), (pet.animal for pet in life.pets))
    return in_hours and company and usual.outdoors[0] <= outdoors <= usual.outdoors[1]


def _fits_beside(key: str, other: SituationScene) -> bool:
    """Whether a situation can go on beside another: both agree on who is at home and on every value at the start."""
    known, others = load_situations()[key], other.situation.start_values
    agree = all(
        others.get(kind, {}).get(name, value) == value
        for kind, values in known.start_values.items()
        for name, value in values.items()
    )
    signs = {(sign.kind, sign.what) for sign in known.events}
    # No event may tell of two situations at once, except that somebody has left.
    apart = not signs & {(sign.kind, sign.what) for sign in other.situation.events} - {("left_home", None)}
    return agree and apart and load_household_priors().situations[key].away == other.plausible.away


def _place_situation(key: str, life: Life, rng: random.Random) -> SituationScene | None:
    """Where and whom a situation concerns, or None if the home or the people do not allow it."""
    known, usual = load_situations()[key], load_household_priors().situations[key]
    able = [member for member in life.members if usual.fits_age(member.age(life.now.date()))]
    concerned = [member for member in able if usual.trait is None or usual.trait in member.traits]
    # It can happen in the rooms that have all kinds of devices that belong together there. Of these, it happens in one of
    # the rooms that have most of the devices that it needs or that measure it.
    together, needed = needed_device_kinds(known.key)
    standing = {(device.room.id, device.spec.category) for device in life.devices}
    possible = {
        room.id: sum((room.id, kind) in standing for kind in needed)
        for room in life.rooms
        if (not usual.rooms or room.type in usual.rooms) and all((room.id, kind) in standing for kind in together)
    }
    rooms = [room for room, devices in possible.items() if devices == max(possible.values())]
    kinds = {device.spec.category for device in life.devices}
    if not concerned or not rooms or not {*known.needs} <= kinds:
        return None
    # Whether only sensors can tell of it depends on the scene, so the sensors are checked last.
    scene = SituationScene(known, usual, rng.choice(rooms), rng.choice(concerned))
    return scene if _telling_sensors(known, scene.is_by_sensor) <= kinds else None


def _telling_sensors(known: HouseholdSituation, by_sensor: bool) -> set[str]:
    """The kinds of sensors without which a situation cannot be told."""
    priors = load_household_priors()
    kinds = {priors.gauges[sign.what] for sign in known.events if sign.kind == "measured" and sign.what}
    if by_sensor:
        noticed = (sign.what for sign in known.events if sign.kind == "noticed")
        kinds |= {priors.signs[what] for what in noticed if what in priors.signs}
    return kinds


# Values and events


def scene_start_values(scenes: Iterable[SituationScene], devices: Iterable[Device]) -> dict[str, Values]:
    """The values at the start of all scenes, by did and attribute."""
    by_kind: dict[str, Values] = {}
    for scene in scenes:
        for kind, values in scene.situation.start_values.items():
            by_kind.setdefault(kind, {}).update(values)
    return {device.did: by_kind[device.spec.category] for device in devices if device.spec.category in by_kind}


def draw_events(
    scenes: Sequence[SituationScene], life: Life, states: Mapping[str, Values], rng: random.Random
) -> tuple[DatedFact, ...]:
    """The events of the last day in the order of time: ordinary ones, then those of the scenes."""
    away = any(scene.plausible.away for scene in scenes)
    busy: set[datetime] = set()
    events = []
    if away:  # everybody leaves at about one time, each in a minute of their own
        time = _draw_free_minute(life.now, GONE, busy, rng)
        for member in life.members:
            while time in busy:
                time += timedelta(minutes=1)
            busy.add(time)
            events.append(DatedFact(Fact(kind="left_home", who=member.member_id), time))
    for scene in scenes:
        # Who has left is told of once for all scenes.
        signs = [sign for sign in scene.situation.events if not (sign.kind == "left_home" and scene.plausible.away)]
        times = sorted(_draw_free_minute(life.now, RECENT, busy, rng) for _ in signs)
        for sign, time in zip(signs, times):
            events.append(DatedFact(_draw_sign(sign, scene, life, states, rng), time))
    count = rng.randint(max(EVENTS[0], len(events)), EVENTS[1])
    ordinary = draw_background_events(count - len(events), life, min(told.time for told in events), states, rng)
    return tuple(sorted((*events, *ordinary), key=lambda told: told.time))


def _draw_sign(
    sign: SituationSign, scene: SituationScene, life: Life, states: Mapping[str, Values], rng: random.Random
) -> Fact:
    """The fact of an event that tells of a situation in its room."""
    priors, kind, room, what = load_household_priors(), sign.kind, scene.room, sign.what or ""
    here: dict[str, Any] = {"kind": kind, "room": room, "what": sign.what}
    match kind:
        case "measured":
            return read_sensor(what, choose_device(life.devices_of_kinds([priors.gauges[what]]), room, rng), states)
        case "noticed":  # by a sensor of the room; else by a person, or by any sensor if no person could
            sensors = life.devices_of_kinds([priors.signs.get(what, "")])
            if scene.is_by_sensor or any(sensor.room.id == room for sensor in sensors):
                sensor = choose_device(sensors, room, rng)
                return Fact(**here | {"sensor": sensor.did, "room": sensor.room.id})
        case "used":  # it has begun, with an appliance of the room that is for it, or without one
            activity = priors.activities[what]
            near = [device for device in devices_for_activity(activity, life.appliances) if device.room.id == room]
            here |= {"appliance": rng.choice(near).did if near else None, "value": activity.minutes[0]}
            here |= {"unit": FACT_UNITS[kind]}
        case "broke":
            device = choose_device(life.devices_of_kinds(priors.faults[what]), room, rng)
            return Fact(**here | {"appliance": device.did, "room": device.room.id})
        case "pet_did":
            pets = [pet for pet in life.pets if pet.animal in priors.pet_acts[what]]
            return Fact(**here, pet=rng.choice(pets).name)
        case "left_home":
            return Fact(kind=kind, who=scene.who.member_id)
    return Fact(**here, who=scene.who.member_id)  # used, entered, complained, ill, and what a person noticed


def _draw_free_minute(now: datetime, minutes: tuple[int, int], busy: set[datetime], rng: random.Random) -> datetime:
    """A time that many minutes before now at which nothing else happens."""
    free = [time for m in range(minutes[0], minutes[1] + 1) if (time := now - timedelta(minutes=m)) not in busy]
    time = rng.choice(free)
    busy.add(time)
    return time


DAY = 24 * 60  # minutes
LEVELS = 144  # values of daylight a day
NEAR = 10  # days around one in which the brightest moment counts as a clear sky
HUMID = 85.0  # percent from which it may rain
FROST = 0.5  # celsius up to which precipitation is snow
# How much a situation smells, from 0 to 5.
ODOR = {"smoke": 4.5, "stove_left_on": 3.0, "oven_left_on": 3.0, "full_bin": 3.5, "poor_air": 2.5, "fridge_ajar": 1.5}


def draw_moment(hours: tuple[int, int] | None, rng: random.Random) -> tuple[TypicalYear, int]:
    """A year and a minute of it, in local hours [from, to), over midnight if the first is larger; None is any hour."""
    year, minute = _load_northern_years().draw_minute(rng)
    if hours is None:
        return year, minute
    first, last = hours
    hour = (first + rng.randrange((last - first) % 24 or 24)) % 24
    return year, minute - minute % DAY + hour * 60 + minute % 60


@lru_cache(maxsize=1)
def _load_northern_years() -> TypicalWeather:
    return TypicalWeather.load_years(hemisphere="north")


def draw_outdoor_weather(year: TypicalYear, minute: int, rng: random.Random) -> Outdoor:
    """The weather outside. Precipitation is drawn; the typical years have none."""
    sky = year.sky_at(minute)
    falls = round(rng.lognormvariate(0, 0.8), 1) if sky.humidity >= HUMID and rng.random() < 0.5 else 0.0
    snows = sky.temperature <= FROST
    # The sun shines as much as there is of a clear sky's daylight at this time of the year: 0 at night.
    cell = minute * CELLS // 60
    clear = max(float(year.daylight[(cell + day * LEVELS) % (HOURS * CELLS)]) for day in range(-NEAR, NEAR + 1))
    sunny = round(float(year.daylight[cell]) / clear, 2) if clear > 0 and not falls else 0.0
    return Outdoor(
        rain=0.0 if snows else falls, snow=falls if snows else 0.0, sunny=sunny, temperature=sky.temperature, wind=sky.wind
    )


def draw_indoor_air(states: Mapping[str, Values], situations: Collection[str], rng: random.Random) -> Indoor:
    """The air inside, as the devices measure it: the mean of all readings of a quantity."""

    def readings(*paths: str) -> list[float]:
        return [values[path] for values in states.values() for path in paths if path in values]

    odor = max([rng.choice((0.0, 0.5, 1.0)), *(ODOR.get(key, 0.0) for key in situations)])
    dust = readings("dust", "pm25") or [rng.randint(4, 22)]
    return Indoor(
        dust=round(fmean(dust), 1),
        humidity=round(fmean(readings("humidity")), 1),
        odor=odor,
        temperature=round(fmean(readings("current_temperature")), 1),
    )
