"""A household as agents and judges see it: the schema of PersonalHomeBench Appendix H, as plain data.

Tools show rows of it, and `household_shown` shows all rows at once.

Invariants:
- A row is the same in both, and holds nothing that its arguments do not say.
- Typed facts, tastes, habits, traits and the keys of situations are never shown.
- Keys of `vocabulary.yaml` are words of the household's language. Texts that are no keys, which tools may write, stay.
- Ages are those of the home's clock; times are ISO 8601 of that clock, in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.household import Event, Household, Member, Memory, Pet
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note, device_kind
from homerl.envs.personalhome.sim.vocabulary import FactWords, load_fact_words

Plain = dict[str, Any]
# The unit of each quantity of the weather, as `homerl.envs.personalhome.sim.vocabulary` knows it; None is a plain number.
WEATHER_UNITS = {
    "rain": "millimetre", "snow": "millimetre", "sunny": None, "wind": "metre_per_second", "temperature": "celsius",
    "dust": "micrograms", "humidity": "percentage", "odor": None,
}  # fmt: skip


def household_shown(household: Household) -> Plain:
    """The whole household, at its start."""
    state = HouseholdState(household)
    return {
        **profile_shown(state),
        "members": [{**member_shown(one, state), **life_shown(one)} for one in state.records.members],
        "appliances": [device_shown(device, state) for device in state.devices_of_kind("appliance")],
        "sensors": [device_shown(device, state) for device in state.devices_of_kind("sensor")],
        "memories": [memory_shown(memory) for memory in state.records.memories],
        "context": {"events": [event_shown(event) for event in household.context.events], "weather": weather_shown(state)},
    }


def clock_shown(time: datetime) -> str:
    """A time: `2026-03-14T08:30`."""
    return time.isoformat(timespec="minutes")


def profile_shown(state: HouseholdState) -> Plain:
    """The household at a glance: its kind, layout and pets, the ids of its members, and the time now."""
    members, pets = state.records.members, state.records.pets
    return {
        "household_id": state.household.household_id,
        "household_size": len(members),
        "occupancy_type": _household_words(state).key_word("occupancy", state.household.occupancy_type),
        "layout": state.household.layout,
        "pets": [pet_shown(pet, state) for pet in pets],
        "member_ids": [member.member_id for member in members],
        "time": clock_shown(state.now),
    }


def pet_shown(pet: Pet, state: HouseholdState) -> Plain:
    """A pet."""
    return {"name": pet.name, "animal": _household_words(state).key_word("animals", pet.animal), "age": pet.age}


def member_shown(member: Member, state: HouseholdState) -> Plain:
    """A member without the major events, which `life_shown` gives."""
    words = _household_words(state)
    return {
        "member_id": member.member_id,
        "name": member.name,
        "role": words.key_word("roles", member.role),
        "age": member.age(state.now.date()),
        "gender": words.key_word("genders", member.gender),
        "occupation": words.key_word("occupations", member.occupation),
        "persona": member.persona,
        "hobbies": [words.key_word("hobbies", hobby) for hobby in member.hobbies],
        "lifestyle": member.lifestyle,
        "preference": member.preference,
    }


def life_shown(member: Member) -> Plain:
    """The major events of a member, in the order of time."""
    events = [{"date": event.date.isoformat(), "description": event.description} for event in member.major_events]
    return {"member_id": member.member_id, "name": member.name, "major_events": events}


def memory_shown(memory: Memory | Note) -> Plain:
    """A memory."""
    return {
        "memory": memory.memory,
        "subjects": list(memory.subjects),
        "additional_information": memory.additional_information,
        "time": clock_shown(memory.time),
    }


def event_shown(event: Event) -> Plain:
    """An event of the last day, with the ids of the devices that it concerns."""
    return {
        "time": clock_shown(event.time),
        "description": event.description,
        "sensors": list(event.sensors),
        "appliances": list(event.appliances),
    }


def owned_shown(device: Device) -> Plain:
    """An appliance or a sensor: its id for tools, what texts call it, its type and the name of its room."""
    return {device_kind(device): device.did, "name": device.name, "type": device.spec.category, "location": device.room.name}


def device_shown(device: Device, state: HouseholdState) -> Plain:
    """An appliance or a sensor with its values by attribute."""
    return {**owned_shown(device), "state": json_value(state.device_values(device.did))}


def weather_shown(state: HouseholdState) -> Plain:
    """The weather outside and the air inside, with units; the share of sunshine and the odour are plain numbers."""
    shown: Plain = {"outdoor": {}, "indoor": {}}
    for side, air in state.household.context.weather:
        for name, value in air:
            unit = WEATHER_UNITS[name]
            shown[side][name] = _household_words(state).quantity_text(value, unit) if unit else value
    return shown


def json_value(value: Any) -> Any:
    """A device's value as JSON returns it, with lists in place of tuples."""
    if isinstance(value, Mapping):
        return {key: json_value(part) for key, part in value.items()}
    return [json_value(part) for part in value] if isinstance(value, (list, tuple)) else value


def _household_words(state: HouseholdState) -> FactWords:
    return load_fact_words(state.household.language)
