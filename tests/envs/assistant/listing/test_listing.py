"""What is read of a home from its listing, whatever stands in it: entities, what is exposed, rooms and names."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.home_listing import (
    AREAS,
    DEVICES,
    ENTRIES,
    EXPOSED,
    FLOORS,
    STATES,
    ListedArea,
    ListedEntity,
    Listing,
    clean_listing,
)
from homerl.envs.assistant.listing.home_setup import exposed_entity_ids, select_entities
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.assistant.listing.room_and_device_names import (
    GENERAL,
    guess_room_type,
    name_devices,
    room_id_of_area,
    rooms_from_areas,
)
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home_file import load_home, save_home
from tests.envs.assistant.listing.making import make_entity
from tests.envs.assistant.listing.replay import listing


@pytest.fixture(scope="module")
def home() -> Listing:
    return listing()


@pytest.fixture(scope="module")
def entities(home: Listing) -> dict[str, ListedEntity]:
    return {entity.entity_id: entity for entity in home.entities}


def test_a_listing_survives_json(home: Listing) -> None:
    assert Listing.model_validate_json(home.model_dump_json()) == home


def test_a_listing_is_frozen(home: Listing) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        home.version = "1"


def test_a_dozen_areas_lie_on_two_floors(home: Listing) -> None:
    assert len(home.areas) == 12
    floors = {floor.floor_id for floor in home.floors}
    assert {area.floor_id for area in home.areas} == floors == {"ground_floor", "first_floor"}
    assert next(area for area in home.areas if area.name == "Living Room").aliases == ("Lounge",)


def test_an_entity_stands_in_the_area_of_its_device(home: Listing, entities: dict[str, ListedEntity]) -> None:
    assert home.sources[ENTRIES]["light.bed_light"]["area_id"] is None
    assert entities["light.bed_light"].area_id == "bedroom"


def test_an_entity_of_a_part_stands_in_the_area_of_the_whole(home: Listing) -> None:
    sources = {
        ENTRIES: {"switch.socket": {"area_id": None, "device_id": "socket"}},
        DEVICES: [{"id": "socket", "area_id": None, "parent_device_id": "strip"}, {"id": "strip", "area_id": "office"}],
    }
    assert Listing(version="1", sources=sources).area_of_entity("switch.socket") == "office"


def test_an_area_of_its_own_comes_first(entities: dict[str, ListedEntity]) -> None:
    assert entities["input_boolean.guest_mode"].device_id is None
    assert entities["input_boolean.guest_mode"].area_id is not None


def test_an_entity_that_is_not_registered_has_no_area(entities: dict[str, ListedEntity]) -> None:
    lock = entities["lock.front_door"]
    assert (lock.area_id, lock.aliases) == (None, ()) and lock.services


def test_aliases_are_names_beside_its_own(entities: dict[str, ListedEntity]) -> None:
    light = entities["light.ceiling_lights"]
    assert (light.name, light.aliases) == ("Ceiling Lights", ("Big light", "Chandelier"))


def test_each_area_is_known(home: Listing, entities: dict[str, ListedEntity]) -> None:
    known = {row["area_id"] for row in home.sources[AREAS]}
    assert {entity.area_id for entity in entities.values()} - {None} == known


def test_what_is_of_no_use_to_a_speaker_is_not_exposed(home: Listing) -> None:
    exposed = exposed_entity_ids(home)
    assert "sun.sun" not in exposed and {"vacuum.demo_vacuum_0_ground_floor", "lock.front_door"} <= exposed


def test_services_are_those_that_the_entity_supports(entities: dict[str, ListedEntity]) -> None:
    assert "cover.set_cover_position" in entities["cover.hall_window"].services
    assert "cover.set_cover_position" not in entities["cover.garage_door"].services


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


def ids(home: Listing, everything: bool = False) -> set[str]:
    return {one.entity_id for one in select_entities(home, everything)}


def unexposed(**attributes: Any) -> Listing:
    """The recorded home before Assist was ever asked."""
    home = listing()
    entries = {name: entry | {"options": {}, **attributes} for name, entry in home.sources[ENTRIES].items()}
    return home.with_sources({ENTRIES: entries, EXPOSED: {"exposed_entities": {}}})


def test_what_the_owner_exposed_is_imported() -> None:
    chosen = ids(listing())
    assert chosen == exposed_entity_ids(listing())
    assert "light.bed_light" in chosen and "sun.sun" not in chosen


def test_everything_is_every_entity_with_a_state() -> None:
    assert ids(listing(), everything=True) == {state["entity_id"] for state in listing().sources[STATES]}


def test_before_assist_was_asked_its_defaults_hold() -> None:
    chosen = ids(unexposed())
    assert {"light.bed_light", "climate.ecobee", "todo.chores", "sensor.outside_temperature"} <= chosen
    assert not {"lock.front_door", "alarm_control_panel.security", "sensor.power_consumption", "button.push"} & chosen


def test_what_is_hidden_or_diagnostic_is_not_exposed_by_default() -> None:
    assert not ids(unexposed(hidden_by="user")) & listing().sources[ENTRIES].keys()
    assert not ids(unexposed(entity_category="diagnostic")) & listing().sources[ENTRIES].keys()


def test_the_owners_word_is_above_the_defaults() -> None:
    said = unexposed(options={"conversation": {"should_expose": False}})
    assert not ids(said) & listing().sources[ENTRIES].keys()


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


def test_an_area_is_a_room_on_its_floors_level() -> None:
    rooms = {room.id: room for room in rooms_from_areas(listing())}
    assert len(rooms) == 12
    assert (rooms["bedroom"].name, rooms["bedroom"].type, rooms["bedroom"].floor) == ("Bedroom", "bedroom", 1)
    assert rooms["utility_room"].type == "laundry" and rooms["kitchen"].floor == 0


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("Master bedroom", "bedroom"), ("Dining Room", "dining_room"), ("Home Office", "study"), ("Guest WC", "bathroom"),
        ("Schlafzimmer Eltern", "bedroom"), ("Wohnküche", "kitchen"), ("Gästebad", "bathroom"), ("Flur OG", "hallway"),
        ("主卧卫生间", "bathroom"), ("客厅", "living_room"), ("Chambre d'amis", "bedroom"), ("Badger den", "living_room"),
        ("Room 7", GENERAL), ("Vault", GENERAL), ("", GENERAL),
    ],
)  # fmt: skip
def test_a_rooms_type_is_guessed_from_its_name(name: str, type: str) -> None:
    assert guess_room_type(name) == type


def test_an_alias_tells_a_type_that_the_name_does_not() -> None:
    assert guess_room_type("The Vault", "Lounge") == "living_room"


KITCHEN = ListedArea(area_id="kitchen", name="Kitchen", aliases=("厨房",), floor_id=None)


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("Kitchen Lights", "Lights"), ("kitchen: Oven", "Oven"), ("厨房灯", "灯"), ("Kitchen", "Kitchen"),
        ("Kitchen 2", "Kitchen 2"),
        ("Kitchen - Oven", "Oven"), ("Kitchen 2nd lamp", "2nd lamp"), ("厨房的灯", "灯"), ("厨房 灯", "灯"),
        ("Kitchen's lamp", "Kitchen's lamp"), ("Kitchen’s lamp", "Kitchen’s lamp"),
        ("Kitchen & Hall light", "Kitchen & Hall light"), ("Kitchen and hall light", "Kitchen and hall light"),
        ("Kitchen/Dining light", "Kitchen/Dining light"), ("Kitchen-room lamp", "Kitchen-room lamp"),
        ("厨房和客厅灯", "厨房和客厅灯"), ("厨房/客厅灯", "厨房/客厅灯"), ("Kitchen (old) lamp", "Kitchen (old) lamp"),
        ("Kitchenette lamp", "Kitchenette lamp"), ("Lamp of the kitchen", "Lamp of the kitchen"),
    ],
)  # fmt: skip
def test_a_name_is_without_its_rooms(full: str, short: str) -> None:
    assert name_devices([make_entity("light.one", name=full, area_id="kitchen")], {"kitchen": KITCHEN}) == {
        "light.one": short
    }


def test_names_in_a_room_differ() -> None:
    lamps = [
        make_entity(f"light.{n}", name=name, area_id="kitchen")
        for n, name in enumerate(("Kitchen Lamp", "Lamp", "Lamp", "lamp"))
    ]
    names = list(name_devices(lamps, {"kitchen": KITCHEN}).values())
    assert names[0] == "Lamp" and len({name.casefold() for name in names}) == 4


def test_names_in_two_rooms_may_be_the_same() -> None:
    lamps = [make_entity("light.a", name="Lamp", area_id="kitchen"), make_entity("light.b", name="Lamp", area_id=None)]
    assert set(name_devices(lamps, {"kitchen": KITCHEN}).values()) == {"Lamp"}
