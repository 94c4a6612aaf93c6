"""The recorded Assist API of a real Home Assistant, and the home as its agent reads it: the prompt.

`dumps/` holds one file for each version of Home Assistant. `scripts/check_homeassistant --record` writes it.

Invariant: the texts of the API come from the records; none of them is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, entities_of_plan, floors_of_plan
from homerl.envs.homeenv.sim.devices.rooms import HOME
from homerl.envs.homeenv.sim.home import Home

HERE = Path(__file__).parent / "dumps"
LIST, AREA_LINE = "\n- names:", "\nYou are in area "


@dataclass(frozen=True)
class RecordedApi:
    """A recorded API. `tools` maps each name to the tool as it was listed.

    `before` and `after` are the parts of the prompt around the list of entities. `placed_after` is the latter for a person
    who speaks to a device in an area. `example` is the area and the floor that the recorded prompt names there.
    """

    version: str
    tools: Mapping[str, Mapping[str, Any]]
    before: str
    after: str
    placed_after: str
    example: tuple[str, str]

    def prompt_end(self, area: str | None, floor: str | None) -> str:
        """The part of the prompt after the list, for a person who speaks to a device in this area."""
        if area is None:
            return self.after
        return self.placed_after.replace("{} (floor {})".format(*self.example), f"{area} (floor {floor})" if floor else area)


@lru_cache
def latest_recorded_api() -> RecordedApi:
    """The dump of the newest version."""
    path = max(HERE.glob("*.json"), key=lambda file: tuple(map(int, file.stem.split("."))))
    recorded = json.loads(path.read_text("utf-8"))
    before, rest = recorded["prompt"].split(LIST, 1)
    after, placed = (text.split("\n\n", 1)[1] for text in (rest, recorded["prompt_in_area"].split(LIST, 1)[1]))
    where = placed.split(AREA_LINE, 1)[1].split(")", 1)[0]
    area, floor = where.split(" (floor ", 1)
    tools = {tool["name"]: tool for tool in recorded["tools"]}
    return RecordedApi(recorded["version"], tools, before, after, placed, (area, floor))


# Home Assistant uses this dumper. It writes emoji as \U0001F525, and is 10 times faster than the one in Python.
Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
OWN_TOOLS = {"calendar", "script"}  # domains whose entities are tools, and not in the list


def list_entities(found: Iterable[AssistEntity], home: Home | None = None) -> str:
    """Entities in Home Assistant's YAML, by name; with their state if the home is given."""
    rows = []
    for entity in sorted(found, key=lambda e: e.name):
        if entity.domain in OWN_TOOLS:
            continue
        row: dict[str, Any] = {"names": ", ".join(entity.names), "domain": entity.domain}
        row |= {"state": entity.state_text(home)} if home else {}
        row |= {"areas": ", ".join(entity.area.names)} if entity.area else {}
        shown = entity.shown_attributes(home) if home else {}
        rows.append(row | ({"attributes": shown} if shown else {}))
    text = yaml.dump(rows, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=Dumper)
    return text.replace(": null\n", ":\n")  # as it stands, also in a name


def static_context(home: Home) -> str:
    """The list of entities as the prompt holds it. It is a function of the plan, so it stays the same between sentences."""
    return list_entities(entities_of_plan(home.plan)).rstrip("\n")


def assist_prompt(home: Home) -> str:
    """The whole prompt, with the area where the person speaks."""
    recorded, room = latest_recorded_api(), home.plan.entrance_room
    floor = next((floor.name for floor in floors_of_plan(home.plan) if room and room.id in floor.rooms), None)
    after = recorded.prompt_end(room.name if room and room.id != HOME else None, floor)
    return f"{recorded.before}\n{static_context(home)}\n\n{after}"
