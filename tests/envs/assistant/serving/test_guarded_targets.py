"""A trigger that names its target as Home Assistant's editor does is set off by each entity of the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.serving.test_guard import UNLOCK, asks

PLUG, OTHER, DOOR = "switch.plug", "switch.other", "lock.front_door"
# The plug is of a device in an area on a floor, and has a label. The other one is in another area.
FILES = {
    "states": [
        {"entity_id": PLUG, "state": "off", "attributes": {"friendly_name": "Coffee Plug"}},
        {"entity_id": OTHER, "state": "off", "attributes": {"friendly_name": "Tea Plug"}},
        {"entity_id": DOOR, "state": "locked", "attributes": {"friendly_name": "Front Door"}},
        {"entity_id": "automation.x", "state": "on", "attributes": {"friendly_name": "X"}},
    ],
    "entity_registry": [
        {"entity_id": PLUG, "id": "r1", "device_id": "d1", "area_id": None, "labels": ["drinks"]},
        {"entity_id": OTHER, "id": "r2", "device_id": "d2", "area_id": None, "labels": []},
    ],
    "device_registry": [
        {"id": "d1", "name": "Plug", "area_id": "pantry"},
        {"id": "d2", "name": "Other plug", "area_id": "attic"},
    ],
    "area_registry": [
        {"area_id": "pantry", "name": "Pantry", "floor_id": "ground"},
        {"area_id": "attic", "name": "Attic", "floor_id": "top"},
    ],
    "floor_registry": [
        {"floor_id": "ground", "name": "Ground", "level": 0},
        {"floor_id": "top", "name": "Top", "level": 1},
    ],
    "label_registry": [{"label_id": "drinks", "name": "Drinks"}],
}


def home_with(folder: Path, trigger: dict[str, Any]) -> Home:
    for stem, rows in FILES.items():
        (folder / f"{stem}.json").write_text(json.dumps(rows))
    automation = {"triggers": [trigger], "conditions": [], "actions": [UNLOCK]}
    return import_home(load_listing(folder).with_sources({AUTOMATIONS: {"automation.x": automation}}), everything=True).home


@pytest.mark.parametrize(
    "target",
    [
        {"entity_id": PLUG},
        {"device_id": "d1"},
        {"device_id": ["d1"]},
        {"area_id": "pantry"},
        {"floor_id": "ground"},
        {"label_id": ["drinks"]},
        {"entity_id": DOOR, "area_id": "pantry"},
    ],
    ids=json.dumps,
)
def test_what_a_target_names_is_asked_about_and_nothing_else(serve, tmp_path: Path, target: dict[str, Any]) -> None:
    home = home_with(tmp_path, {"trigger": "switch.turned_on", "target": target})
    assert "Front Door" in asks(serve, home, PLUG)
    assert not asks(serve, home, OTHER)


@pytest.mark.parametrize("target", [{"device_id": "gone"}, {"area_id": "{{ area }}"}, {"shelf_id": "top"}], ids=json.dumps)
def test_a_target_that_is_not_known_may_be_any(serve, tmp_path: Path, target: dict[str, Any]) -> None:
    home = home_with(tmp_path, {"trigger": "switch.turned_on", "target": target})
    assert "Front Door" in asks(serve, home, PLUG) and "Front Door" in asks(serve, home, OTHER)
