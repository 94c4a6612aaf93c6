"""What the twin tells of an entity, and what it foretells of a trigger by number, is what Home Assistant tells and does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ha.automations import main as print_taken_automations
from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.consent import is_guarded
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone

UPDATE, DOOR = "update.plug", "lock.front_door"


@pytest.mark.parametrize(("raw", "share"), [(1, "1"), (2, "1"), (3, "1"), (128, "50"), (255, "100")])
def test_a_lamp_that_is_on_is_never_told_as_dark(raw: int, share: str) -> None:
    home = alone("light.x", "on", supported_color_modes=["brightness"], color_mode="brightness", brightness=raw).home
    (lamp,) = [one for one in entities_of_plan(home.plan) if one.id == "light.x"]
    assert lamp.shown_attributes(home)["brightness_pct"] == share


def update(state: str, installed: Any, latest: Any, skipped: Any = None) -> Home:
    versions = {"installed_version": installed, "latest_version": latest, "skipped_version": skipped}
    return alone(UPDATE, state, friendly_name="Plug", supported_features=1, **versions).home


@pytest.mark.parametrize(
    ("state", "versions"),
    [
        ("on", ("1.0", "2.0")),
        ("off", ("2.0", "2.0")),
        ("off", ("1.0", "2.0", "2.0")),  # its owner skipped it
        ("off", ("2026.11.0b3", "2026.10.2")),  # a beta, newer than the latest
        ("off", (None, None)),
        ("unavailable", (None, None)),
    ],
)
def test_an_update_is_there_if_home_assistant_says_so(state: str, versions: tuple[Any, ...]) -> None:
    home = update(state, *versions)
    assert home.read_value(UPDATE, "state") == state
    assert home.read_value(UPDATE, "installed_version") == versions[0]


def test_an_update_can_be_skipped_offered_again_and_installed_once() -> None:
    home = update("on", "1.0", "2.0")
    seen = []
    for service in ("skip", "clear_skipped", "install"):
        home.call(UPDATE, service)
        seen.append((home.read_value(UPDATE, "state"), home.read_value(UPDATE, "installed_version")))
    assert seen == [("off", "1.0"), ("on", "1.0"), ("off", "2.0")]
    with pytest.raises(Refused):
        home.call(UPDATE, "install")


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({"aliases": ["old lamp"], "aliases_v2": [None, "reading lamp"]}, ["Lamp", "reading lamp"]),
        ({"aliases": ["old lamp"], "aliases_v2": []}, ["Lamp"]),
        ({"aliases": ["old lamp"]}, ["Lamp", "old lamp"]),  # the file of an older version
    ],
)
def test_aliases_of_a_file_are_those_of_today(tmp_path: Path, entry: dict[str, Any], names: list[str]) -> None:
    row = {"entity_id": "light.lamp", "unique_id": "x", "options": {"conversation": {"should_expose": True}}, **entry}
    state = {"entity_id": "light.lamp", "state": "on", "attributes": {"friendly_name": "Lamp"}}
    (tmp_path / "states.json").write_text(json.dumps([state]))
    (tmp_path / "core.entity_registry").write_text(json.dumps({"key": "x", "data": {"entities": [row]}}))
    made = import_home(load_listing(tmp_path))
    (lamp,) = [one for one in entities_of_plan(made.home.plan) if one.id == "light.lamp"]
    assert [*lamp.names] == names


def test_a_relay_is_guarded_by_what_its_owner_calls_it_today(tmp_path: Path) -> None:
    row = {"entity_id": "switch.relay", "unique_id": "x", "options": {"conversation": {"should_expose": True}}}
    state = {"entity_id": "switch.relay", "state": "off", "attributes": {"friendly_name": "Relay"}}
    (tmp_path / "states.json").write_text(json.dumps([state]))
    guarded = []
    for aliases in ({"aliases": ["plug"]}, {"aliases": ["plug"], "aliases_v2": [None, "garage door opener"]}):
        file = {"key": "x", "data": {"entities": [row | aliases]}}
        (tmp_path / "core.entity_registry").write_text(json.dumps(file))
        guarded.append(is_guarded(import_home(load_listing(tmp_path)).home, "switch.relay"))
    assert guarded == [False, True]


def test_automations_that_are_taken_and_those_that_can_be_set_off_are_two_figures(tmp_path: Path, capsys) -> None:
    lamp = {"action": "light.turn_on", "target": {"entity_id": "light.hall"}}
    guests = {"trigger": "state", "entity_id": "input_boolean.guests", "to": "on"}
    rows = [{"triggers": [one], "actions": [lamp]} for one in (guests, {"trigger": "webhook", "webhook_id": "x"})]
    (tmp_path / "ann.yaml").write_text(json.dumps(rows))
    print_taken_automations(tmp_path)
    told = capsys.readouterr().out
    assert "2 of 2 automations are taken whole" in told and "1 of these 2 can be set off" in told
