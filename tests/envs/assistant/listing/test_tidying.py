"""Listings with odd rows: what one of them says ends no import."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.listing_cleaning import clean_listing
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.assistant.listing.room_and_device_names import room_id_of_area
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home_file import load_home, save_home
from tests.envs.assistant.listing.replay import listing

PATIENCE = 30  # seconds for one import
Files = dict[str, Any]


def lamp(entity_id: Any = "light.a", state: Any = "on", **attributes: Any) -> dict[str, Any]:
    return {"entity_id": entity_id, "state": state, "attributes": {"friendly_name": "A", **attributes}}


def registered(**entry: Any) -> Files:
    return {"states": [lamp()], "entity_registry": [{"entity_id": "light.a", **entry}]}


def areas(*rows: Any) -> Files:
    return {"states": [lamp()], "area_registry": list(rows), "entity_registry": [{"entity_id": "light.a", "area_id": "k"}]}


def part_of(**parents: str) -> Files:
    """A lamp of the device `d`, with devices and what they are said to be parts of."""
    return registered(device_id="d") | {
        "device_registry": [{"id": id, "parent_device_id": of} for id, of in parents.items()]
    }


K = {"area_id": "k", "name": "K"}

ODD: dict[str, Files] = {  # what an import reads all the same, and notes
    "a row that is a text": {"states": [lamp(), "a"]},
    "a row that is null": {"states": [lamp(), None]},
    "a row without an id": {"states": [lamp(), {"state": "on"}]},
    "an id that is none": {"states": [lamp(), lamp(None), lamp("light"), lamp(5)]},
    "attributes that are a text": {"states": [lamp() | {"attributes": "x"}]},
    "attribute with a number as key": {"states": [lamp() | {"attributes": {5: "x"}}]},
    "no state": {"states": [{"entity_id": "light.a", "attributes": {}}]},
    "state null": {"states": [lamp(state=None)]},
    "state true": {"states": [lamp(state=True)]},
    "state number": {"states": [lamp(state=3)]},
    "state list": {"states": [lamp(state=["on"])]},
    "name number": {"states": [lamp(friendly_name=5)]},
    "name list": {"states": [lamp(friendly_name=["A"])]},
    "name blank": {"states": [lamp(friendly_name="  ")]},
    "number that is none": {"states": [lamp(brightness=float("nan"))]},
    "entity twice": {"states": [lamp(), lamp(state="off")]},
    "moment that is none": {"states": [lamp() | {"last_updated": "yesterday"}]},
    "moment that is a number": {"states": [lamp() | {"last_updated": 1.5}]},
    "moment in no year": {"states": [lamp() | {"last_updated": "0001-01-01T00:00:00+00:00"}]},
    "moments with and without zone": {
        "states": [lamp() | {"last_updated": "2026-01-01T00:00:00"}, lamp("light.b") | {"last_updated": "2026-01-01T00:00Z"}]
    },
    "area without name": areas({"area_id": "k"}),
    "area with the name null": areas(K | {"name": None}),
    "area without id": areas({"name": "K"}),
    "area that is a text": areas("k"),
    "area twice": areas(K, K),
    "aliases of an area that are a text": areas(K | {"aliases": "x"}),
    "level with a fraction": {"states": [lamp()], "floor_registry": [{"floor_id": "k", "name": "K", "level": 1.5}]},
    "aliases that are a text": registered(aliases="x"),
    "options that are a text": registered(options="x"),
    "area of an entry that is a list": registered(area_id=["k"]),
    "device of an entry that is a list": registered(device_id=["k"]),
    "entry without id": {"states": [lamp()], "entity_registry": [{"aliases": []}]},
    "device without id": {"states": [lamp()], "device_registry": [{"name": "x"}]},
    "time zone that is a number": {"states": [lamp()], "config": {"time_zone": 5}},
    "units that are a text": {"states": [lamp()], "config": {"unit_system": "metric"}},
}
EMPTY: dict[str, Files] = {  # what says nothing, of which there is nothing to note
    "attributes null": {"states": [lamp() | {"attributes": None}]},
    "name null": {"states": [lamp(friendly_name=None)]},
    "aliases of an area null": areas(K | {"aliases": None}),
    "areas home and home_area": areas(K, {"area_id": "home", "name": "H"}, {"area_id": "home_area", "name": "I"}),
    "aliases null": registered(aliases=None),
    "labels null": registered(labels=None),
    "options null": registered(options=None),
    "unknown area": registered(area_id="zz"),
    "features that are a text": {"states": [lamp("cover.a", "open", supported_features="x")]},
    "class that is a list": {"states": [lamp("binary_sensor.a", device_class=["door"])]},
    "device that is a part of itself": part_of(d="d"),
    "devices in a circle": part_of(d="e", e="d"),
    "units null": {"states": [lamp()], "config": {"unit_system": None}},
}
SAVED = {"version": "1", "sources": {"get_states": [lamp()]}}
UNUSABLE: dict[str, tuple[Files, str]] = {  # what is no home at all, and what is said of it
    "refused request": ({"states": {"message": "401: Unauthorized"}}, "states.json: holds the answer of a refused request"),
    "states by entity": ({"states": {"light.a": lamp()}}, "states.json: holds a mapping and no list"),
    "states as text": ({"states": "x"}, "states.json: holds a text and no list"),
    "texts for states": ({"states": ["a"]}, "no row of the states has an `entity_id`"),
    "services as text": ({"states": [lamp()], "services": "x"}, "services.json: holds a text and no mapping or list"),
    "services without services": ({"states": [lamp()], "services": [{"domain": "light"}]}, "do not fit together"),
    "areas as text": ({"states": [lamp()], "area_registry": "x"}, "area_registry.json: holds a text"),
    "config as list": ({"states": [lamp()], "config": [1]}, "config.json: holds a list and no mapping"),
    "saved without sources": ({"listing": {"version": "1", "sources": {}}}, "listing.json: is no saved listing"),
    "saved in part": ({"listing": SAVED}, "listing.json: is no saved listing"),
}


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """An import that does not end is an error."""

    def over(*_: Any) -> None:
        raise TimeoutError(f"no end within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def written(folder: Path, files: Files) -> Path:
    """A folder with these files. States are in YAML, which has keys that JSON has not, unless they are no list of rows."""
    for stem, data in files.items():
        rows = stem == "states" and isinstance(data, list)
        text = yaml.safe_dump(data) if rows else json.dumps(data)
        (folder / f"{stem}{'.yaml' if rows else '.json'}").write_text(text, encoding="utf-8")
    return folder


def imported(folder: Path, files: Files) -> ImportedHome:
    """What is imported of these files beside a lamp in order, in a home that works and is the same when it is read again."""
    made = import_home(
        load_listing(written(folder, files | {"states": [*files["states"], lamp("light.whole")]})), everything=True
    )
    save_home(made.home, folder / "home.json")
    load_home(folder / "home.json").advance(60)
    save_listing(made.listing, folder / "saved")
    save_home(import_home(load_listing(folder / "saved"), everything=True).home, folder / "again.json")
    assert (folder / "home.json").read_bytes() == (folder / "again.json").read_bytes()
    return made


@pytest.mark.parametrize("name", [*ODD, *EMPTY])
def test_an_odd_row_ends_no_import_and_is_noted(tmp_path: Path, name: str) -> None:
    files = ODD.get(name) or EMPTY[name]
    made = imported(tmp_path, files)
    assert {files["states"][0]["entity_id"], "light.whole"} <= made.home.plan.devices_by_did.keys()
    said = clean_listing(load_listing(tmp_path))[1]
    assert bool(said) is (name in ODD) and set(said) <= set(made.notes)


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_is_told_with_its_path(tmp_path: Path, name: str) -> None:
    files, says = UNUSABLE[name]
    with pytest.raises(InputError) as raised:
        load_listing(written(tmp_path, files))
    assert says in str(raised.value) and str(tmp_path) in str(raised.value)


def test_what_is_odd_is_not_told_in_a_note(tmp_path: Path) -> None:
    made = imported(tmp_path, {"states": [lamp("person.anna", ["Hidden Street 1"], friendly_name=["Hidden Street 1"])]})
    assert made.notes and "Hidden" not in str(made.notes)


def test_a_listing_of_home_assistant_and_a_tidy_one_stay_as_they_are(tmp_path: Path) -> None:
    assert clean_listing(listing()) == (listing(), [])
    odd = {
        "states": [lamp(state=3, friendly_name=5), lamp()],
        "config": {"time_zone": 5},
        "area_registry": [{"area_id": "k"}],
    }
    tidy, notes = clean_listing(load_listing(written(tmp_path, odd)))
    assert clean_listing(tidy) == (tidy, []) and len(notes) == 5


def test_two_areas_are_two_rooms() -> None:
    names = ("home", "home_area", "home_area_area", "outdoors", "kitchen", "home_areas")
    assert len({room_id_of_area(name) for name in names} | {"home", "outdoors"}) == len(names) + 2
    assert room_id_of_area("kitchen") == "kitchen" and room_id_of_area("home") == "home_area"
