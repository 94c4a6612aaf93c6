"""What a saved listing and a home do not tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from homerl.envs.assistant.home_import import import_home, write_import_report
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, ENTRIES, STATES
from homerl.envs.assistant.listing.home_setup import select_entities
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.assistant.privacy import hide_secret_values, strip_private_listing
from homerl.envs.homeenv.sim.home_file import home_to_json
from tests.envs.assistant.listing.replay import listing


def test_no_token_place_or_account_is_left() -> None:
    text = strip_private_listing(
        listing(), [one.entity_id for one in select_entities(listing(), everything=True)]
    ).model_dump_json()
    for secret in (
        "access_token",
        "entity_picture",
        "latitude",
        "52.5",
        "user_id",
        "unique_id",
        "identifiers",
        "Future Event",
    ):
        assert secret in listing().model_dump_json() and secret not in text


def test_the_code_of_a_lock_is_not_kept(tmp_path: Path) -> None:
    said = {"lock": {"default_code": "4711"}, "conversation": {"should_expose": True, "pin": "4711"}}
    entries = listing().sources[ENTRIES] | {"lock.front_door": {"entity_id": "lock.front_door", "options": said}}
    imported = import_home(listing().with_sources({ENTRIES: entries}))
    kept = save_listing(imported.listing, tmp_path)
    write_import_report(imported, tmp_path / "report.json")
    assert "4711" not in kept.read_text() and "lock.front_door" in imported.home.plan.devices_by_did
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert import_home(load_listing(tmp_path)).home.plan.devices_by_did.keys() == imported.home.plan.devices_by_did.keys()


def test_only_the_chosen_entities_are_left() -> None:
    kept = strip_private_listing(listing(), ["light.bed_light"])
    assert [state["entity_id"] for state in kept.sources[STATES]] == ["light.bed_light"]
    assert "climate.ecobee" not in json.dumps({name: kept.sources[name] for name in kept.sources if name != "get_services"})


def test_stripping_twice_is_stripping_once() -> None:
    once = strip_private_listing(listing(), [one.entity_id for one in select_entities(listing())])
    assert strip_private_listing(once, [one.entity_id for one in select_entities(once, everything=True)]) == once


def test_a_person_is_at_home_or_away() -> None:
    assert hide_secret_values("person.anna", "The secret club", {"latitude": 1, "source": "gps"})[0] == "not_home"
    assert hide_secret_values("person.anna", "home", {"latitude": 1})[1] == {}


def test_a_password_is_not_kept() -> None:
    assert hide_secret_values("text.password", "hunter2", {"mode": "password"})[0] == ""
    assert hide_secret_values("text.text", "hello", {"mode": "text"})[0] == "hello"


ADDRESS = {"Location": [52.51, 13.37], "Thoroughfare": "Main Street", "Postal Code": "10117", "friendly_name": "Phone"}


@pytest.mark.parametrize("text", ["text.password", "text.text"])
def test_what_an_automation_writes_into_a_text_is_not_kept_where_texts_are_passwords(text: str, tmp_path: Path) -> None:
    """Which of them it writes into may be told by area or label, so nobody reads what is written into any."""
    action = {"action": "text.set_value", "target": {"entity_id": text}, "data": {"value": "hunter2"}}
    automation = {"id": "1", "triggers": [{"trigger": "time", "at": "07:00:00"}], "actions": [action]}
    told = {AUTOMATIONS: {"automation.wifi": automation}}
    imported = import_home(listing().with_sources(told), everything=True)
    assert text in imported.home.plan.devices_by_did
    assert "hunter2" not in save_listing(imported.listing, tmp_path).read_text() + json.dumps(home_to_json(imported.home))


@pytest.mark.parametrize(
    ("entity", "state", "attributes"),
    [
        ("sensor.phone_geocoded_location", "Main Street 1", ADDRESS),
        ("sensor.phone_geocoded_location", "Main Street 1", {}),
        ("sensor.car", "Main Street 1", {"Latitude": 52.51, "Longitude": 13.37}),
        ("sensor.car", "parked", {"gps_accuracy": 10, "Name": "Main Street"}),
    ],
)
def test_an_address_is_not_kept(entity: str, state: str, attributes: dict[str, object]) -> None:
    told, kept = hide_secret_values(entity, state, attributes)
    text = json.dumps([told, kept])
    assert told == "unknown" and not any(secret in text for secret in ("Main", "52.5", "13.3", "10117"))
    assert hide_secret_values(entity, told, kept) == (told, kept)


def test_a_reading_beside_a_place_is_kept() -> None:
    assert hide_secret_values("sensor.air", "41.5", {"latitude": 52.5, "unit_of_measurement": "µg/m³"}) == (
        "41.5",
        {"unit_of_measurement": "µg/m³"},
    )


@pytest.mark.parametrize(
    "name", ["Access_Token", "IP address", "SSID", "Postal Code", "Webhook_ID", "Latitude", "Zone", "Zones"]
)
def test_names_of_secrets_are_known_however_they_are_written(name: str) -> None:
    assert hide_secret_values("switch.router", "on", {name: "x", "icon": "y"}) == ("on", {"icon": "y"})


def test_when_something_takes_place_is_not_kept() -> None:
    event = {"message": "Doctor", "start_time": "2026-01-01 10:00:00", "end_time": "2026-01-01 11:00:00", "all_day": False}
    assert hide_secret_values("calendar.anna", "on", event | {"friendly_name": "Anna"}) == ("on", {"friendly_name": "Anna"})
    assert hide_secret_values("sensor.washer", "run", {"start_time": "10:00"})[1] == {"start_time": "10:00"}
