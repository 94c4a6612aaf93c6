"""An automation means here what it means in Home Assistant, or it is left out with the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, SERVICES, STATES
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.core.state_encoding import state_text
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.toolset import Limits
from homerl.envs.homeenv.sim.toolsets.smh import edit_automation
from tests.envs.assistant.listing.replay import listing, naming

NAME, LAMP = "automation.hall_light_at_the_door", "light.ceiling_lights"
COLD, GUESTS, MODE = "sensor.outside_temperature", "input_boolean.guest_mode", "input_select.house_mode"
OFF = {"action": "light.turn_off", "target": {"entity_id": LAMP}}
NEXT = {"action": "input_select.select_next", "target": {"entity_id": MODE}}
MOTION = {"trigger": "state", "entity_id": GUESTS, "to": "on"}
HUMIDITY = "input_number.target_humidity"
MOVEMENT, ROBOT = "binary_sensor.movement_backyard", "vacuum.demo_vacuum_0_ground_floor"
WET = {"trigger": "numeric_state", "entity_id": HUMIDITY}
CLIMATE = {"trigger": "numeric_state", "entity_id": "climate.heatpump", "attribute": "temperature"}


def imported(*beside: object, **text: Any) -> ImportedHome:
    """A home with what the text names and what stands beside it; if nothing does, with all that is named below."""
    told = {"triggers": [MOTION], "actions": [OFF]} | text
    home = listing() if "area_id" in str(text) else naming(listing(), (NAME, LAMP, told, beside or MEANT))
    return import_home(home.with_sources({AUTOMATIONS: {NAME: told}}), everything=True)


def number(**bounds: Any) -> dict[str, Any]:
    return {"trigger": "numeric_state", "entity_id": COLD, **bounds}


def state(entity: str, to: Any, **more: Any) -> dict[str, Any]:
    return {"trigger": "state", "entity_id": entity, "to": to, **more}


def where(entity: str, *states: str) -> dict[str, Any]:
    return {"condition": "state", "entity_id": entity, "state": [*states]}


def device(domain: str, type: str, entity: str) -> dict[str, Any]:
    return {"condition": "device", "device_id": "x", "domain": domain, "type": type, "entity_id": entity}


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
    "a change from a state": ({"triggers": [MOTION | {"from": "unavailable"}]},
        [(GUESTS, "state", "on"), (GUESTS, "state", "unavailable"), (GUESTS, "state", "on")], 3),
    "a change from a state to any": ({"triggers": [{"trigger": "state", "entity_id": MODE, "from": "Away"}]},
        [(MODE, "state", "Away"), (MODE, "state", "Home")], 2),
    "a change from a state, to which it is not back": (
        {"triggers": [{"trigger": "state", "entity_id": MODE, "from": "Away"}],
         "conditions": ["{{ trigger.from_state.state == 'Away' and trigger.to_state.state == 'Home' }}"]},
        [(MODE, "state", "Away"), (MODE, "state", "Night"), (MODE, "state", "Away"), (MODE, "state", "Home")], 4),
    "any change": ({"triggers": [{"trigger": "state", "entity_id": MODE}]}, [(MODE, "state", "Away")], 1),
    "a change of an attribute": ({"triggers": [{"trigger": "state", "entity_id": "climate.heatpump"}]},
        [("climate.heatpump", "temperature", 22.0)], 1),
    "which is none of the state": ({"triggers": [{"trigger": "state", "entity_id": "climate.heatpump", "to": None}]},
        [("climate.heatpump", "temperature", 22.0)], None),
    "not from and not to": (
        {"triggers": [{"trigger": "state", "entity_id": MODE, "not_from": ["Home"], "not_to": "Night"}]},
        [(MODE, "state", "Away"), (MODE, "state", "Night"), (MODE, "state", "Home")], 3),
    "several entities": ({"triggers": [MOTION | {"entity_id": ["switch.ac", GUESTS]}]}, [(GUESTS, "state", "on")], 1),
    "a name of the trigger": (
        {"triggers": [MOTION | {"id": "guests"}, state(MODE, "Away", id="mode")],
         "actions": [{"choose": [{"conditions": [{"condition": "trigger", "id": "mode"}], "sequence": [OFF]}]}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "the number of a trigger": (
        {"triggers": [MOTION, state(MODE, "Away")], "conditions": [{"condition": "trigger", "id": ["1", "7"]}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "a bound of a helper, whose change sets off nothing by itself": ({"triggers": [number(above=HUMIDITY)]},
        [(HUMIDITY, "state", 10.0), (COLD, "state", 16.0)], 2),
    "nor does it let what holds begin again": ({"triggers": [number(below=HUMIDITY)]},
        [(HUMIDITY, "state", 10.0), (HUMIDITY, "state", 45.0), (COLD, "state", 16.0)], None),
    "unless the number was beyond it meanwhile": ({"triggers": [number(below=HUMIDITY)]},
        [(HUMIDITY, "state", 10.0), (COLD, "state", 20.0), (HUMIDITY, "state", 30.0), (COLD, "state", 21.0)], 4),
    "a bound of a helper for some time": ({"triggers": [number(above=HUMIDITY, **{"for": 3})]},
        [(HUMIDITY, "state", 10.0), (COLD, "state", 16.0), (COLD, "state", 17.0), (HUMIDITY, "state", 90.0)], 4),
    "which ends as the number is back": ({"triggers": [number(above=HUMIDITY, **{"for": 3})]},
        [(HUMIDITY, "state", 10.0), (COLD, "state", 16.0), (COLD, "state", 9.0), (MODE, "state", "Away"),
         (MODE, "state", "Home")], None),
    "a wait for a bound of a helper": (
        {"actions": [{"wait_for_trigger": [number(above=HUMIDITY)]}, OFF]},
        [(GUESTS, "state", "on"), (HUMIDITY, "state", 10.0), (COLD, "state", 16.0)], 3),
    "a number that a template takes of others": (
        {"triggers": [number(above=50, value_template="{{ state.state | float + states('" + HUMIDITY + "') | float }}")
                      | {"entity_id": "counter.visitors"}]},
        [(HUMIDITY, "state", 90.0), ("counter.visitors", "state", 1)], 2),
    "any change but to some states, of what may be out of reach": (
        {"triggers": [{"trigger": "state", "entity_id": COLD, "not_to": "unavailable"}]}, [(COLD, "state", 3.0)], 1),
    "a number of a template": (
        {"triggers": [number(below=5, value_template="{{ state.state | float - 10 }}")]}, [(COLD, "state", 14.0)], 1),
    "a template": ({"triggers": [{"trigger": "template", "value_template":
        "{% set wet = states('input_number.target_humidity') | float(20) > 70 %}"
        "{{ wet and is_state('input_boolean.guest_mode', ['on', 'x']) }}"}]},
        [(HUMIDITY, "state", 71.0), (GUESTS, "state", "on")], 2),
    "templates of a condition": (
        {"conditions": ["{{ trigger.to_state.state == 'on' and trigger.from_state is defined }}"],
         "triggers": [MOTION | {"from": "off"}]}, [(GUESTS, "state", "on")], 1),
    "a condition by time": ({"conditions": [{"condition": "time", "after": "23:00", "before": "22:59"}]},
        [(GUESTS, "state", "on")], 1),
    "which is not now": ({"conditions": [{"condition": "time", "before": "00:00:00", "after": "23:59:59"}]},
        [(GUESTS, "state", "on")], None),
    "any of several": (
        {"conditions": [where(MODE, "on") | {"entity_id": [MODE, GUESTS], "match": "any"}]},
        [(GUESTS, "state", "on")], 1),
    "a device of the editor": (
        {"triggers": [{"trigger": "device", "domain": "input_boolean", "type": "turned_on", "device_id": "x",
                       "entity_id": GUESTS}],
         "actions": [{"domain": "light", "type": "turn_off", "device_id": "x", "entity_id": LAMP}]},
        [(GUESTS, "state", "on")], 1),
    "what is outside changes nothing": (
        {"actions": [{"action": "notify.phone", "data": {"message": "{{ x | random }}"}},
                     {"event": "A", "event_data": {"b": "{{ c }}"}}, {"action": "mqtt.publish"}, OFF]},
        [(GUESTS, "state", "on")], 1),
    "a delay": ({"actions": [{"delay": {"seconds": 2}}, OFF]},
        [(GUESTS, "state", "on"), (MODE, "state", "Home"), (MODE, "state", "Away")], 2),
    "a delay of a template": ({"actions": [{"delay": {"seconds": "{{ states('counter.visitors') | int + 1 }}"}}, OFF]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 1),
    "an automation that begins anew": (
        {"mode": "restart", "triggers": [MOTION, state(MODE, "Away")], "actions": [{"delay": 2}, OFF]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (COLD, "state", 3.0)], 3),
    "one that does not": (
        {"triggers": [MOTION, state(MODE, "Away")], "actions": [{"delay": 2}, OFF]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (COLD, "state", 3.0)], 2),
    "a wait for a trigger": (
        {"actions": [{"wait_for_trigger": [state(MODE, "Away")], "timeout": 9, "continue_on_timeout": False}, OFF]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "a wait that is over": ({"actions": [{"wait_template": "{{ is_state('input_select.house_mode', 'Home') }}"}, OFF]},
        [(GUESTS, "state", "on")], 1),
    "if and else": ({"actions": [{"if": [where(MODE, "Away")], "then": [], "else": [OFF]}]}, [(GUESTS, "state", "on")], 1),
    "a condition among the actions": ({"actions": [where(MODE, "Away"), OFF]}, [(GUESTS, "state", "on")], None),
    "in a branch it ends the branch": (
        {"actions": [{"if": [where(GUESTS, "on")], "then": [where(MODE, "Away")]}, OFF]}, [(GUESTS, "state", "on")], 1),
    "an end": ({"actions": [{"stop": "enough"}, OFF]}, [(GUESTS, "state", "on")], None),
    "repeats": (
        {"actions": [{"repeat": {"count": 3, "sequence": [{"action": "light.toggle", "target": {"entity_id": LAMP}}]}}]},
        [(GUESTS, "state", "on")], 1),
    "variables": (
        {"variables": {"lamp": LAMP, "wet": "{{ states('input_number.target_humidity') | float > 70 }}"},
         "conditions": ["{{ wet }}"], "actions": [{"action": "light.turn_off", "target": {"entity_id": "{{ lamp }}"}}]},
        [(GUESTS, "state", "on"), (HUMIDITY, "state", 71.0), (GUESTS, "state", "off"), (GUESTS, "state", "on")], 4),
    "it goes on after an error": (
        {"actions": [NEXT | {"continue_on_error": True}, OFF]},
        [(MODE, "state", "unavailable"), (GUESTS, "state", "on")], 2),
    "or does not": (
        {"actions": [NEXT | {"continue_on_error": False}, OFF]},
        [(MODE, "state", "unavailable"), (GUESTS, "state", "on")], None),
    "for each of a list": (
        {"actions": [{"repeat": {"for_each": ["light.bed_light", LAMP], "sequence": [
            {"action": "light.turn_off", "target": {"entity_id": "{{ repeat.item }}"}}]}}]}, [(GUESTS, "state", "on")], 1),
    "for each of a list of records, in which a condition ends a round": (
        {"actions": [{"repeat": {"for_each": [{"it": "light.bed_light", "mode": "Away"}, {"it": LAMP, "mode": "Home"}],
            "sequence": ["{{ is_state('input_select.house_mode', repeat.item.mode) }}",
                         {"action": "light.turn_off", "target": {"entity_id": "{{ repeat.item.it }}"}}]}}]},
        [(GUESTS, "state", "on")], 1),
    "a round of several": (
        {"actions": [{"repeat": {"count": 2, "sequence": [{"delay": 1}, {"if": "{{ repeat.last }}", "then": [OFF]}]}}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (MODE, "state", "Home")], 2),
    "a transition that a lamp does not have": (
        {"actions": [{"action": "homeassistant.turn_off", "target": {"entity_id": LAMP},
                      "data": {"transition": "{{ states('counter.visitors') | int }}"}}]}, [(GUESTS, "state", "on")], 1),
    "the parts of the id of what has changed": (
        {"conditions": ["{{ trigger.to_state.domain == 'input_boolean' and trigger.to_state is not none }}",
                        "{{ trigger.entity_id.split('.')[1] == 'guest_mode' }}"]}, [(GUESTS, "state", "on")], 1),
    "what was before is there": (
        {"conditions": ["{{ trigger.from_state is not none and trigger.from_state.object_id == 'guest_mode' }}"]},
        [(GUESTS, "state", "on")], 1),
    "an attribute of what came to a state": (
        {"triggers": [state("climate.heatpump", "off")],
         "conditions": ["{{ trigger.to_state.attributes.temperature > 21 }}"]},
        [("climate.heatpump", "state", "off"), ("climate.heatpump", "state", "heat"),
         ("climate.heatpump", "temperature", 22.0), ("climate.heatpump", "state", "off")], 4),
    "variables of a trigger come before those of all": (
        {"triggers": [MOTION | {"variables": {"who": "guests"}}, state(MODE, "Away", variables={"who": "mode"})],
         "variables": {"who": "guests"}, "conditions": ["{{ who == 'mode' }}"]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "variables of all triggers": (
        {"trigger_variables": {"most": 70}, "conditions": ["{{ most == 70 }}"], "triggers": [
            {"trigger": "template", "value_template": "{{ states('input_number.target_humidity') | float > most }}"}]},
        [(HUMIDITY, "state", 71.0)], 1),
    "a state that has held for some time": (
        {"triggers": [state(MODE, "Away")], "conditions": [where(GUESTS, "on") | {"for": {"seconds": 2}}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away"), (MODE, "state", "Home"), (MODE, "state", "Away")], 4),
    "one that began anew meanwhile": (
        {"triggers": [state(MODE, "Away")], "conditions": [where(GUESTS, "on") | {"for": "00:00:02"}]},
        [(GUESTS, "state", "on"), (GUESTS, "state", "off"), (GUESTS, "state", "on"), (MODE, "state", "Away")], None),
    "that it comes to have held for long sets off nothing": (
        {"conditions": [where(GUESTS, "on") | {"for": 2}]},
        [(GUESTS, "state", "on"), (COLD, "state", 3.0), (COLD, "state", 4.0), (COLD, "state", 5.0)], None),
    "a state that has held by the end of a wait": (
        {"actions": [{"delay": 2}, {"if": [where(GUESTS, "on") | {"for": 2}], "then": [OFF]}]},
        [(GUESTS, "state", "on"), (COLD, "state", 3.0)], 2),
    "that has not": (
        {"actions": [{"delay": 2}, where(GUESTS, "on") | {"for": 3}, OFF]},
        [(GUESTS, "state", "on"), (COLD, "state", 3.0), (COLD, "state", 4.0), (COLD, "state", 5.0)], None),
    "one of several states, each of which begins anew": (
        {"triggers": [state(GUESTS, "on")], "conditions": [where(MODE, "Away", "Night") | {"for": 2}]},
        [(MODE, "state", "Away"), (MODE, "state", "Night"), (GUESTS, "state", "on"), (GUESTS, "state", "off"),
         (GUESTS, "state", "on")], 5),
    "not for so long": (
        {"triggers": [state(MODE, "Away")], "conditions": [{"not": [where(GUESTS, "on") | {"for": 9}]}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "a device of the editor that has been on for some time": (
        {"triggers": [state(MODE, "Away")], "conditions": [device("input_boolean", "is_on", GUESTS) | {"for": 1}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "an area": ({"actions": [{"action": "light.turn_off", "target": {"area_id": "living_room"}}]},
        [(GUESTS, "state", "on")], 1),
    "a lock that is open": (
        {"conditions": [device("lock", "is_open", "lock.openable_lock")]},
        [("lock.openable_lock", "state", "open"), (GUESTS, "state", "on")], 2),
    "a cover that is open": (
        {"conditions": [device("cover", "is_open", "cover.hall_window")]}, [(GUESTS, "state", "on")], 1),
    "a sensor that is open": (
        {"conditions": [device("binary_sensor", "is_open", MOVEMENT)]},
        [(MOVEMENT, "state", "on"), (GUESTS, "state", "on")], 2),
    "a trigger of what its target names": (
        {"triggers": [{"trigger": "switch.turned_on", "target": {"entity_id": GUESTS}, "options": {"behavior": "each"}}]},
        [(GUESTS, "state", "on")], 1),
    "it holds for some time": (
        {"triggers": [{"trigger": "switch.turned_on", "target": {"entity_id": [GUESTS]}, "options": {"for": 2}}]},
        [(GUESTS, "state", "on"), (MODE, "state", "Away")], 2),
    "it does not come from out of reach": (
        {"triggers": [{"trigger": "switch.turned_on", "target": {"entity_id": GUESTS}}]},
        [(GUESTS, "state", "unavailable"), (GUESTS, "state", "on")], None),
    "a lock that opens": (
        {"triggers": [{"trigger": "lock.opened", "target": {"entity_id": "lock.openable_lock"}}]},
        [("lock.openable_lock", "state", "open")], 1),
    "what is switched in an area": (
        {"triggers": [{"trigger": "light.turned_off", "target": {"area_id": "living_room"}}]},
        [("light.living_room_rgbww_lights", "state", "on"), ("light.living_room_rgbww_lights", "state", "off")], 2),
    "a template reads the state before": (
        {"triggers": [state(GUESTS, "on")], "conditions": ["{{ trigger.from_state.state != 'unavailable' }}"]},
        [(GUESTS, "state", "unavailable"), (GUESTS, "state", "on"), (GUESTS, "state", "off"), (GUESTS, "state", "on")], 4),
    "it reads it in an action, of any change": (
        {"triggers": [{"trigger": "state", "entity_id": MODE}],
         "actions": [{"if": "{{ trigger.from_state.state == 'Away' }}", "then": [OFF]}]},
        [(MODE, "state", "Away"), (MODE, "state", "Home")], 2),
    "it reads it of several that are told": (
        {"triggers": [{"trigger": "state", "entity_id": MODE, "from": ["Home", "Away"]}],
         "conditions": ["{{ trigger.from_state.state == 'Away' and trigger.to_state.state == 'Home' }}"]},
        [(MODE, "state", "Away"), (MODE, "state", "Home")], 2),
    "an entity that is named twice is called once": (
        {"actions": [{"action": "light.toggle", "target": {"entity_id": [LAMP, LAMP]}}]}, [(GUESTS, "state", "on")], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "changes", "off"), MEANT.values(), ids=MEANT)
def test_what_is_taken_acts_when_the_real_one_does(
    text: dict[str, Any], changes: list[tuple[str, str, Any]], off: int | None
) -> None:
    made = imported(changes, **text)
    assert made.home.rules, [note for note in made.notes if note.part == "automation"]
    home, when = made.home, None
    for count, (entity, path, value) in enumerate(changes, 1):
        home.write_slot(home.plan.slot_of(entity, path), value)
        home.advance(1)
        if home.read_value(LAMP, "state") == "off":
            when = count
            break
    assert when == off


@pytest.mark.parametrize(
    ("services", "state", "off"),
    [([], "docked", False), (["start"], "cleaning", True), (["start", "return_to_base"], "returning", True)],
)
def test_a_robot_cleans_until_it_is_home(services: list[str], state: str, off: bool) -> None:
    home = imported(conditions=[device("vacuum", "is_cleaning", ROBOT)]).home
    for service in services:
        home.call(ROBOT, service)
    assert home.read_value(ROBOT, "state") == state
    home.write_slot(home.plan.slot_of(GUESTS, "state"), "on")
    home.advance(0)
    assert (home.read_value(LAMP, "state") == "off") is off


def test_what_an_automation_needs_besides_its_trigger_is_kept_in_files_told_and_left_by_an_edit() -> None:
    home = imported(conditions=[where(MODE, "Away")]).home
    (rule,) = home.rules
    assert home_from_json(home_to_json(home)).rules == home.rules
    said = rule.definition
    assert said.given is not None and said.given in rule.describe_rule()["only_if"] and said.given in state_text(rule)
    edit_automation(home, {"id": NAME, "title": "Night"}, Limits())
    edited = home.rules[0].definition
    assert (edited.title, edited.when, edited.given) == ("Night", said.when, said.given)
    edit_automation(home, {"id": NAME, "conditions": [said.when]}, Limits())
    assert home.rules[0].definition.given is None and "given" not in state_text(home.rules[0])


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
    "one that switches itself off": (
        {"actions": [{"action": "homeassistant.turn_off", "target": {"entity_id": [NAME, LAMP]}}]},
        "itself",
    ),
    "what was before": (
        {
            "variables": {"was": "{{ states('input_select.house_mode') }}"},
            "actions": [{"delay": 1}, {"if": "{{ was == 'Home' }}", "then": [OFF]}],
        },
        "before something was changed",
    ),
    "the state before": (
        {
            "triggers": [{"trigger": "state", "entity_id": "sensor.outside_temperature"}],
            "conditions": ["{{ trigger.from_state.state != 'unavailable' }}"],
        },
        "the state before",
    ),
    "a random wait": ({"actions": [{"delay": "{{ range(1, 9) | random }}"}, OFF]}, "not known"),
    "a wait for a word": ({"actions": [{"delay": {"minutes": "{{ trigger.platform }}"}}, OFF]}, "a duration is"),
    "a list that may change": (
        {"actions": [{"repeat": {"for_each": ["{{ states('input_select.house_mode') }}"], "sequence": [OFF]}}]},
        "no list that can be read",
    ),
    "a loop that goes on after an error": (
        {"actions": [{"repeat": {"count": 2, "sequence": [OFF]}, "continue_on_error": True}]},
        "within 'repeat'",
    ),
    "an endless loop": ({"actions": [{"repeat": {"while": [where(MODE, "Home")], "sequence": [OFF]}}]}, "without a wait"),
    "runs that queue": ({"mode": "queued", "actions": [{"delay": 1}, OFF]}, "queues"),
    "an event of the home": ({"triggers": [{"trigger": "event", "event_type": "state_changed"}]}, "'event'"),
    "an attribute for some time": (
        {"conditions": [where("climate.heatpump", "x") | {"attribute": "hvac_action", "for": 5}]},
        "'for'",
    ),
    "a state that moves, for some time": ({"conditions": [where("cover.hall_window", "open") | {"for": 5}]}, "'for'"),
    "a pause of a state": ({"triggers": [{"trigger": "state", "entity_id": GUESTS, "for": 5}]}, "'for'"),
    "a blueprint": ({"use_blueprint": {"path": "a.yaml"}, "triggers": None, "actions": None}, "use_blueprint"),
}


def test_what_cannot_mean_the_same_is_left_out_with_the_reason() -> None:
    """In one home, whose import takes longest."""
    home, basis = listing(), {"triggers": [MOTION], "actions": [OFF]}
    names = {f"automation.{name.replace(' ', '_')}": text for name, (text, _) in LEFT_OUT.items()}
    texts = {name: json.loads(json.dumps(basis | text).replace(NAME, name)) for name, text in names.items()}
    made = import_home(home.with_sources({AUTOMATIONS: texts}), everything=True)
    told = [(note.entity, note.why) for note in made.notes if note.part == "automation" and note.entity in texts]
    assert sorted(entity for entity, _ in told) == sorted(texts) and not made.home.rules
    for entity, (name, (_, why)) in zip(texts, LEFT_OUT.items(), strict=True):
        assert why in dict(told)[entity], name


def test_for_how_long_a_state_has_held_is_counted_of_what_conditions_ask_alone_and_follows_the_real_home() -> None:
    plain, home = imported().home, imported(conditions=[where(GUESTS, "on") | {"for": {"minutes": 5}}]).home
    changed = [ours.did for ours, theirs in zip(home.plan.devices, plain.plan.devices) if ours.spec != theirs.spec]
    assert changed == [GUESTS] and "seconds_on" not in home.readable_state_of(GUESTS)
    assert home_from_json(home_to_json(home)).rules == home.rules
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for state, ago, held in (("on", 200, 200), ("on", 4000, 300), ("off", 4000, 0), ("on", 0, 0)):
        changed_at = (now - timedelta(seconds=ago)).isoformat()
        row = {"entity_id": GUESTS, "state": state, "attributes": {}, "last_changed": changed_at, "last_updated": now}
        assert refresh_home(home, [row], now).read_value(GUESTS, "seconds_on") == held
    home = refresh_home(home, [row | {"last_changed": (now - timedelta(seconds=200)).isoformat()}], now)
    assert refresh_home(home, [{"entity_id": GUESTS, "state": "on", "attributes": {}}]).state_key() == home.state_key()


def test_an_automation_that_is_switched_off_acts_no_more() -> None:
    """Also by a service that switches lamps beside it."""
    other = "automation.other"
    home = listing()
    switch = {"action": "homeassistant.turn_off", "target": {"entity_id": [other, "light.bed_light"]}}
    texts = {
        NAME: {"triggers": [state(MODE, "Away")], "actions": [switch]},
        other: {"triggers": [MOTION], "actions": [OFF]},
    }
    row = {"entity_id": other, "state": "on", "attributes": {}, "last_updated": "2026-01-01T00:00:00+00:00"}
    sources = {AUTOMATIONS: texts, STATES: [*home.sources[STATES], row]}
    sources[SERVICES] = {**home.sources[SERVICES], other: ["automation.turn_off", "automation.turn_on"]}
    made = import_home(home.with_sources(sources), everything=True).home
    made.call("light.bed_light", "turn_on")
    for entity, value in ((MODE, "Away"), (GUESTS, "on")):
        made.write_slot(made.plan.slot_of(entity, "state"), value)
        made.advance(1)
    assert (
        made.read_value(LAMP, "state"),
        made.read_value("light.bed_light", "state"),
        made.read_value(other, "state"),
    ) == ("on", "off", "off")


WRITTEN = {  # a template, and whether Home Assistant's condition passes while guest mode is on
    "{{ is_state('input_boolean.guest_mode', 'on') }}": True,
    "{% if is_state('input_boolean.guest_mode', 'on') %}True{% endif %}": True,
    "{{ 'TRUE' if is_state('input_boolean.guest_mode', 'on') else 'no' }}": True,
    "{{ is_state('input_boolean.guest_mode', 'on') and true }}": True,
    "{{ is_state('input_boolean.guest_mode', 'off') or 'true' }}": True,
    "{{ states('input_boolean.guest_mode') }}": False,
    "{{ is_state('input_boolean.guest_mode', 'on') and states('input_boolean.guest_mode') }}": False,
    "{{ is_state('input_boolean.guest_mode', 'off') or 'on' }}": False,
    "{% if is_state('input_boolean.guest_mode', 'on') %}yes{% endif %}": False,
    "{{ 1 if is_state('input_boolean.guest_mode', 'on') else 0 }}": False,
    "{{ states('counter.visitors') | int + 1 }}": False,
}


@pytest.mark.parametrize("negated", [False, True], ids=["plain", "in not"])
@pytest.mark.parametrize(("template", "passes"), WRITTEN.items(), ids=[*WRITTEN])
def test_a_template_condition_passes_only_where_it_writes_true(template: str, passes: bool, negated: bool) -> None:
    conditions = [{"condition": "not", "conditions": [template]}] if negated else [template]
    made = imported(GUESTS, MODE, conditions=conditions, triggers=[state(MODE, "Away")])
    assert not [note for note in made.notes if note.part == "automation"]
    home = made.home
    for entity, value in ((GUESTS, "on"), (MODE, "Away")):
        home.write_slot(home.plan.slot_of(entity, "state"), value)
    home.advance(1)
    assert (home.read_value(LAMP, "state") == "off") == (passes is not negated)


def test_a_template_trigger_takes_other_words_for_true_too() -> None:
    template = "{% if is_state('input_boolean.guest_mode', 'on') %}yes{% endif %}"
    home = imported(triggers=[{"trigger": "template", "value_template": template}]).home
    home.write_slot(home.plan.slot_of(GUESTS, "state"), "on")
    home.advance(1)
    assert home.read_value(LAMP, "state") == "off"


def test_a_wait_for_what_is_true_to_one_place_alone_is_not_understood() -> None:
    wait = {"wait_template": "{{ states('input_boolean.guest_mode') }}"}
    (note,) = [note for note in imported(actions=[wait, OFF]).notes if note.part == "automation"]
    assert "does not write true or false" in note.why
