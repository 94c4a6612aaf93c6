"""Listings in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.exposure import select_entities
from homerl.envs.assistant.listing.home_listing import AREAS, DEVICES, ENTRIES, FLOORS, STATES
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.core.documents import InputError
from tests.envs.assistant.listing.replay import listing


def test_a_saved_listing_is_read_again(tmp_path: Path) -> None:
    save_listing(listing(), tmp_path / "new")
    assert load_listing(tmp_path / "new") == listing()


def stored(folder: Path, name: str, key: str, rows: object) -> None:
    """A file as Home Assistant's `.storage` has it."""
    (folder / name).write_text(json.dumps({"version": 1, "key": name, "data": {key: rows}}), encoding="utf-8")


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    """The recorded home in the forms that people have: REST's states, and files of `.storage`."""
    sources = listing().sources
    (tmp_path / "states.json").write_text(json.dumps(sources[STATES]), encoding="utf-8")
    areas = [{key: one for key, one in row.items() if key != "area_id"} | {"id": row["area_id"]} for row in sources[AREAS]]
    stored(tmp_path, "core.area_registry", "areas", areas)
    stored(tmp_path, "core.floor_registry", "floors", sources[FLOORS])
    stored(tmp_path, "core.device_registry", "devices", sources[DEVICES])
    stored(tmp_path, "core.entity_registry", "entities", list(sources[ENTRIES].values()))
    return tmp_path


def test_the_files_that_people_have_give_the_same_entities(simple: Path) -> None:
    read, real = load_listing(simple), listing()
    assert read.areas == real.areas and read.floors == real.floors
    own = {one.entity_id: [s for s in one.services if s.startswith(one.domain)] for one in real.entities}
    for entity in read.entities:
        if entity.domain in ("light", "climate", "cover", "fan", "media_player", "vacuum", "lock"):
            assert sorted(own[entity.entity_id]) == list(entity.services)


def test_the_files_that_people_have_give_a_home(simple: Path) -> None:
    home = import_home(load_listing(simple)).home
    assert home.plan.devices_by_did["light.bed_light"].room == home.plan.rooms_by_id["bedroom"]
    assert {one.entity_id for one in select_entities(load_listing(simple))} == home.plan.devices_by_did.keys()


def test_yaml_is_read_too(tmp_path: Path) -> None:
    states = [
        {
            "entity_id": "light.lamp",
            "state": "on",
            "attributes": {"friendly_name": "Lamp", "supported_color_modes": ["onoff"]},
        }
    ]
    (tmp_path / "states.yaml").write_text(yaml.safe_dump(states), encoding="utf-8")
    assert [one.name for one in load_listing(tmp_path).entities] == ["Lamp"]
    assert import_home(load_listing(tmp_path)).home.read_value("light.lamp", "state") == "on"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "states.json"),
        ({"states.json": "{"}, "states.json"),
        ({"states.json": '[{"state": "on"}]'}, "do not fit together"),
        ({"listing.json": '{"version": 1}'}, "no saved listing"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_path(tmp_path: Path, files: dict[str, str], says: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        load_listing(tmp_path)
    assert says in str(raised.value) and str(tmp_path) in str(raised.value)


def test_no_folder_is_told() -> None:
    with pytest.raises(InputError, match="no folder"):
        load_listing(Path("/no/such/folder"))
