"""The Assist API of a real Home Assistant, as it was recorded: its tools, and the texts of its prompt.

`dumps/` holds one file a version. `scripts/check_homeassistant --record` writes it. Invariant: nothing that an agent reads
of the API is written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

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
        known_area, known_floor = self.example
        where = f"{area} (floor {floor})" if floor else area
        return self.placed_after.replace(f"{known_area} (floor {known_floor})", where)


@lru_cache
def latest_recorded_api() -> RecordedApi:
    """The dump of the newest version."""
    path = max(HERE.glob("*.json"), key=lambda file: tuple(map(int, file.stem.split("."))))
    recorded = json.loads(path.read_text("utf-8"))
    before, after = _around(recorded["prompt"])
    _, placed = _around(recorded["prompt_in_area"])
    where = placed.split(AREA_LINE, 1)[1].split(")", 1)[0]
    area, floor = where.split(" (floor ", 1)
    tools = {tool["name"]: tool for tool in recorded["tools"]}
    return RecordedApi(recorded["version"], tools, before, after, placed, (area, floor))


def _around(prompt: str) -> tuple[str, str]:
    """The text before the list of entities, and the text after it."""
    before, rest = prompt.split(LIST, 1)
    return before, rest.split("\n\n", 1)[1]
