"""Automations and scripts of a Home Assistant in a home; devices that move take their time, or are there at once."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from pydantic import SecretStr

from homerl.envs.assistant.automations.automation_import import script_duration
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.home_listing import (
    AREAS,
    AUTOMATIONS,
    DEVICES,
    ENTRIES,
    HISTORY,
    SCRIPTS,
    ImportNote,
    Listing,
)
from homerl.envs.assistant.listing.homeassistant_client import connect_client, is_moved_at_once, with_state_history
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, to_homeassistant
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.homeenv.sim.automation import make_hidden_rules
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.listing.making import alone
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, naming

NAME = "automation.hall_light_at_the_door"
LIGHT = {"action": "light.turn_on", "target": {"entity_id": "light.entrance_color_white_lights"}}
MOTION = {"trigger": "state", "entity_id": "binary_sensor.movement_backyard", "to": "on"}


def imported(text: dict[str, Any] | None) -> ImportedHome:
    home = naming(listing(), (text, NAME, LIGHT, BED, MOTION, GUARD, COLD, AT))
    return import_home(home.with_sources({AUTOMATIONS: {NAME: text}}))


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
    {"conditions": [GUARD | {"for": "soon"}]},
    {"conditions": [GUARD | {"enabled": "{{ off }}"}]},
    {"conditions": [{"condition": "or", "conditions": [GUARD | {"for": {"minutes": "{{ wait }}"}}]}]},
    {"conditions": [{"condition": "or", "conditions": [GUARD | {"enabled": False}]}]},
    {"conditions": [{"condition": "and", "conditions": [GUARD], "unknown": 1}]},
    {"actions": [LIGHT | {"target": {"entity_id": BED, "device_id": "17"}}]},
    {"actions": [LIGHT | {"target": {"entity_id": BED, "label_id": ["barn"]}}]},
    {"actions": [LIGHT | {"target": "{{ lamps }}"}]},
    {"actions": [LIGHT | {"data": "{{ light }}"}]},
    {"actions": [LIGHT | {"data": {"brightness": "{{ level }}"}}]},
    {"actions": [LIGHT | {"data": {"brightness": 40, "sparkle": 3}}]},
    {"actions": [LIGHT | {"continue_on_error": "{{ perhaps }}"}]},
    {"use_blueprint": {"path": "motion_light.yaml"}, "triggers": None, "actions": None},
    {"trigger_variables": "{{ a }}"},
]


def test_one_key_that_is_not_read_makes_the_whole_unreadable() -> None:
    """Of automations in one home, whose import takes longest."""
    home, basis = listing(), {"triggers": [MOTION], "conditions": [], "actions": [LIGHT]}
    texts = {f"automation.of_{number:02}": basis | text for number, text in enumerate(UNREAD)}
    made = import_home(home.with_sources({AUTOMATIONS: texts}))
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
    made = import_home(home.with_sources({AUTOMATIONS: texts}))
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
    (found,) = import_home(home.with_sources(sources)).home.rules
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
            {"action": "script.tell", "data": {"what": "S21 is at home", "code": "S22", "pin": "S23", "token": "S24"}},
            {"action": "script.turn_on", "data": {"variables": {"what": "S25 is at home", "password": "S26"}}},
        ],
    }
    kept = imported(text).listing.sources[AUTOMATIONS][NAME]
    assert not re.findall(r"S\d+", json.dumps(kept))


def test_what_is_left_out_keeps_the_entities_that_it_named_and_nothing_else() -> None:
    secret = "{{ is_state('binary_sensor.movement_backyard', 'S1!') and 's2.secret' != states.light.ceiling_lights.state }}"
    text = {"triggers": [{"trigger": "template", "value_template": secret}], "actions": [LIGHT]}
    kept = imported(text).listing.sources[AUTOMATIONS][NAME]
    (trigger,) = kept["triggers"]
    mark, _, named = trigger["value_template"].removesuffix(")").partition(": ")
    assert mark == "(left out" and set(named.split()) == {"binary_sensor.movement_backyard", "light.ceiling_lights"}


SCRIPT, LAMP, BLIND = "script.good_night", "light.ceiling_lights", "cover.hall_window"
OFF = {"action": "light.turn_off", "target": {"entity_id": LAMP}}


def imported_with(**sources: Any) -> ImportedHome:
    home = naming(listing(), (sources, NAME, MOTION, SCRIPT, LAMP))
    return import_home(home.with_sources(sources), everything=True)


def served(text: dict[str, Any] | None) -> Home:
    """A home as a served twin has it, with the script's text."""
    home = imported_with(**{SCRIPTS: {SCRIPT: text}}).home
    home.rules += make_hidden_rules(home)
    return home


