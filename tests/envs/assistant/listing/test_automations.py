"""Automations of a Home Assistant in a home."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.generic_products import ImportNote
from homerl.envs.assistant.listing.home_listing import AREAS, AUTOMATIONS, DEVICES, ENTRIES
from tests.envs.assistant.listing.replay import listing, naming

NAME = "automation.hall_light_at_the_door"
LIGHT = {"action": "light.turn_on", "target": {"entity_id": "light.entrance_color_white_lights"}}
MOTION = {"trigger": "state", "entity_id": "binary_sensor.movement_backyard", "to": "on"}


def imported(text: dict[str, Any] | None) -> ImportedHome:
    home = naming(listing(), (text, NAME, LIGHT, BED, MOTION, GUARD, COLD, AT))
    return import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: {NAME: text}}}))


def notes(text: dict[str, Any] | None) -> list[ImportNote]:
    return [note for note in imported(text).notes if note.entity == NAME and note.part == "automation"]


def test_an_automation_acts_in_the_home() -> None:
    home = imported({"alias": "Hall", "triggers": [MOTION | {"for": "00:01:00"}], "actions": [LIGHT]}).home
    (found,) = home.rules
    rule = found.definition
    assert (rule.id, rule.title, rule.hold, home.rules[0].progress.enabled) == (NAME, "Hall", 60, True)
    assert rule.actions[0].did == "light.entrance_color_white_lights"


def test_a_time_of_day_is_a_time_here() -> None:
    home = imported(
        {"triggers": [{"trigger": "time", "at": "06:30:00"}], "actions": [{"action": "light.turn_off", **TARGET}]}
    ).home
    assert home.read_value(BED, "state") == "on"
    home.advance(86400)
    assert home.read_value(BED, "state") == "off"


BED = "light.ceiling_lights"
TARGET = {"target": {"entity_id": BED}}


def test_a_number_and_a_condition_are_read() -> None:
    trigger = {"trigger": "numeric_state", "entity_id": "sensor.outside_temperature", "below": 5}
    guard = {"condition": "state", "entity_id": "input_boolean.guest_mode", "state": "off"}
    (rule,) = (
        one.definition for one in imported({"triggers": [trigger], "conditions": [guard], "actions": [LIGHT]}).home.rules
    )
    assert rule.when is not None and "< 5" in rule.when and "guest_mode" not in rule.when
    assert rule.given is not None and "input_boolean.guest_mode" in rule.given  # it makes nothing act by becoming true


def test_several_triggers_are_several_rules() -> None:
    text = {"triggers": [MOTION, {"trigger": "time", "at": "22:00"}], "actions": [LIGHT]}
    assert [rule.id for rule in imported(text).home.rules] == [f"{NAME}.1", f"{NAME}.2"]


def test_each_listed_state_makes_an_automation_act() -> None:
    """Also when one listed state follows another."""
    trigger = {"trigger": "state", "entity_id": "cover.hall_window", "to": ["open", "closing", "open"]}
    home = imported({"triggers": [trigger], "actions": [{"action": "light.turn_off", **TARGET}]}).home
    assert [rule.id for rule in home.rules] == [f"{NAME}.1", f"{NAME}.2"]
    assert (home.read_value("cover.hall_window", "state"), home.read_value(BED, "state")) == ("open", "on")
    home.call("cover.hall_window", "close_cover")
    assert home.read_value("cover.hall_window", "state") == "closing"
    home.advance(1)
    assert home.read_value(BED, "state") == "off"


def test_a_condition_with_several_states_is_one_condition() -> None:
    guard = {"condition": "state", "entity_id": "cover.hall_window", "state": ["open", "closing"]}
    (rule,) = (
        one.definition for one in imported({"triggers": [MOTION], "conditions": [guard], "actions": [LIGHT]}).home.rules
    )
    assert rule.given is not None and '("open", "closing",)' in rule.given


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "administrator"),
        ({"triggers": [MOTION | {"to": "*"}], "actions": [LIGHT]}, "any state"),
        ({"triggers": [MOTION, {"trigger": "moon"}], "actions": [LIGHT]}, "'moon'"),
        ({"triggers": [MOTION], "actions": [{"action": "light.turn_on", "target": {"area_id": "barn"}}]}, "'area_id'"),
        ({"triggers": [MOTION], "conditions": ["{{ x | random }}"], "actions": [LIGHT]}, "'x'"),
        ({"triggers": [MOTION], "actions": [LIGHT | {"target": {"entity_id": "light.gone"}}]}, "light.gone"),
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


GUARD = {"condition": "state", "entity_id": "input_boolean.guest_mode", "state": "off"}
AT = {"trigger": "time", "at": "06:30:00"}
COLD = {"trigger": "numeric_state", "entity_id": "sensor.outside_temperature", "below": 5}


def test_keys_that_change_nothing_are_passed_over() -> None:
    text = {
        "id": "17",
        "alias": "Hall",
        "description": "at night",
        "mode": "restart",
        "max": 3,
        "triggers": [MOTION | {"id": "seen", "alias": "Motion", "enabled": True, "from": None}],
        "conditions": [GUARD | {"alias": "no guests", "enabled": True}],
        "actions": [LIGHT | {"alias": "Light", "metadata": {}, "data": {}, "enabled": True}],
    }
    (found,) = imported(text).home.rules
    rule = found.definition
    assert rule.title == "Hall" and not notes(text)


UNREAD = [
    {"triggers": [MOTION | {"attribute": "battery"}]},
    {"triggers": [MOTION | {"enabled": "{{ on }}"}]},
    {"triggers": [MOTION | {"for": "{{ minutes }}"}]},
    {"triggers": [MOTION | {"for": "soon"}]},
    {"triggers": [MOTION | {"to": True}]},
    {"triggers": [MOTION | {"to": "input_select.house_mode"}]},
    {"triggers": [COLD | {"attribute": "state > 0 or 1"}]},
    {"triggers": [COLD | {"value_template": "{{ [1] }}"}]},
    {"triggers": [AT | {"weekday": ["mon", "holiday"]}]},
    {"triggers": [AT | {"at": {"entity_id": "input_datetime.alarm", "offset": "-00:05:00"}}]},
    {"triggers": "{{ trigger }}"},
    {"triggers": []},
    {"conditions": [GUARD | {"for": "00:10:00"}]},
    {"conditions": [GUARD | {"enabled": "{{ off }}"}]},
    {"conditions": [{"condition": "or", "conditions": [GUARD | {"for": "00:10:00"}]}]},
    {"conditions": [{"condition": "or", "conditions": [GUARD | {"enabled": False}]}]},
    {"conditions": [{"condition": "and", "conditions": [GUARD], "unknown": 1}]},
    {"actions": [LIGHT | {"target": {"entity_id": BED, "device_id": "17"}}]},
    {"actions": [LIGHT | {"target": {"entity_id": BED, "label_id": ["barn"]}}]},
    {"actions": [LIGHT | {"target": "{{ lamps }}"}]},
    {"actions": [LIGHT | {"data": "{{ light }}"}]},
    {"actions": [LIGHT | {"data": {"brightness": "{{ level }}"}}]},
    {"actions": [LIGHT | {"data": {"brightness": 40, "sparkle": 3}}]},
    {"actions": [LIGHT | {"continue_on_error": True}]},
    {"use_blueprint": {"path": "motion_light.yaml"}, "triggers": None, "actions": None},
    {"trigger_variables": {"a": 1}},
]


def test_one_key_that_is_not_read_makes_the_whole_unreadable() -> None:
    """Of automations in one home, whose import takes longest."""
    home, basis = listing(), {"triggers": [MOTION], "conditions": [], "actions": [LIGHT]}
    texts = {f"automation.of_{number:02}": basis | text for number, text in enumerate(UNREAD)}
    made = import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: texts}}))
    assert not made.home.rules
    assert sorted(note.entity for note in made.notes if note.part == "automation") == sorted([NAME, *texts])


def test_parts_that_are_disabled_are_left_out() -> None:
    text = {
        "triggers": [MOTION, AT | {"enabled": False}],
        "conditions": [GUARD | {"enabled": False}, {"condition": "template", "value_template": "{{ 1 }}", "enabled": False}],
        "actions": [{"delay": "00:01", "enabled": False}, LIGHT],
    }
    (found,) = imported(text).home.rules
    rule = found.definition
    assert rule.id == NAME and "guest_mode" not in (rule.when or "") and len(rule.actions) == 1


@pytest.mark.parametrize(
    ("told", "held"),
    [("00:01:30", 90), ("01:30", 5400), (45, 45), ("45", 45), ({"minutes": 2, "seconds": 5}, 125), ({"hours": "1"}, 3600)],
)
def test_a_duration_is_read_as_home_assistant_reads_it(told: Any, held: int) -> None:
    (found,) = imported({"triggers": [MOTION | {"for": told}], "actions": [LIGHT]}).home.rules
    rule = found.definition
    assert rule.hold == held


@pytest.mark.parametrize("text", ["text", [1, 2], {"triggers": 5}, {"triggers": [5], "actions": [7], "conditions": [None]}])
def test_what_is_no_automation_ends_no_import(text: Any) -> None:
    assert len(notes(text)) == 1 and not imported(text).home.rules


ODD = [
    {"triggers": [MOTION | {"id": "evening"}], "actions": [{"delay": {"minutes": "{{ trigger.id }}"}}, LIGHT]},
    {"triggers": [MOTION], "actions": [{"delay": {"minutes": float("inf")}}, LIGHT]},
    {"triggers": [MOTION], "actions": [{"delay": "{{ [5] }}"}, LIGHT]},
    {"triggers": [MOTION], "conditions": ["{{ 'abc'.startswith(5) }}"], "actions": [LIGHT]},
    {"triggers": [MOTION], "conditions": ["{{ float() }}"], "actions": [LIGHT]},
    {"triggers": [MOTION, MOTION | {"to": {"on": True}}], "actions": [LIGHT]},
]


def test_what_nobody_foresaw_ends_no_import_and_is_not_followed() -> None:
    """The guard knows what it acts on, and what else is in the home is as before."""
    home = naming(listing(), (NAME, LIGHT, MOTION))
    odd = {f"automation.odd_{number}": text for number, text in enumerate(ODD)}
    texts = {NAME: {"triggers": [MOTION], "actions": [LIGHT]}} | odd
    made = import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: texts}}))
    assert [rule.id for rule in made.home.rules] == [NAME] and made.home.plan.origin is not None
    assert [note.entity for note in made.notes if note.part == "automation"] == [*odd]
    told = {one.id: (one.reads, one.acts) for one in made.home.plan.origin.unfollowed}
    assert told == dict.fromkeys(odd, (("binary_sensor.movement_backyard",), ("light.entrance_color_white_lights",)))


@pytest.mark.parametrize(
    ("source", "key", "id", "other"),
    [
        (DEVICES, "id", "00000000000000000000000000000045", False),
        (AREAS, "area_id", "living_room", True),
        (ENTRIES, "entity_id", BED, False),
    ],
    ids=["device", "area", "entity"],
)
def test_a_label_means_what_has_it_and_what_is_in_it(source: str, key: str, id: str, other: bool) -> None:
    beside = "light.living_room_rgbww_lights"
    home = naming(listing(), (NAME, BED, beside, MOTION))
    rows = home.sources[source]
    told = {
        name: row | {"labels": ["evening"]} if row and row[key] == id else row
        for name, row in (rows.items() if isinstance(rows, dict) else enumerate(rows))
    }
    text = {"triggers": [MOTION], "actions": [{"action": "light.turn_off", "target": {"label_id": "evening"}}]}
    sources = {source: told if isinstance(rows, dict) else [*told.values()], AUTOMATIONS: {NAME: text}}
    (found,) = import_home(home.model_copy(update={"sources": home.sources | sources})).home.rules
    rule = found.definition
    assert {action.did for action in rule.actions} == {BED, *([beside] if other else [])}


def test_a_saved_automation_is_the_same_again() -> None:
    text = {"triggers": [MOTION | {"not_from": "a"}, AT], "conditions": [GUARD], "actions": [LIGHT | {"data": {"x": "y"}}]}
    once = imported(text)
    again = import_home(once.listing, everything=True)
    assert again.listing.sources[AUTOMATIONS] == once.listing.sources[AUTOMATIONS]
    assert [note for note in again.notes if note.entity == NAME] == [note for note in once.notes if note.entity == NAME]


def test_of_a_saved_automation_only_what_is_read_is_kept() -> None:
    text = {
        "id": "S1",
        "description": "S2",
        "triggers": [
            {"trigger": "webhook", "webhook_id": "S3", "allowed_methods": ["S4"]},
            {"platform": "zone", "entity_id": "person.anna", "zone": "S6"},
            MOTION | {"id": "seen", "variables": {"token": "S8"}},
        ],
        "conditions": [
            "{{ is_state('a.b', 'S9!') }}",
            GUARD | {"alias": "S10"},
            {"condition": "template", "value_template": "S11"},
        ],
        "actions": [
            {"action": "rest_command.call", "data": {"api_key": "S12", "payload": {"token": "S13"}}},
            {"action": "notify.mobile_app", "data": {"message": "S14"}},
            {"action": "light.turn_on", "data": {"effect": "http://u:S15@host/x", "token": "S16"}},
            {"action": "light.turn_on", "data": {"effect": "http://host/x?key=S17"}},
            {"event": "S18", "event_data": {"token": "S19"}},
            {"action": "alarm_control_panel.alarm_disarm", "data": {"code": "S20"}},
        ],
    }
    kept = imported(text).listing.sources[AUTOMATIONS][NAME]
    assert not re.findall(r"S\d+", json.dumps(kept))
