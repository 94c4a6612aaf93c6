"""Rows as agents read them: plain data in the paper's schema (PersonalHomeBench Appendix H), without typed facts.

Invariant: a row holds nothing that its argument does not say; times are ISO 8601 of the home's clock, in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from envs.homeenv.devices import Device
from envs.personalhome.household import Event, Member, Memory, Pet, Weather
from envs.personalhome.state import Note


def clock(time: datetime) -> str:
    """A time as agents read it: `2026-03-14T08:30`."""
    return time.isoformat(timespec="minutes")


def pet_row(pet: Pet) -> dict[str, Any]:
    """A pet: name, animal, age in years."""
    return pet.model_dump(mode="json")


def member_row(member: Member, today: date) -> dict[str, Any]:
    """A member without the major events, which have a row each. The age is that of `today`."""
    return {
        "member_id": member.member_id,
        "name": member.name,
        "role": member.role,
        "age": member.age(today),
        "gender": member.gender,
        "occupation": member.occupation,
        "persona": member.persona,
        "hobbies": list(member.hobbies),
        "lifestyle": member.lifestyle,
        "preference": member.preference,
    }


def life_rows(member: Member) -> list[dict[str, Any]]:
    """The major events of a member's life: date and description."""
    return [{"date": event.date.isoformat(), "description": event.description} for event in member.major_events]


def memory_row(memory: Memory | Note) -> dict[str, Any]:
    """A memory: text, subjects, additional information and time."""
    return {
        "memory": memory.memory,
        "subjects": list(memory.subjects),
        "additional_information": memory.additional_information,
        "time": clock(memory.time),
    }


def event_row(event: Event) -> dict[str, Any]:
    """An event: time, description and the names of the devices that it concerns."""
    return {
        "time": clock(event.time),
        "description": event.description,
        "sensors": list(event.sensors),
        "appliances": list(event.appliances),
    }


def weather_row(weather: Weather) -> dict[str, Any]:
    """The weather outside and inside, as numbers in the units of `Outdoor` and `Indoor`."""
    return weather.model_dump(mode="json")


def device_row(kind: str, device: Device) -> dict[str, Any]:
    """An appliance or a sensor, as `kind` says: its id for tools, what texts call it, what it is, and its room."""
    return {kind: device.did, "name": device.name, "type": device.spec.category, "location": device.room.name}


def plain(value: Any) -> Any:
    """A device's value as JSON returns it, with lists in place of tuples."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value
