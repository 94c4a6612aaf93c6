"""A home from a listing."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from written_home import Row, written_home

from homerl.envs.assistant.home_import import ImportedHome, build_import_report, import_home, import_notes_table
from homerl.envs.assistant.listing.entity_products import to_identifier
from homerl.envs.assistant.listing.home_listing import ENTRIES, EXPOSED, SERVICES, STATES, ImportNote, Listing
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.pages.device_summary import device_summary
from homerl.envs.homeenv.pages.home_page import HomeView
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.visits import HomeVisits, find_visit_changes
from homerl.play.episode import EpisodeLimits
from homerl.worlds.registry import begin_episode
from tests.envs.assistant.listing.replay import listing, recorded_home


@pytest.fixture(scope="module")
def imported() -> ImportedHome:
    return import_home(listing())


def alone(entity: str, state: str, attributes: dict[str, Any], *services: str) -> ImportedHome:
    """The home with one more entity, and no other."""
    sources = listing().sources | {
        STATES: [{"entity_id": entity, "state": state, "attributes": attributes}],
        SERVICES: {entity: list(services)},
        ENTRIES: {},
        EXPOSED: {"exposed_entities": {entity: {"conversation": True}}},
    }
    return import_home(Listing(version="1", sources=sources))


def test_a_light_has_what_the_entity_has(imported: ImportedHome) -> None:
    plan = imported.home.plan
    lights = {did: device.spec for did, device in plan.devices_by_did.items() if did.startswith("light.")}
    bed = {attribute.name: attribute for attribute in lights["light.bed_light"].attributes}
    assert set(bed["effect"].options or ()) == {"rainbow", "off"} and bed["color_temp_kelvin"].range == (2000, 6535)
    assert "effect" not in {attribute.name for attribute in lights["light.kitchen_lights"].attributes}


def test_ranges_and_units_are_the_entitys(imported: ImportedHome) -> None:
    spec = imported.home.plan.devices_by_did["water_heater.demo_water_heater"].spec
    temperature = spec.attribute_index["temperature"][1]
    assert temperature.range == (43.3, 60) and temperature.unit == "celsius"
    number = imported.home.plan.devices_by_did["input_number.target_humidity"].spec.attribute_index["state"][1]
    assert number.range == (30, 70) and number.unit == "percentage"


def test_a_number_of_a_helper_is_not_rounded_to_its_step() -> None:
    """Home Assistant keeps any value within the bounds, and adds the step to it."""
    name, home = "input_number.target_humidity", listing()
    (row,) = (one for one in home.sources[STATES] if one["entity_id"] == name)
    between = row | {"state": "45.37", "attributes": row["attributes"] | {"step": 0.25}}
    rows = [between if one is row else one for one in home.sources[STATES]]
    made = import_home(home.with_sources({STATES: rows}), everything=True)
    twin = made.home
    assert twin.read_value(name, "state") == 45.37 and not [note for note in made.notes if note.entity == name]
    twin.call(name, "set_value", (), {"value": 51.234})
    assert twin.read_value(name, "state") == 51.234
    twin.call(name, "increment")
    assert twin.read_value(name, "state") == 51.234 + 0.25


def test_a_helper_keeps_to_its_own_bounds(imported: ImportedHome) -> None:
    home = imported.home.fork()
    for _ in range(9):
        home.call("input_number.target_humidity", "increment")
    assert home.read_value("input_number.target_humidity", "state") == 70
    home.call("input_select.house_mode", "select_last")
    assert home.read_value("input_select.house_mode", "state") == "Night"


def test_entities_that_are_alike_share_a_product(imported: ImportedHome) -> None:
    by_did = imported.home.plan.devices_by_did
    assert by_did["lock.front_door"].spec is by_did["lock.kitchen_door"].spec
    assert by_did["light.bed_light"].spec.spid != by_did["light.kitchen_lights"].spec.spid


def test_what_has_no_area_is_in_no_room(imported: ImportedHome) -> None:
    assert imported.home.plan.devices_by_did["lock.front_door"].room.type == "home"


def test_names_beside_the_own_are_kept(imported: ImportedHome) -> None:
    origin = imported.home.plan.origin
    assert origin is not None and origin.version == listing().version
    assert origin.devices["light.ceiling_lights"].aliases == ("Big light", "Chandelier")
    assert origin.rooms == {"living_room": ("Lounge",)}


def test_a_home_file_keeps_it_all(imported: ImportedHome, tmp_path: Path) -> None:
    save_home(imported.home, tmp_path / "home.json")
    again = load_home(tmp_path / "home.json")
    assert again.state_key() == imported.home.state_key() and again.plan.origin == imported.home.plan.origin
    assert home_from_json(home_to_json(imported.home)).state_key() == imported.home.state_key()


def test_an_origin_of_another_version_is_refused(imported: ImportedHome) -> None:
    data = home_to_json(imported.home)
    data["origin"]["format"] = 9
    with pytest.raises(InputError, match="origin format 9"):
        home_from_json(data)


def test_an_import_is_the_same_each_time(imported: ImportedHome) -> None:
    assert home_to_json(import_home(listing()).home) == home_to_json(imported.home)


def test_no_secret_is_in_the_home() -> None:
    made = import_home(listing(), everything=True)
    text = json.dumps([home_to_json(made.home), build_import_report(made)])
    for secret in ("access_token", "entity_picture", "api/camera_proxy", "latitude", "user_id", "Hello world, secret"):
        assert secret not in text
    assert made.home.read_value("text.password", "state") == ""


def test_everything_can_be_imported() -> None:
    made = import_home(listing(), everything=True)
    assert len(made.home.plan.devices) == len(listing().entities)


def test_nothing_exposed_is_told() -> None:
    sources = listing().sources | {STATES: []}
    with pytest.raises(InputError, match="--all"):
        import_home(Listing(version="1", sources=sources))


def test_a_domain_that_no_product_knows_is_made_from_what_it_shows() -> None:
    made = alone("pump.well", "off", {"pressure level": 2.5, "nested": {"a": 1}, "empty": None, "class": "x"})
    spec = made.home.plan.devices_by_did["pump.well"].spec
    assert {"state", "pressure_level", "x_class"} <= spec.attribute_index.keys()
    assert made.home.read_value("pump.well", "pressure_level") == 2.5
    assert {note.part for note in made.notes} >= {"attribute nested", "attribute empty"}
    origin = made.home.plan.origin
    assert origin is not None and origin.devices["pump.well"].attributes["pressure_level"] == "pressure level"


def test_a_service_without_a_form_is_noted() -> None:
    made = alone("pump.well", "off", {}, "pump.prime")
    assert [(note.part, note.entity) for note in made.notes] == [("service pump.prime", "pump.well")]


def test_a_light_that_cannot_be_reached_is_imported_whole() -> None:
    attributes = {"supported_color_modes": ["color_temp"], "min_color_temp_kelvin": 2200, "max_color_temp_kelvin": 4000}
    services = ("light.turn_on", "light.turn_off", "light.toggle")
    home = alone("light.far", "unavailable", attributes, *services).home
    assert home.read_value("light.far", "state") == "unavailable"
    assert {"brightness", "color_temp_kelvin"} <= home.plan.devices_by_did["light.far"].spec.attribute_index.keys()


def test_a_fridge_does_not_measure_the_room() -> None:
    made = alone("sensor.fridge", "4.5", {"device_class": "temperature", "unit_of_measurement": "°C"})
    made.home.advance(7200)
    assert made.home.read_value("sensor.fridge", "state") == 4.5


@pytest.mark.parametrize(("theirs", "ours"), [("a b", "a_b"), ("2nd", "x_2nd"), ("class", "x_class"), ("", "x"), ("é", "x")])
def test_names_are_made_for_code(theirs: str, ours: str) -> None:
    assert to_identifier(theirs) == ours


def test_the_report_counts_and_lists(imported: ImportedHome) -> None:
    told = build_import_report(imported)
    assert told["rooms"] == 13 and told["devices"]["light"] == 6
    assert len(told["not_understood"]) + len(told["minor"]) == len(imported.notes)
    assert 0 < import_notes_table(imported).row_count <= 22


ARMS, DISARMS = "alarm_control_panel.alarm_arm_home", "alarm_control_panel.alarm_disarm"


@pytest.mark.parametrize(
    ("attributes", "disarming", "arming"),
    [
        ({"code_format": None, "code_arm_required": False}, False, False),
        ({"code_format": "number", "code_arm_required": True}, True, True),
        ({"code_format": "number", "code_arm_required": False}, True, False),
    ],
)
def test_an_alarm_panel_takes_the_code_that_the_real_one_judges(
    attributes: dict[str, Any], disarming: bool, arming: bool
) -> None:
    panel = "alarm_control_panel.house"
    home = alone(panel, "armed_away", attributes, ARMS, DISARMS).home
    assert home.read_value(panel, "code_arm_required") is attributes["code_arm_required"]
    for full, needed in ((DISARMS, disarming), (ARMS, arming)):
        service = full.partition(".")[2]
        home.fork().call(panel, service, (), {"code": "5678"})
        for given in ({}, {"code": ""}):
            if needed:
                with pytest.raises(Refused):
                    home.fork().call(panel, service, (), given)
            else:
                home.fork().call(panel, service, (), given)


def test_what_matters_is_told_first_and_what_is_minor_in_one_row() -> None:
    lamps = [
        ImportNote(f"light.l{number}", "attribute color_mode", "it has no value now", minor=True) for number in range(380)
    ]
    other = [
        ImportNote("camera.door", "service camera.record", "what it changes is not known"),
        ImportNote("automation.night", "automation", "it waits"),
        ImportNote("light.bed", "attribute last_triggered", "it has no value now", minor=True),
        ImportNote("siren.roof", "attributes and services", "only its state is told here"),
    ]
    imported = replace(import_home(listing()), notes=(*lamps, *other))
    shown = import_notes_table(imported)
    what, why, which = ([*column.cells] for column in shown.columns)
    assert what == ["attributes and services", "automation", "service camera.record", "minor"]
    assert why[-1].startswith("381 details") and which[-1] == "color_mode 380, last_triggered 1"
    long = replace(imported, notes=(ImportNote(f"light.{'a' * 60}", f"service light.{'b' * 40}", "it is not known"),))
    printed = Console(width=80, file=StringIO())
    printed.print(import_notes_table(long))
    assert "…" not in printed.file.getvalue()  # type: ignore[attr-defined]
    told = build_import_report(imported)
    assert [note["part"] for note in told["not_understood"]] == what[:3] and len(told["minor"]) == 381


def test_an_imported_home_is_shown_with_its_own_floors_and_only_with_air_that_is_measured() -> None:
    home = recorded_home()
    view = HomeView("h", "Home", home)
    assert home.plan.origin and {floor.name for floor in view.floor_views()} & {one.name for one in home.plan.origin.storeys}
    known = {room.id: view.rounded_air(room.id) for room in home.plan.rooms}
    assert not view.outdoor_air and {} in known.values() and any("temperature" in air for air in known.values())


def test_what_a_switched_device_has_again_is_told_if_it_is_another_value() -> None:
    home = recorded_home()
    home.call("light.bed_light", "turn_off")
    after = home.fork()
    after.call("light.bed_light", "turn_on", (), {"brightness": 128})
    told = [change.describe_change for change in find_visit_changes(home, after)]
    assert told == ["off → on", "brightness 128"]


def test_a_home_of_few_kinds_has_sentences_to_say(tmp_path: Path) -> None:
    save_home(written_home(tmp_path, Row("media_player.radio", "Küchenradio", state="off"), Row("light.bad", "Badlicht")),
              path := tmp_path / "own.json")  # fmt: skip
    visit = HomeVisits().blueprint({"toolset": "assist"}, path, 0)
    assert len(HomeVisits().suggestions(begin_episode(visit, EpisodeLimits(3, 9, 9)).situation)) >= 2  # type: ignore[arg-type]


def test_a_cover_that_opens_is_not_said_to_be_closed_too() -> None:
    home = recorded_home()
    device = home.plan.devices_by_did["cover.garage_door"]
    assert "is_closed" in device.spec.attribute_index
    moving = {**home.state_of(device.did), "state": "opening", "is_closed": True}
    assert "is closed" not in device_summary(device.spec, moving).words.replace("\N{NO-BREAK SPACE}", " ")
