"""A household as agents and judges see it: the schema of PersonalHomeBench Appendix H, as plain data.

Invariants: ages are those of now; typed facts, tastes, habits, traits and the keys of situations are never shown; rooms are
shown by name, devices by name (their id), kind and state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.personalhome.appliances import catalogue, is_sensor
from envs.personalhome.household import Event, Household, Indoor, Member, Memory, Outdoor, Pet, Weather
from envs.personalhome.words import words_for

Plain = dict[str, Any]
# The unit of each quantity of the weather, as `envs.personalhome.words` knows it; None is a plain number.
UNITS = {
    "rain": "millimetre", "snow": "millimetre", "sunny": "percentage", "wind": "metre_per_second", "temperature": "celsius",
    "dust": "micrograms", "humidity": "percentage", "odor": None,
}  # fmt: skip


def shown(household: Household) -> Plain:
    """The whole household, at its start."""
    return {
        **profile_shown(household),
        "members": [member_shown(member, household) for member in household.members],
        "appliances": appliances_shown(household),
        "sensors": sensors_shown(household),
        "memories": [memory_shown(memory) for memory in household.memories],
        "context": context_shown(household),
    }


def profile_shown(household: Household) -> Plain:
    """The household without its members, devices, memories and context."""
    words = words_for(household.language)
    return {
        "household_id": household.household_id,
        "household_size": len(household.members),
        "occupancy_type": words.word("occupancy", household.occupancy_type),
        "layout": household.layout,
        "pets": [pet_shown(pet, household) for pet in household.pets],
    }


def pet_shown(pet: Pet, household: Household) -> Plain:
    """A pet."""
    return {"name": pet.name, "animal": words_for(household.language).word("animals", pet.animal), "age": pet.age}


def member_shown(member: Member, household: Household) -> Plain:
    """A member, with the age of now."""
    words = words_for(household.language)
    return {
        "member_id": member.member_id,
        "name": member.name,
        "role": words.word("roles", member.role),
        "age": member.age(household.now.date()),
        "gender": words.word("genders", member.gender),
        "occupation": words.word("occupations", member.occupation),
        "persona": member.persona,
        "hobbies": [words.word("hobbies", hobby) for hobby in member.hobbies],
        "lifestyle": member.lifestyle,
        "preference": member.preference,
        "major_events": life_shown(member),
    }


def life_shown(member: Member) -> list[Plain]:
    """The major events of a member, in the order of time."""
    return [{"date": event.date.isoformat(), "description": event.description} for event in member.major_events]


def memory_shown(memory: Memory) -> Plain:
    """A memory."""
    return {
        "memory": memory.memory,
        "subjects": list(memory.subjects),
        "additional_information": memory.additional_information,
        "time": memory.time.isoformat(timespec="minutes"),
    }


def device_shown(name: str, kind: str, state: Mapping[str, Any]) -> Plain:
    """A device: its name in the home, its kind, and its values by attribute."""
    return {"name": name, "kind": kind, "state": dict(state)}


def appliances_shown(household: Household) -> list[Plain]:
    """The appliances at the start, each with its location."""
    return [{"appliance": device, "location": room} for device, room, sensor in _devices(household) if not sensor]


def sensors_shown(household: Household) -> list[Plain]:
    """The sensors at the start, each with its location."""
    return [{"sensor": device, "location": room} for device, room, sensor in _devices(household) if sensor]


def room_names(household: Household) -> dict[str, str]:
    """The name of each room by its id."""
    return {room["id"]: room["name"] for room in household.home["rooms"]}


def context_shown(household: Household) -> Plain:
    """The events of the last day, and the weather."""
    return {
        "events": [event_shown(event, household) for event in household.context.events],
        "weather": weather_shown(household.context.weather, household),
    }


def event_shown(event: Event, household: Household) -> Plain:
    """An event, with the devices that it concerns as they are at the start."""
    known = {device["name"]: (device, room) for device, room, _ in _devices(household)}
    return {
        "time": event.time.isoformat(timespec="minutes"),
        "description": event.description,
        "sensors": [{"sensor": known[name][0], "location": known[name][1]} for name in event.sensors],
        "appliances": [{"appliance": known[name][0], "location": known[name][1]} for name in event.appliances],
    }


def weather_shown(weather: Weather, household: Household) -> Plain:
    """The weather outside and inside, as texts with units."""
    return {"outdoor": _air_shown(weather.outdoor, household), "indoor": _air_shown(weather.indoor, household)}


def _air_shown(air: Outdoor | Indoor, household: Household) -> dict[str, str]:
    words, values = words_for(household.language), weather_values(air)
    return {name: words.quantity(value, unit) if unit else f"{value:g}" for name, (value, unit) in values.items()}


def weather_values(air: Outdoor | Indoor) -> dict[str, tuple[float, str | None]]:
    """The numbers that are shown, each with its unit: a share in percent, and all with one decimal."""
    return {name: (round(value * (100 if name == "sunny" else 1), 1), UNITS[name]) for name, value in air}


def _devices(household: Household) -> list[tuple[Plain, str, bool]]:
    """The devices at the start as (shown, the name of the room, whether it is a sensor)."""
    rooms = room_names(household)
    found = []
    for device in household.home["devices"]:
        spec = catalogue()[device["spid"]]
        found.append((device_shown(device["did"], spec.category, device["state"]), rooms[device["room"]], is_sensor(spec)))
    return found
