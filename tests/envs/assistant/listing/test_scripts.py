"""Scripts do what their texts say and end when they end; devices that move take their time, or are there at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr

from homerl.envs.assistant.automations.automation_import import script_duration
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.generic_products import ImportNote
from homerl.envs.assistant.listing.home_listing import HISTORY, SCRIPTS, Listing
from homerl.envs.assistant.listing.homeassistant_client import connect_client, is_moved_at_once, with_state_history
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, to_homeassistant
from homerl.envs.assistant.listing.listing_files import load_listing, save_listing
from homerl.envs.homeenv.sim.automation import make_hidden_rules
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.listing.making import alone
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing

SCRIPT, LAMP, BLIND = "script.good_night", "light.ceiling_lights", "cover.hall_window"
OFF = {"action": "light.turn_off", "target": {"entity_id": LAMP}}


def imported(**sources: Any) -> ImportedHome:
    home = listing()
    return import_home(home.model_copy(update={"sources": home.sources | sources}), everything=True)


def served(text: dict[str, Any] | None) -> Home:
    """A home as a served twin has it, with the script's text."""
    home = imported(**{SCRIPTS: {SCRIPT: text}}).home
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


ODD = {"sequence": [{"if": "{{ 'abc'.startswith(5) }}", "then": [OFF]}]}


@pytest.mark.parametrize("text", [None, {"sequence": [{"action": "light.turn_on", "data": {"x": "{{ y }}"}}]}, ODD])
def test_one_that_is_not_read_only_runs(text: dict[str, Any] | None) -> None:
    home = served(text)
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert not [rule for rule in home.rules if rule.id == SCRIPT] and home.read_value(LAMP, "state") == "on"


def test_one_that_is_not_read_is_noted() -> None:
    assert [note for note in imported(**{SCRIPTS: {SCRIPT: ODD}}).notes if note.part == "script"] == [
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
    made = imported(**{HISTORY: {BLIND: past}})
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
        home = imported(**{HISTORY: {robot: past}}).home
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
    home = recorded.model_copy(update={"sources": recorded.sources | {HISTORY: {"lock.front_door": ["locked"]}}})
    with Replay(home.model_copy(update={"sources": home.sources | {"history/history_during_period": rows}})) as server:

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
