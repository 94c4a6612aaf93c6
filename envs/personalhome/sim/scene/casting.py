"""Casting: fills the roles of a script with the people, pets, rooms and appliances of a household.

Invariants: nobody and nothing has two roles; an appliance is in the room where the home has it; the same rng gives the same
cast.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.household import Household, Member
from homerl.envs.personalhome.sim.scene.scene_scripts import NONE, PlacedThing, SceneScript, load_stage

T = TypeVar("T")
ADULT, CHILD, ELDER, INFANT = 18, 12, 65, 4  # years; whoever is younger than `INFANT` has no role
LOOSE = 2  # things that lie about besides those of the script


@dataclass
class SceneCast:
    """Who and what is in a scene.

    `roles` maps each role to an id; a role that stays empty is missing. `rooms` are the zones by id. `pets`, `appliances`,
    `landmarks` and `objects` map ids to kinds. `places` is where each landmark, appliance and object is at first.
    `here` is the room that is preferred, if there is one.
    """

    here: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    rooms: dict[str, Room] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    pets: dict[str, str] = field(default_factory=dict)
    appliances: dict[str, str] = field(default_factory=dict)
    landmarks: dict[str, str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)


def build_household_home(household: Household) -> Home:
    """The household's home. Raises `InputError` if it cannot be built."""
    return home_from_json(household.home, household.household_id)


def _script_kind(device: Device) -> str:
    """The kind of an appliance as scripts write it: `coffee_maker`."""
    return device.spec.category.replace("-", "_")


def cast_script(
    script: SceneScript, household: Household, home: Home, rng: random.Random, here: str | None = None
) -> SceneCast | None:
    """A cast for a script. None: the household lacks a room, a person or an appliance that it needs.

    `here` is the id of the room that the first zone is, if the script names no appliance after which it must be.
    """
    cast = SceneCast(here=here)
    filled = (
        _cast_appliances_and_zones(script, home, cast, rng)
        and _cast_members(script, household, cast, rng)
        and _cast_pets(script, household, cast, rng)
    )
    if not filled:
        return None
    cast.roles["main"], cast.roles["lead"] = next(iter(cast.rooms)), cast.members[0]
    _cast_things(script, cast, rng)
    _cast_bystanders(household, home, cast, rng)
    return cast


def is_member_of_kind(kind: str, member: Member, today: date) -> bool:
    """Whether a person is of a kind: of an age, or with a trait."""
    age = member.age(today)
    ages = {"adult": age >= ADULT, "elder": age >= ELDER, "minor": age < ADULT, "child": age < CHILD, "anyone": True}
    return age >= INFANT and ages.get(kind, kind in member.traits)


def _cast_appliances_and_zones(script: SceneScript, home: Home, cast: SceneCast, rng: random.Random) -> bool:
    """Choose the appliances after which zones are named, then the zones, then the other appliances in their zones."""
    anchors = {option[1:] for options in script.zones.values() for option in options if option[0] == "@"}
    if not all(_cast_device(role, script.appliances[role], home.plan.devices, cast, rng) for role in sorted(anchors)):
        return False
    for role, options in script.zones.items():
        room = _choose_room(options, home, cast, rng)
        if room is None:
            return False
        cast.roles[role], cast.rooms[room.id] = room.id, room
    # An appliance that a zone is named after must be in a zone, too.
    if any(cast.places[cast.roles[role]] not in cast.rooms for role in anchors if role in cast.roles):
        return False
    for role, placed in script.appliances.items():
        here = [device for device in home.plan.devices if device.room.id == cast.roles.get(placed.zone or "")]
        if role not in anchors and not _cast_device(role, placed, here, cast, rng):
            return False
    return True


def _cast_device(role: str, placed: PlacedThing, devices: Iterable[Device], cast: SceneCast, rng: random.Random) -> bool:
    """Give a role to a device of the first kind that there is. False if there is none and there must be one."""
    free = [device for device in devices if device.did not in cast.appliances]
    for kind in placed.kinds:
        if found := [device for device in free if _script_kind(device) == kind]:
            chosen = rng.choice([device for device in found if device.room.id == cast.here] or found)
            cast.roles[role], cast.appliances[chosen.did], cast.places[chosen.did] = chosen.did, kind, chosen.room.id
            return True
    return NONE in placed.kinds


