"""A home of Home Assistant from rows that a test writes, imported from files as people have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.homeenv.sim.home import Home


@dataclass(frozen=True)
class Row:
    """An entity: its id, its name there, and the id of its area."""

    entity_id: str
    name: str
    area: str | None = None
    state: str = "off"
    aliases: Sequence[str] = ()
    device_class: str | None = None
    members: Sequence[str] = ()
    features: int = 15
    closed: bool | None = None
    code_format: str | None = None
    code_arm_required: bool | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """As the state has them."""
        told = {
            "device_class": self.device_class,
            "entity_id": list(self.members) or None,
            "is_closed": self.closed,
            "code_format": self.code_format,
            "code_arm_required": self.code_arm_required,
        }
        named = {"friendly_name": self.name, "supported_features": self.features}
        return named | {key: one for key, one in told.items() if one is not None}


def written_home(folder: Path, *rows: Row, areas: dict[str, str] | None = None) -> Home:
    """The home of these entities; `areas` are names by id."""
    states = [{"entity_id": row.entity_id, "state": row.state, "attributes": row.attributes} for row in rows]
    entries = [{"entity_id": row.entity_id, "area_id": row.area, "aliases": list(row.aliases)} for row in rows]
    named = [{"area_id": id, "name": name} for id, name in (areas or {}).items()]
    for stem, data in (("states", states), ("entity_registry", entries), ("area_registry", named)):
        (folder / f"{stem}.json").write_text(json.dumps(data), encoding="utf-8")
    return import_home(load_listing(folder), everything=True).home
