"""A household for reading in a terminal: its people, home, memories and present situation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from envs.personalhome.household import Household
from envs.personalhome.shown import shown


def household_view(household: Household) -> Group:
    """All that agents may see of it, and last the situations, which they may not."""
    told = shown(household)
    context = told["context"]
    parts: list[RenderableType] = [
        Text(f"{told['household_id']}  {household.now:%Y-%m-%d %H:%M}", "bold"),
        Text(told["layout"]),
        *_part(f"Members: {told['occupancy_type']}", _members(told["members"])),
    ]
    if told["pets"]:
        parts += _part("Pets", [Text(", ".join(f"{pet['name']} ({pet['animal']}, {pet['age']})" for pet in told["pets"]))])
    devices = told["appliances"] + told["sensors"]
    parts += _part(f"Devices: {len(told['appliances'])} appliances, {len(told['sensors'])} sensors", [_devices(devices)])
    parts += _part("Weather", [_air(place, air) for place, air in context["weather"].items()])
    parts += _part("Events", [_timed((one["time"], one["description"]) for one in context["events"])])
    memories = ((one["time"], f"{one['memory']} {one['additional_information']}") for one in told["memories"])
    parts += _part(f"Memories: {len(told['memories'])}", [_timed(memories)])
    parts += _part("Situations (agents are not told)", [Text(", ".join(household.context.situations) or "none")])
    return Group(*parts)


def _part(title: str, inside: Iterable[RenderableType]) -> list[RenderableType]:
    return [Text(f"\n{title}", "bold cyan"), *(Padding(one, (0, 0, 0, 2)) for one in inside)]


def _members(members: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for member in members:
        about = ", ".join(str(member[key]) for key in ("member_id", "role", "age", "gender", "occupation"))
        yield Text.assemble((member["name"], "bold"), (f"  {about}", "dim"))
        said = [member["persona"], ", ".join(member["hobbies"]), member["lifestyle"], member["preference"]]
        said += [f"{event['date']}: {event['description']}" for event in member["major_events"]]
        yield from (Padding(Text(text), (0, 0, 0, 2)) for text in said if text)


def _devices(devices: Sequence[Mapping[str, Any]]) -> Table:
    """The devices by room, appliances before sensors."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for room, inside in groupby(sorted(devices, key=lambda one: one["location"]), key=lambda one: one["location"]):
        for at, one in enumerate(inside):
            state = ", ".join(f"{name} {value_text(value)}" for name, value in one["state"].items() if value != "")
            table.add_row(Text("" if at else room, "bold"), one["name"], Text(state, "dim"))
    return table


def value_text(value: Any) -> str:
    """The value of a device's attribute."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def _air(place: str, air: Mapping[str, str | float]) -> Text:
    return Text(f"{place}: {', '.join(f'{name} {value}' for name, value in air.items())}")


def _timed(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for time, text in rows:
        table.add_row(Text(time.replace("T", " "), "dim"), Text(text))
    return table
