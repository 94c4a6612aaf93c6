"""Automations of a Home Assistant in a home."""

from __future__ import annotations

from typing import Any

import pytest

from homerl.homeassistant.generic import Note
from homerl.homeassistant.importing import Imported, import_home
from homerl.homeassistant.listing import AUTOMATIONS
from tests.homerl.homeassistant.replay import listing

NAME = "automation.hall_light_at_the_door"
LIGHT = {"action": "light.turn_on", "target": {"entity_id": "light.entrance_color_white_lights"}}
MOTION = {"trigger": "state", "entity_id": "binary_sensor.movement_backyard", "to": "on"}


def imported(text: dict[str, Any] | None) -> Imported:
    home = listing()
    return import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: {NAME: text}}}))


def notes(text: dict[str, Any] | None) -> list[Note]:
    return [note for note in imported(text).notes if note.entity == NAME and note.part == "automation"]


def test_an_automation_acts_in_the_home() -> None:
    home = imported({"alias": "Hall", "triggers": [MOTION | {"for": "00:01:00"}], "actions": [LIGHT]}).home
    (rule,) = home.rules
    assert (rule.id, rule.title, rule.hold, rule.enabled) == (NAME, "Hall", 60, True)
    assert rule.actions[0].did == "light.entrance_color_white_lights"


def test_a_time_of_day_is_a_time_here() -> None:
    home = imported(
        {"triggers": [{"trigger": "time", "at": "06:30:00"}], "actions": [{"action": "light.turn_off", **TARGET}]}
    ).home
    assert home.get(BED, "state") == "on"
    home.advance(86400)
    assert home.get(BED, "state") == "off"


BED = "light.ceiling_lights"
TARGET = {"target": {"entity_id": BED}}


def test_a_number_and_a_condition_are_read() -> None:
    trigger = {"trigger": "numeric_state", "entity_id": "sensor.outside_temperature", "below": 5}
    guard = {"condition": "state", "entity_id": "input_boolean.guest_mode", "state": "off"}
    (rule,) = imported({"triggers": [trigger], "conditions": [guard], "actions": [LIGHT]}).home.rules
    assert rule.when is not None and "< 5" in rule.when and "input_boolean.guest_mode" in rule.when


def test_several_triggers_are_several_rules() -> None:
    text = {"triggers": [MOTION, {"trigger": "time", "at": "22:00"}], "actions": [LIGHT]}
    assert [rule.id for rule in imported(text).home.rules] == [f"{NAME}.1", f"{NAME}.2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "administrator"),
        ({"triggers": [{"trigger": "sun", "event": "sunset"}], "actions": [LIGHT]}, "'sun'"),
        ({"triggers": [MOTION], "actions": [{"delay": "00:01"}]}, "no call of a service"),
        ({"triggers": [MOTION], "actions": [{"action": "light.turn_on", "target": {"area_id": "hall"}}]}, "no named entity"),
        ({"triggers": [MOTION], "conditions": ["{{ true }}"], "actions": [LIGHT]}, "template"),
        ({"triggers": [MOTION], "actions": [LIGHT | {"target": {"entity_id": "light.gone"}}]}, "light.gone"),
        ({"triggers": [MOTION | {"from": "off"}], "actions": [LIGHT]}, "one state"),
    ],
)
def test_what_cannot_be_read_is_noted(text: dict[str, Any] | None, why: str) -> None:
    (note,) = notes(text)
    assert why in note.why and not imported(text).home.rules


def test_codes_are_in_no_home() -> None:
    secret = {
        "action": "alarm_control_panel.alarm_disarm",
        "target": {"entity_id": "alarm_control_panel.security"},
        "data": {"code": "8421"},
    }
    made = imported({"triggers": [MOTION], "actions": [secret]})
    assert "8421" not in made.listing.model_dump_json() and "8421" not in repr(made.home.rules)
