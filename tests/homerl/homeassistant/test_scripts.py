"""Scripts do what their texts say and end when they end; devices that move take their time, or are there at once."""

from __future__ import annotations

from typing import Any

import pytest

from envs.homeenv.automation import hidden_rules
from envs.homeenv.home import Home
from homerl.homeassistant.automations.lengths import length
from homerl.homeassistant.fixtures import load, save
from homerl.homeassistant.history import is_at_once
from homerl.homeassistant.importing import Imported, import_home
from homerl.homeassistant.listing import HISTORY, SCRIPTS
from homerl.homeassistant.translation import from_homeassistant, to_homeassistant
from tests.homerl.homeassistant.making import alone
from tests.homerl.homeassistant.replay import listing

SCRIPT, LAMP, BLIND = "script.good_night", "light.ceiling_lights", "cover.hall_window"
OFF = {"action": "light.turn_off", "target": {"entity_id": LAMP}}


def imported(**sources: Any) -> Imported:
    home = listing()
    return import_home(home.model_copy(update={"sources": home.sources | sources}), everything=True)


def served(text: dict[str, Any] | None) -> Home:
    """A home as a served twin has it, with the script's text."""
    home = imported(**{SCRIPTS: {SCRIPT: text}}).home
    home.rules += hidden_rules(home)
    return home


def test_a_script_does_what_it_says_and_ends_when_it_ends() -> None:
    home = served({"alias": "Night", "sequence": [{"delay": "00:00:20"}, OFF], "mode": "single"})
    home.call(SCRIPT, "turn_on")
    home.advance(19)
    assert (home.get(SCRIPT, "state"), home.get(LAMP, "state")) == ("on", "on")
    home.advance(1)
    assert (home.get(SCRIPT, "state"), home.get(LAMP, "state")) == ("off", "off")


def test_one_without_delays_has_run_when_it_was_called() -> None:
    home = served({"sequence": [OFF]})
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert (home.get(SCRIPT, "state"), home.get(LAMP, "state")) == ("off", "off")
    assert not home.told_rules, "a script is no automation to an agent"


@pytest.mark.parametrize("text", [None, {"sequence": [{"action": "light.turn_on", "data": {"x": "{{ y }}"}}]}])
def test_one_that_is_not_read_only_runs(text: dict[str, Any] | None) -> None:
    home = served(text)
    home.call(SCRIPT, "turn_on")
    home.advance(0)
    assert not [rule for rule in home.rules if rule.id == SCRIPT] and home.get(LAMP, "state") == "on"


@pytest.mark.parametrize(
    ("sequence", "seconds"),
    [
        ([OFF], 0), ([{"delay": 5}, {"delay": {"minutes": 1}}], 65), ([{"delay": "{{ x }}"}], None),
        ([{"wait_template": "{{ x }}"}], None), ([{"if": [], "then": [{"delay": 5}]}], None), (OFF, 0),
        ([{"if": [], "then": [OFF]}], 0),
    ],
)  # fmt: skip
def test_a_script_tells_how_long_it_runs(sequence: Any, seconds: int | None) -> None:
    assert length({"sequence": sequence}) == seconds


@pytest.mark.parametrize(
    ("past", "then"), [(["closed", "open"], "closed"), (["closed", "closing", "open"], "closing"), ([], "closing")]
)
def test_a_cover_is_there_at_once_if_its_history_says_so(past: list[str], then: str, tmp_path: Any) -> None:
    made = imported(**{HISTORY: {BLIND: past}})
    made.home.call(BLIND, "close_cover")
    assert made.home.get(BLIND, "state") == then
    save(made.listing, tmp_path)
    assert import_home(load(tmp_path), everything=True).home.plan.digest == made.home.plan.digest


@pytest.mark.parametrize(
    ("domain", "states", "assumed", "at_once"),
    [
        ("lock", ["locked", "unlocked"], False, True), ("lock", ["locked"], False, False), ("cover", [], True, True),
        ("alarm_control_panel", ["arming", "disarmed"], False, False), ("light", ["off", "on"], False, False),
    ],
)  # fmt: skip
def test_what_is_at_once_moved_and_was_never_on_its_way(
    domain: str, states: list[str], assumed: bool, at_once: bool
) -> None:
    assert is_at_once(domain, states, assumed) is at_once


def test_a_group_can_be_switched() -> None:
    home = alone("group.night", "on", entity_id=["light.a", "light.b"]).home
    service, arguments = from_homeassistant(home, "group.night", "homeassistant.turn_off", {})
    home.call("group.night", service, (), arguments)
    assert home.get("group.night", "state") == "off"
    sent = to_homeassistant(home, "group.night", "toggle", {})
    assert (sent.domain, sent.service) == ("homeassistant", "toggle")
    assert not alone("group.people", "home").home.plan.by_did["group.people"].spec.service_index


def test_a_counter_counts_below_zero_unless_it_is_told_not_to() -> None:
    for attributes, then in (({}, -1), ({"minimum": 0}, 0)):
        home = alone("counter.steps", "0", step=1, initial=0, **attributes).home
        home.call("counter.steps", "decrement")
        assert home.get("counter.steps", "state") == then
