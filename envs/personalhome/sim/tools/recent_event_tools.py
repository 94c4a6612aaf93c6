"""The tools that tell what happened in the last day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.sim.household import Event
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import clock_shown, event_shown
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool


def get_appliance_and_sensor_events(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events that concern a device, in the order of time."""
    events = [(at, event) for at, event in enumerate(state.household.context.events) if event.sensors or event.appliances]
    state.note_shown(*(f"event:{at}" for at, _ in events))
    return [event_shown(event) for _, event in sorted(events, key=lambda pair: pair[1].time)]


def get_contextual_event_descriptions(state: HouseholdState, arguments: Mapping[str, Any]) -> str:
    """All events in words: the latest first, or in the order of time; a line each, or with the devices below it."""
    events = state.household.context.events
    state.note_shown(*(f"event:{at}" for at in range(len(events))))
    ordered = sorted(events, key=lambda event: event.time, reverse=not arguments.get("sort_by_time", False))
    if arguments.get("compact", False):
        return "\n".join(f"{clock_shown(event.time)} {event.description}" for event in ordered)
    return "\n".join(_described(event, arguments.get("indent", "  ")) for event in ordered)


def _described(event: Event, indent: str) -> str:
    lines = [f"{clock_shown(event.time)}", f"{indent}{event.description}"]
    lines += [f"{indent}{kind}: {', '.join(names)}" for kind, names in _devices(event).items() if names]
    return "\n".join(lines)


def _devices(event: Event) -> dict[str, tuple[str, ...]]:
    return {"appliances": event.appliances, "sensors": event.sensors}


TOOLS = (
    HouseholdTool(
        "get_appliance_and_sensor_events",
        "What appliances and sensors did or noticed in the last day, in the order of time.",
        {},
        get_appliance_and_sensor_events,
    ),
    HouseholdTool(
        "get_contextual_event_descriptions",
        "What happened in the last day, in words with times. The latest comes first unless sorted by time.",
        {
            "compact": {"type": "boolean", "description": "one line for each event, without its devices (default false)"},
            "sort_by_time": {"type": "boolean", "description": "the earliest first (default false)"},
            "indent": {"type": "string", "maxLength": 8, "description": "what lines begin with (default two spaces)"},
        },
        get_contextual_event_descriptions,
    ),
)
