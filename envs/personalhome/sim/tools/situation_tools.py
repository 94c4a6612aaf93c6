"""The tools that tell what goes on now: the weather, and what happened in the last day."""

from __future__ import annotations

from typing import Any

from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import clock_shown, event_shown, weather_shown
from homerl.envs.personalhome.sim.tools.contract import Arguments, HouseholdTool, add_tool

TOOLS: list[HouseholdTool] = []
FORM: dict[str, dict[str, Any]] = {
    "compact": {"type": "boolean", "description": "one line for each event, without its devices (default false)"},
    "sort_by_time": {"type": "boolean", "description": "the earliest first (default false)"},
    "indent": {"type": "string", "maxLength": 8, "description": "what lines begin with (default two spaces)"},
}


@add_tool(
    TOOLS,
    "The weather now. Outdoors: rain, snow, the share of sunshine from 0 to 1, temperature and wind. "
    "Indoors: dust (PM2.5), humidity, odour from 0 to 5, and temperature.",
)
def get_weather(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The weather now, outside and inside."""
    state.note_shown("weather")
    return weather_shown(state)


@add_tool(TOOLS, "What appliances and sensors did or noticed in the last day, in the order of time.")
def get_appliance_and_sensor_events(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The events that concern a device, in the order of time."""
    events = [(at, event) for at, event in enumerate(state.household.context.events) if event.sensors or event.appliances]
    state.note_shown(*(f"event:{at}" for at, _ in events))
    return [event_shown(event) for _, event in sorted(events, key=lambda pair: pair[1].time)]


@add_tool(
    TOOLS, "What happened in the last day, in words with times. The latest comes first unless sorted by time.", FORM, [*FORM]
)
def get_contextual_event_descriptions(state: HouseholdState, arguments: Arguments) -> str:
    """All events in words: the latest first, or in the order of time; a line each, or with the devices below it."""
    events, indent = state.household.context.events, arguments.get("indent", "  ")
    state.note_shown(*(f"event:{at}" for at in range(len(events))))
    lines = []
    for event in sorted(events, key=lambda event: event.time, reverse=not arguments.get("sort_by_time", False)):
        if arguments.get("compact", False):
            lines.append(f"{clock_shown(event.time)} {event.description}")
        else:
            lines += [clock_shown(event.time), f"{indent}{event.description}"]
            devices = (("appliances", event.appliances), ("sensors", event.sensors))
            lines += [f"{indent}{kind}: {', '.join(names)}" for kind, names in devices if names]
    return "\n".join(lines)
