"""Rules with steps: they branch, repeat, wait, and run again, alike whatever leaps the clock makes."""

from __future__ import annotations

from typing import Any

import pytest

from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.values.auditor import Refused

LIGHT, AC = "1001", "1002"
ON, OFF = ({"did": LIGHT, "locator": f"turn_{to}"} for to in ("on", "off"))
COOL = {"did": AC, "locator": "turn_on"}
LIT = f'device("{LIGHT}").state == "on"'
COOLS = f'device("{AC}").state == "on"'


def home_with(steps: list[Any], conditions: tuple[str, ...] = (f'changed = device("{AC}").state',), **more: Any) -> Home:
    """A home with its light on and its air conditioner off, whose rule acts when that is switched."""
    home = HomeSampler.sample_test()
    home.call(LIGHT, "turn_on")
    home.call(AC, "turn_off")
    home.rules = (make_rule(home, conditions, steps, **more),)
    return home


def lit(home: Home) -> bool:
    return bool(home.read_value(LIGHT, "state") == "on")


def switch(home: Home, to: str) -> None:
    home.call(AC, f"turn_{to}")
    home.settle_rules()


def test_steps_wait_and_go_on_whatever_leaps_the_clock_makes() -> None:
    home = home_with([OFF, {"delay": 30}, ON])
    switch(home, "on")
    assert not lit(home)
    once, often = home.fork(), home_from_json(home_to_json(home))
    once.advance(30)
    for _ in range(30):
        assert not lit(often)
        often.advance(1)
    assert lit(once) and lit(often) and len(once.rules) == 1
    assert often.rules == once.rules


@pytest.mark.parametrize(
    ("runs", "at_the_end"), [({"most": 1}, False), ({"restart": True}, True), ({"most": 2}, False), ({}, False)]
)
def test_a_run_keeps_others_out_or_ends(runs: dict[str, Any], at_the_end: bool) -> None:
    """The light goes off ten seconds after a run began; only one that begins anew moves that."""
    home = home_with([{"delay": 10}, OFF], of="a", **runs)
    switch(home, "on")
    home.advance(6)
    switch(home, "off")
    assert len(home.rules) == (3 if runs in ({}, {"most": 2}) else 2)
    home.advance(6)
    assert lit(home) is at_the_end
    home.advance(4)
    assert not lit(home) and len(home.rules) == 1


def test_branches_and_conditions_are_those_of_the_moment() -> None:
    branch = {"if": COOLS, "then": [{"only_if": f"not ({LIT})"}, ON], "else": [OFF]}
    home = home_with([branch, {"only_if": LIT}, {"delay": 5}, OFF])
    switch(home, "on")
    assert len(home.rules) == 2, "a condition in a branch ends the branch alone"
    home.advance(5)
    assert not lit(home)
    switch(home, "off")
    assert not lit(home) and len(home.rules) == 1, "one outside of it ends all"


@pytest.mark.parametrize(
    ("loop", "seconds"),
    [
        ({"repeat": 3, "do": [{"delay": 4}]}, 12),
        ({"while": COOLS, "do": [{"delay": 4}]}, 8),
        ({"do": [{"delay": 4}], "until": f"not ({COOLS})"}, 8),
        ({"delay": "2 * home.temperature // home.temperature * 4"}, 8),
    ],
)
def test_steps_repeat(loop: dict[str, Any], seconds: int) -> None:
    home = home_with([loop, OFF], (COOLS,))
    switch(home, "on")
    home.advance(5)
    switch(home, "off")
    home.advance(seconds - 6)
    assert lit(home)
    home.advance(1)
    assert not lit(home)


@pytest.mark.parametrize(
    ("wait", "off_at"),
    [
        ({"wait": f"not ({COOLS})"}, 5),
        ({"wait": f"not ({COOLS})", "timeout": 3}, 3),
        ({"wait": f"not ({COOLS})", "timeout": 3, "stop": True}, None),
        ({"wait": LIT}, 0),
        ({"wait": [{"conditions": [f"not ({COOLS})"], "hold": 2}]}, 7),
        ({"wait": [{"conditions": [LIT]}], "timeout": 4}, 4),
    ],
)
def test_steps_wait_for_what_comes(wait: dict[str, Any], off_at: int | None) -> None:
    """The air conditioner is switched off after five seconds."""
    home = home_with([wait, OFF], (COOLS,))
    switch(home, "on")
    seen = [lit(home)]
    for second in range(1, 11):
        home.advance(1)
        if second == 5:
            switch(home, "off")
        seen.append(lit(home))
    assert (seen.index(False) if False in seen else None) == off_at
    assert len(home.rules) == 1


def test_a_rule_switches_others_whose_runs_end() -> None:
    home = home_with([{"switch": ["late"], "to": False}])
    home.rules = (*home.rules, make_rule(home, [f"not ({LIT})"], [{"delay": 5}, ON], id="late"))
    home.call(LIGHT, "turn_off")
    home.settle_rules()
    switch(home, "on")
    home.advance(10)
    assert not lit(home) and [rule.progress.enabled for rule in home.rules] == [True, False]


def test_what_was_before_is_told_apart() -> None:
    home = home_with([OFF], (f'changed = device("{AC}").state', f"before = {COOLS}"))
    switch(home, "on")
    assert lit(home)
    switch(home, "off")
    assert not lit(home)


@pytest.mark.parametrize(("given", "acts"), [("clock.time < 43200", True), ('clock.weekday in ("tue",)', False)])
def test_the_clock_is_told_in_what_is_given(given: str, acts: bool) -> None:
    home = home_with([OFF], ("time_cron = 0 0 7 * * ? *",), given=[given])
    home.clock = 1_770_000_000  # a Monday
    home.rules = (make_rule(home, ["time_cron = 0 0 7 ? * 2,4 *"], [OFF], given=[given]),)
    home.advance(2 * 86400)
    assert lit(home) is not acts


def test_arguments_are_worked_out() -> None:
    argument = HomeSampler.sample_test().plan.compiled_services[AC, "set_target_temperature"][0].service.arguments[0].name
    told = {"did": AC, "locator": "set_target_temperature", "told": {argument: "round(22 + 0 * home.temperature)"}}
    home = home_with([{"did": AC, "locator": "turn_on"}, told], (f"not ({LIT})",))
    home.call(LIGHT, "turn_off")
    home.settle_rules()
    assert 22 in home.state_of(AC).values()


@pytest.mark.parametrize(
    "steps",
    [
        [{"if": LIT}],
        [{"do": [OFF]}],
        [{"delay": -1}],
        [{"wait": []}, 5],
        [{"repeat": 5000, "do": [OFF]}],
        [{"did": LIGHT, "locator": "fly"}, {"delay": 1}],
        [{"if": "nothing", "then": [OFF]}],
        [{"wait": [{"conditions": ["time_cron = 0 0 7 * * ? *"]}]}],
    ],
)
def test_steps_that_are_none_are_refused(steps: list[Any]) -> None:
    with pytest.raises(Refused):
        home_with(steps)


def test_a_loop_that_never_waits_ends() -> None:
    home = home_with([{"while": COOLS, "do": [ON]}, OFF], (COOLS,))
    switch(home, "on")
    home.advance(1)
    assert lit(home)