def test_a_script_does_what_it_says_and_ends_when_it_ends() -> None:
    home = served({"alias": "Night", "sequence": [{"delay": "00:00:20"}, OFF], "mode": "single"})
    home.call(SCRIPT, "turn_on")
    home.advance(19)
    assert (home.read_value(SCRIPT, "state"), home.read_value(LAMP, "state")) == ("on", "on")
    home.advance(1)
    assert (home.read_value(SCRIPT, "state"), home.read_value(LAMP, "state")) == ("off", "off")


def test_one_without_delays_has_run_when_it_was_called() -> None:
    home = served({"sequence": [OFF]})
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert (home.read_value(SCRIPT, "state"), home.read_value(LAMP, "state")) == ("off", "off")
    assert not home.readable_rules, "a script is no automation to an agent"


GIVEN = {"action": "light.turn_off", "target": {"entity_id": "{{ lamp }}"}}
OURS = {"variables": {"lamp": LAMP}, "sequence": [GIVEN]}  # a script that has a lamp of its own, where none is given


def test_a_script_reads_its_own_variables() -> None:
    home = served(OURS)
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert home.read_value(LAMP, "state") == "off"


CALLS = {  # a script, how it is called, and whether that switches the lamp off; None: the automation is left out
    "data of its fields": ({"sequence": [GIVEN]}, {"action": SCRIPT, "data": {"lamp": LAMP}}, True),
    "by a template": ({"sequence": [GIVEN]}, {"action": SCRIPT, "data": {"lamp": "{{ 'light.ceiling_lights' }}"}}, True),
    "by the service of all": (
        {"sequence": [GIVEN]},
        {"action": "script.turn_on", "target": {"entity_id": SCRIPT}, "data": {"variables": {"lamp": LAMP}}},
        True,
    ),
    "an entity, which is a field as others are": (
        {"sequence": [{"action": "light.turn_off", "target": {"entity_id": "{{ entity_id }}"}}]},
        {"action": SCRIPT, "data": {"entity_id": LAMP}},
        True,
    ),
    "what it never reads": ({"sequence": [OFF]}, {"action": SCRIPT, "data": {"title": "Good night, everybody"}}, True),
    "as its own variable": (OURS, {"action": SCRIPT, "data": {"lamp": LAMP}}, True),
    "instead of its own variable": (OURS, {"action": SCRIPT, "data": {"lamp": "light.bed_light"}}, None),
    "in place of a sentence": (OURS, {"action": SCRIPT, "data": {"lamp": "the ceiling"}}, None),
    "none": ({"sequence": [GIVEN]}, {"action": SCRIPT}, False),
    "what ends it": ({"sequence": [GIVEN, {"stop": "x"}]}, {"action": SCRIPT, "data": {"lamp": LAMP}}, False),
    "itself": (
        {"sequence": [{"action": SCRIPT, "data": {"lamp": "{{ lamp }}"}}]},
        {"action": SCRIPT, "data": {"lamp": LAMP}},
        False,
    ),
}


@pytest.mark.parametrize(("script", "call", "off"), CALLS.values(), ids=CALLS)
def test_a_script_is_given_data(script: dict[str, Any], call: dict[str, Any], off: bool | None) -> None:
    text = {"triggers": [MOTION | {"to": "off"}], "actions": [call]}
    made = imported_with(**{SCRIPTS: {SCRIPT: script}, AUTOMATIONS: {NAME: text}})
    home = made.home
    told = [note.why for note in made.notes if note.entity == NAME and note.part == "automation"]
    assert bool(told) is (off is None) and all("change what it does" in why for why in told)
    assert bool(home.rules) is not bool(told)
    if told:
        assert home.plan.origin and [(one.id, one.acts) for one in home.plan.origin.unfollowed] == [(NAME, (SCRIPT,))]
    home.rules += make_hidden_rules(home)
    home.write_slot(home.plan.slot_of("binary_sensor.movement_backyard", "state"), "off")
    home.advance(0)
    assert (home.read_value(LAMP, "state") == "off") is bool(off)


ODD_SCRIPT = {"sequence": [{"if": "{{ 'abc'.startswith(5) }}", "then": [OFF]}]}


@pytest.mark.parametrize("text", [None, {"sequence": [{"action": "light.turn_on", "data": {"x": "{{ y }}"}}]}, ODD_SCRIPT])
def test_one_that_is_not_read_only_runs(text: dict[str, Any] | None) -> None:
    home = served(text)
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert not [rule for rule in home.rules if rule.id == SCRIPT] and home.read_value(LAMP, "state") == "on"


def test_one_that_is_not_read_is_noted() -> None:
    assert [note for note in imported_with(**{SCRIPTS: {SCRIPT: ODD_SCRIPT}}).notes if note.part == "script"] == [
        ImportNote(SCRIPT, "script", "its text cannot be read (TypeError)", minor=True)
    ]


