"""An automation means here what it means in Home Assistant, or it is left out with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from envs.homeenv.home_file import home_from_json, home_to_json
from envs.homeenv.sandbox import Limits
from envs.homeenv.toolsets.smh import edit_automation
from homerl.homeassistant.importing import Imported, import_home
from homerl.homeassistant.listing import AUTOMATIONS
from tests.homerl.homeassistant.replay import listing

NAME, LAMP = "automation.hall_light_at_the_door", "light.ceiling_lights"
COLD, GUESTS, MODE = "sensor.outside_temperature", "input_boolean.guest_mode", "input_select.house_mode"
OFF = {"action": "light.turn_off", "target": {"entity_id": LAMP}}
MOTION = {"trigger": "state", "entity_id": GUESTS, "to": "on"}
CLIMATE = {"trigger": "numeric_state", "entity_id": "climate.heatpump", "attribute": "temperature"}


def imported(**text: Any) -> Imported:
    home, told = listing(), {"triggers": [MOTION], "actions": [OFF]} | text
    return import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: {NAME: told}}}), everything=True)


def number(**bounds: Any) -> dict[str, Any]:
    return {"trigger": "numeric_state", "entity_id": COLD, **bounds}


def state(entity: str, to: Any, **more: Any) -> dict[str, Any]:
    return {"trigger": "state", "entity_id": entity, "to": to, **more}


def where(entity: str, *states: str) -> dict[str, Any]:
    return {"condition": "state", "entity_id": entity, "state": [*states]}


# A text; what changes then, in this order; and after how many of these changes the lamp is off, None for never.
MEANT: dict[str, tuple[dict[str, Any], list[tuple[str, str, Any]], int | None]] = {
    "a bound is beyond itself": ({"triggers": [number(below=5)]}, [(COLD, "state", 5.0), (COLD, "state", 4.9)], 2),
    "so is the other": ({"triggers": [number(above=20)]}, [(COLD, "state", 20.0), (COLD, "state", 20.1)], 2),
    "both bounds hold": (
        {"triggers": [number(above=0, below=5)]},
        [(COLD, "state", 0.0), (COLD, "state", 5.0), (COLD, "state", 3.0)],
        3,
    ),
    "a null bound says nothing": ({"triggers": [number(above=None, below=5)]}, [(COLD, "state", 4.0)], 1),
    "a number of an attribute": (
        {"triggers": [CLIMATE | {"above": 21}]},
        [("climate.heatpump", "temperature", 21.0), ("climate.heatpump", "temperature", 22.0)],
        2,
    ),
    "an unknown number": ({"triggers": [number(below=5)]}, [(COLD, "state", None)], None),
    "a state from any other": ({"triggers": [state(MODE, ["Away"])]}, [(MODE, "state", "Away")], 1),
    "null from says nothing": ({"triggers": [MOTION | {"from": None, "not_from": None}]}, [(GUESTS, "state", "on")], 1),
    "one that is out of reach": ({"triggers": [state(GUESTS, "unavailable")]}, [(GUESTS, "state", "unavailable")], 1),
    "a number that is out of reach": (
        {"triggers": [state(COLD, "unavailable")]},
        [(COLD, "state", None), (COLD, "available", False)],
        2,
    ),
    "a date that is not known": ({"triggers": [state("date.date", "unknown")]}, [("date.date", "state", None)], 1),
    "a date, or what stands for none": (
        {"conditions": [where("date.date", "unavailable", "2026-12-24")]},
        [(GUESTS, "state", "on"), (GUESTS, "state", "off"), ("date.date", "state", "2026-12-24"), (GUESTS, "state", "on")],
        4,
    ),
    "a condition": (
        {"conditions": [where(MODE, "Away")]},
        [(GUESTS, "state", "on"), (GUESTS, "state", "off"), (MODE, "state", "Away"), (GUESTS, "state", "on")],
        4,
    ),
    "a condition that becomes true later": (
        {"conditions": [where(MODE, "Away")]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (GUESTS, "state", "off"), (GUESTS, "state", "on")],
        4,
    ),
    "of a number too": (
        {"triggers": [CLIMATE | {"above": 21}], "conditions": [where(MODE, "Away")]},
        [("climate.heatpump", "temperature", 22.0), (MODE, "state", "Away"), ("climate.heatpump", "temperature", 23.0),
         ("climate.heatpump", "temperature", 20.0), ("climate.heatpump", "temperature", 22.0)],
        5,
    ),
    "a condition at the end of the time for which a trigger waits": (
        {"triggers": [MOTION | {"for": 3}], "conditions": [where(MODE, "Away")]},
        [(GUESTS, "state", "on"), (MODE, "state", "Home"), (MODE, "state", "Away")],
        3,
    ),
    "one that holds no longer then": (
        {"triggers": [MOTION | {"for": 2}], "conditions": [where(MODE, "Home")]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (COLD, "state", 20.0), (MODE, "state", "Home")],
        None,
    ),
    "or in short": (
        {"conditions": [{"or": [where(MODE, "Away"), where(MODE, "Home")]}]}, [(GUESTS, "state", "on")], 1,
    ),
    "not in short": ({"conditions": [{"not": [where(MODE, "Home")]}]}, [(GUESTS, "state", "on")], None),
    "and in short": (
        {"conditions": [{"and": [where(MODE, "Home"), where(MODE, "Away")], "alias": "x"}]},
        [(GUESTS, "state", "on")],
        None,
    ),
    "a legacy text": (
        {"triggers": None, "trigger": {"platform": "state", "entity_id": GUESTS, "to": "on"}, "actions": None,
         "action": {"service": "light.turn_off", "entity_id": LAMP}},
        [(GUESTS, "state", "on")],
        1,
    ),
    "an entity that is named twice is called once": (
        {"actions": [{"action": "light.toggle", "target": {"entity_id": [LAMP, LAMP]}}]}, [(GUESTS, "state", "on")], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "changes", "off"), MEANT.values(), ids=MEANT)
def test_what_is_taken_acts_when_the_real_one_does(
    text: dict[str, Any], changes: list[tuple[str, str, Any]], off: int | None
) -> None:
    made = imported(**text)
    assert made.home.rules, [note for note in made.notes if note.part == "automation"]
    home, when = made.home, None
    for count, (entity, path, value) in enumerate(changes, 1):
        home.set(home.plan.slot_of(entity, path), value)
        home.advance(1)
        if home.get(LAMP, "state") == "off":
            when = count
            break
    assert when == off


def test_what_an_automation_needs_besides_its_trigger_is_kept_in_files_told_and_left_by_an_edit() -> None:
    home = imported(conditions=[where(MODE, "Away")]).home
    (rule,) = home.rules
    assert home_from_json(home_to_json(home)).rules == home.rules
    assert rule.given is not None and rule.given in rule.describe()["only_if"] and rule.given in repr(rule)
    edit_automation(home, {"id": NAME, "title": "Night"}, Limits())
    (edited,) = home.rules
    assert (edited.title, edited.when, edited.given) == ("Night", rule.when, rule.given)
    edit_automation(home, {"id": NAME, "conditions": [rule.when]}, Limits())
    assert home.rules[0].given is None and "given" not in repr(home.rules[0])


LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "a number as a text": ({"triggers": [state(COLD, "21")]}, "compared as a text"),
    "no number as a text": ({"triggers": [state(COLD, "21.0")]}, "compared as a text"),
    "a number as a text in a condition": ({"conditions": [where("input_number.target_humidity", "45.0")]}, "as a text"),
    "a count as a text": ({"triggers": [state("counter.visitors", "3")]}, "compared as a text"),
    "the time of a press": ({"triggers": [state("button.push", "2026-01-01T00:00:00+00:00")]}, "compared as a text"),
    "a state that is no text": ({"triggers": [state(MODE, 5)]}, "no text"),
    "a text as a number": ({"triggers": [number(below=5) | {"entity_id": "sensor.thermostat"}]}, "no such number"),
    "an attribute that is a text": ({"triggers": [CLIMATE | {"attribute": "hvac_action", "above": 1}]}, "no such number"),
    "an attribute that is not there": ({"triggers": [CLIMATE | {"attribute": "battery", "above": 1}]}, "battery"),
    "an attribute called like the state": ({"triggers": [number(below=5, attribute="state")]}, "does not show"),
    "a duration as a number": (
        {"triggers": [number(below=5, attribute="duration") | {"entity_id": "timer.pizza"}]},
        "no such number",
    ),
    "a place of a person": ({"triggers": [state("person.anna", "not_home")]}, "place"),
    "a password": ({"triggers": [state("text.password", "Hello world")]}, "password"),
    "a template": ({"triggers": [number(below=5, value_template="{{ state.name }}")]}, "a template"),
    "a device trigger": ({"triggers": [{"trigger": "device", "domain": "x", "type": "y", "entity_id": LAMP}]}, "'y'"),
    "the sun": ({"triggers": [{"trigger": "sun", "event": "sunset", "offset": "soon"}]}, "'soon'"),
    "the time of a helper": ({"triggers": [{"trigger": "time", "at": "sensor.outside_temperature"}]}, "no time of day"),
    "no time": ({"triggers": [{"trigger": "time", "at": "25:00"}]}, "no time of day"),
    "an entity in two places": ({"actions": [OFF | {"data": {"entity_id": "light.bed_light"}}]}, "in several places"),
    "all entities": ({"actions": [{"action": "light.turn_off", "target": {"entity_id": "all"}}]}, "no device"),
    "an area": ({"actions": [{"action": "light.turn_off", "target": {"area_id": "barn"}}]}, "'area_id'"),
    "a blueprint": ({"use_blueprint": {"path": "a.yaml"}, "triggers": None, "actions": None}, "use_blueprint"),
}


def test_what_cannot_mean_the_same_is_left_out_with_the_reason() -> None:
    """In one home, whose import takes longest."""
    home, basis = listing(), {"triggers": [MOTION], "actions": [OFF]}
    texts = {f"automation.{name.replace(' ', '_')}": basis | text for name, (text, _) in LEFT_OUT.items()}
    made = import_home(home.model_copy(update={"sources": home.sources | {AUTOMATIONS: texts}}), everything=True)
    told = [(note.entity, note.why) for note in made.notes if note.part == "automation" and note.entity in texts]
    assert sorted(entity for entity, _ in told) == sorted(texts) and not made.home.rules
    for entity, (name, (_, why)) in zip(texts, LEFT_OUT.items(), strict=True):
        assert why in dict(told)[entity], name