def _choose_room(options: Sequence[str], home: Home, cast: SceneCast, rng: random.Random) -> Room | None:
    """The first option that there is and no other zone has. The first zone is the preferred room, if it has no anchor."""
    preferred = next((room for room in home.plan.rooms if room.id == cast.here and not cast.rooms), None)
    if preferred and options[0][0] != "@":
        return preferred
    for option in options:
        anchored = cast.places.get(cast.roles.get(option[1:], "")) if option[0] == "@" else None
        free = [room for room in home.plan.rooms if room.id not in cast.rooms]
        if found := [room for room in free if room.id == anchored or room.type == option]:
            return rng.choice(found)
    return None


def _cast_members(script: SceneScript, household: Household, cast: SceneCast, rng: random.Random) -> bool:
    today = household.now.date()
    for role, options in script.members.items():
        if "unknown" in options:
            id = "unknown_1"
        else:
            free = [member for member in household.members if member.member_id not in cast.members]
            chosen = _choose_by_kind(options, free, lambda kind, member: is_member_of_kind(kind, member, today), rng)
            if chosen is None:
                if NONE in options:
                    continue
                return False
            id = chosen.member_id
        cast.roles[role] = id
        cast.members.append(id)
    return True


def _cast_pets(script: SceneScript, household: Household, cast: SceneCast, rng: random.Random) -> bool:
    for role, options in script.pets.items():
        free = [pet for pet in household.pets if pet.name not in cast.pets]
        chosen = _choose_by_kind(options, free, lambda kind, pet: kind in ("any", pet.animal), rng)
        if chosen is None and NONE not in options:
            return False
        if chosen is not None:
            cast.roles[role], cast.pets[chosen.name] = chosen.name, chosen.animal
    return True


def _cast_things(script: SceneScript, cast: SceneCast, rng: random.Random) -> None:
    """Landmarks and objects of the script, further ones, and things that lie about."""
    stage = load_stage()
    for kind, zone in script.landmarks.items():
        _add_thing(cast.landmarks, kind, cast.roles[zone], cast, kind)
    for role, placed in script.objects.items():
        if place := cast.roles.get(placed.at or ""):
            free = [kind for kind in placed.kinds if kind not in cast.objects.values()]
            _add_thing(cast.objects, rng.choice(free or placed.kinds), place, cast, role)
    for number, room in enumerate(cast.rooms.values()):
        kinds = dict.fromkeys((*stage.extras.get(room.type, ()), *stage.extras["any"]))
        free = [kind for kind in kinds if kind not in cast.landmarks.values()]
        _add_thing(cast.landmarks, rng.choice(free), room.id, cast, "" if number else "extra")
    surfaces = [id for id, kind in cast.landmarks.items() if kind in stage.surfaces]
    main = [id for id in surfaces if cast.places[id] == cast.roles["main"]]
    for number in range(LOOSE):
        free = [kind for kind in stage.loose if kind not in cast.objects.values()]
        place = rng.choice(surfaces if number or not main else main)
        # The first loose thing has a role, so that distractors can name it and where it lies.
        if place in main and not number:
            cast.roles["surface"] = place
        _add_thing(cast.objects, rng.choice(free), place, cast, "" if number else "loose")


def _cast_bystanders(household: Household, home: Home, cast: SceneCast, rng: random.Random) -> None:
    """Who may pass by, and one further appliance of each zone that comes into view."""
    today = household.now.date()
    free = [member for member in household.members if member.member_id not in cast.members]
    people = [member.member_id for member in free if is_member_of_kind("anyone", member, today)]
    pets = [pet for pet in household.pets if pet.animal in load_stage().walking and pet.name not in cast.pets]
    if people:
        cast.roles["bystander"] = rng.choice(people)
    if pets:
        stray = rng.choice(pets)
        cast.roles["stray"], cast.pets[stray.name] = stray.name, stray.animal
    for room in cast.rooms:
        devices = [device for device in home.plan.devices if device.room.id == room and device.did not in cast.appliances]
        if appliances := [device for device in devices if not is_sensor(device.spec)]:
            chosen = rng.choice(appliances)
            cast.appliances[chosen.did], cast.places[chosen.did] = _script_kind(chosen), room


def _add_thing(group: dict[str, str], kind: str, place: str, cast: SceneCast, role: str) -> None:
    """A thing of a kind, with an id such as `pot_1`."""
    id = f"{kind}_{1 + sum(known == kind for known in group.values())}"
    group[id], cast.places[id] = kind, place
    if role:
        cast.roles[role] = id


def _choose_by_kind(
    options: Iterable[str], free: Sequence[T], suits: Callable[[str, T], bool], rng: random.Random
) -> T | None:
    """One of those that suit the first option that suits anybody."""
    for kind in options:
        if found := [one for one in free if suits(kind, one)]:
            return rng.choice(found)
    return None