@pytest.mark.parametrize(
    ("sequence", "seconds"),
    [
        ([OFF], 0),
        ([{"delay": 5}, {"delay": {"minutes": 1}}], 65),
        ([{"delay": "{{ x }}"}], None),
        ([{"delay": {"minutes": float("inf")}}], None),
        ([{"wait_template": "{{ x }}"}], None),
        ([{"if": [], "then": [{"delay": 5}]}], None),
        (OFF, 0),
        ([{"if": [], "then": [OFF]}], 0),
    ],
)
def test_a_script_tells_how_long_it_runs(sequence: Any, seconds: int | None) -> None:
    assert script_duration({"sequence": sequence}) == seconds


@pytest.mark.parametrize(
    ("past", "then"), [(["closed", "open"], "closed"), (["closed", "closing", "open"], "closing"), ([], "closing")]
)
def test_a_cover_is_there_at_once_if_its_history_says_so(past: list[str], then: str, tmp_path: Any) -> None:
    made = imported_with(**{HISTORY: {BLIND: past}})
    made.home.call(BLIND, "close_cover")
    assert made.home.read_value(BLIND, "state") == then
    save_listing(made.listing, tmp_path)
    assert import_home(load_listing(tmp_path), everything=True).home.plan.content_digest == made.home.plan.content_digest


@pytest.mark.parametrize(
    ("robot", "start", "send_home", "tour"),
    [
        ("vacuum.demo_vacuum_0_ground_floor", "start", "return_to_base", "cleaning"),
        ("lawn_mower.my_lawn_mower", "start_mowing", "dock", "mowing"),
    ],
)
def test_a_robot_is_home_at_once_if_its_history_says_so(robot: str, start: str, send_home: str, tour: str) -> None:
    """It cleans for as long as any other."""
    for past, then in ((["docked", tour], "docked"), (["docked", "returning", tour], "returning")):
        home = imported_with(**{HISTORY: {robot: past}}).home
        home.call(robot, start)
        home.advance(60)
        assert home.read_value(robot, "state") == tour
        home.call(robot, send_home)
        assert home.read_value(robot, "state") == then


def test_a_past_is_asked_for_once_and_that_of_a_robot_ends_at_its_last_return() -> None:
    """`s` is how Home Assistant writes a state of the past."""
    told = {
        "cover.hall_window": "open closed open",
        "vacuum.demo_vacuum_0_ground_floor": "docked cleaning docked returning",
        "vacuum.demo_vacuum_1_first_floor": "cleaning unavailable paused",
    }
    rows = {name: [{"s": state} for state in states.split()] for name, states in told.items()}
    recorded = listing()
    home = recorded.with_sources({HISTORY: {"lock.front_door": ["locked"]}})
    with Replay(home.with_sources({"history/history_during_period": rows})) as server:

        async def asked() -> list[Listing]:
            async with connect_client(server.url, SecretStr(TOKEN)) as client:
                first = await with_state_history(client, home)
                return [first, await with_state_history(client, first)]

        first, second = asyncio.run(asked())
    (question,) = (one for one in server.seen if one["type"] == "history/history_during_period")
    past = first.sources[HISTORY]
    assert [past[name] for name in told] == [["closed", "open"], ["cleaning", "docked"], []] and first == second
    assert past["lock.front_door"] == ["locked"] and "lock.front_door" not in question["entity_ids"]


@pytest.mark.parametrize(
    ("domain", "states", "assumed", "at_once"),
    [
        ("lock", ["locked", "unlocked"], False, True),
        ("lock", ["locked"], False, False),
        ("cover", [], True, True),
        ("alarm_control_panel", ["arming", "disarmed"], False, False),
        ("light", ["off", "on"], False, False),
        ("vacuum", ["cleaning", "docked"], False, True),
        ("vacuum", ["cleaning", "docked", "returning"], False, False),
        ("vacuum", [], True, False),
    ],
)
def test_what_is_at_once_moved_and_was_never_on_its_way(
    domain: str, states: list[str], assumed: bool, at_once: bool
) -> None:
    assert is_moved_at_once(domain, states, assumed) is at_once


def test_a_group_can_be_switched() -> None:
    home = alone("group.night", "on", entity_id=["light.a", "light.b"]).home
    service, arguments = from_homeassistant(home, "group.night", "homeassistant.turn_off", {})
    home.call("group.night", service, (), arguments)
    assert home.read_value("group.night", "state") == "off"
    sent = to_homeassistant(home, "group.night", "toggle", {})
    assert (sent.domain, sent.service) == ("homeassistant", "toggle")
    assert not alone("group.people", "home").home.plan.devices_by_did["group.people"].spec.service_index


def test_a_counter_counts_below_zero_unless_it_is_told_not_to() -> None:
    for attributes, then in (({}, -1), ({"minimum": 0}, 0)):
        home = alone("counter.steps", "0", step=1, initial=0, **attributes).home
        home.call("counter.steps", "decrement")
        assert home.read_value("counter.steps", "state") == then
