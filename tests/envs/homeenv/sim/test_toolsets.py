"""Toolsets: what a structured call returns, refuses and changes; automations through tools; one answer replayed."""

import json
from typing import Any

import pytest

from homerl.envs.core.world import action_arguments, check_world, tool_call_to_action
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.toolsets.direct import serialise_home


def world(toolset: str = "smh", *conditions: str) -> HomeEnv:
    return HomeEnv(HomeSampler.sample_test(), conditions, toolset)


def ask(env: HomeEnv, name: str, **arguments: Any) -> tuple[Any, dict]:
    """(the observation, read as JSON where it is JSON; info)."""
    text, *_, info = env.step({"name": name, **arguments})
    try:
        return json.loads(text), info
    except ValueError:
        return text, info


def test_candidates_are_found_by_room_and_tags_and_tell_no_state():
    found, info = ask(world(), "query_device", what="candidates", room="living room")
    assert [d["did"] for d in found] == ["1001", "1002"] and not info["changed"]
    assert all(set(d) == {"did", "name", "room", "category", "subcategory", "tags"} for d in found)
    found, _ = ask(world(), "query_device", what="candidates", tags=["light"])
    assert [d["did"] for d in found] == ["1001", "1003"]
    assert ask(world(), "query_device", what="candidates", tags=["light", "no such tag"])[0] == []


def test_spec_and_status_say_what_a_device_can_and_is():
    ((spec,), _), ((status,), _) = (ask(world(), "query_device", what=what, did="1003") for what in ("spec", "status"))
    assert spec["services"]["set_brightness"]["requires"] and "brightness" in spec["attributes"]
    assert status == {"did": "1003", "state": "off", "brightness": 50, "color_temperature": 3000}


def test_control_changes_one_device_and_earns_progress():
    env = world("smh", 'device("1003").brightness == 80')
    assert ask(env, "control_device", did="1003", locator="turn_on")[1]["changed"] == ("1003.state",)
    text, reward, over, _, info = env.step(
        {"name": "control_device", "did": "1003", "locator": "set_brightness", "arguments": {"brightness": 80}}
    )
    assert text == "ok" and reward == 1.0 and over and info["changed"] == ("1003.brightness",)


OFF, DIM = {"did": "1001", "locator": "turn_off"}, {"did": "1001", "locator": "set_brightness"}


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ({"name": "query_device"}, "missing_argument"),
        ({"name": "query_device", "what": "everything"}, "out_of_range"),
        ({"name": "query_device", "what": "status", "did": "9"}, "unknown_device"),
        ({"name": "query_device", "what": "status", "room": "attic"}, "unknown_room"),
        ({"name": "query_device", "what": "status", "tags": "light"}, "wrong_type"),
        ({"name": "query_device", "what": "status", "all": True}, "unknown_argument"),
        ({"name": "control_device", "did": "1001"}, "missing_argument"),
        ({"name": "control_device", "did": 1001, "locator": "turn_on"}, "wrong_type"),
        ({"name": "control_device", "did": "1001", "locator": "explode"}, "unknown_service"),
        ({"name": "control_device", **DIM, "did": "1003", "arguments": {"brightness": 5}}, "precondition"),
        ({"name": "control_device", **DIM, "arguments": {}}, "missing_argument"),
        ({"name": "control_device", **DIM, "arguments": {"brightness": None}}, "wrong_type"),
        ({"name": "create_automation", "actions": []}, "wrong_type"),
        ({"name": "create_automation", "actions": [{"did": "1001"}], "delay_seconds": 5}, "missing_argument"),
        ({"name": "create_automation", "actions": [OFF], "delay_seconds": 0}, "out_of_range"),
        ({"name": "create_automation", "actions": [OFF]}, "missing_argument"),
        ({"name": "edit_automation", "id": "7"}, "unknown_automation"),
        ({"name": "delete_automation", "id": "7"}, "unknown_automation"),
        ({"name": "pyexec", "code": "1"}, "unknown_tool"),
    ],
)
def test_what_cannot_be_is_refused_by_rule_and_changes_nothing(call, rule):
    env = world()
    key = env.state_key()
    *_, info = env.step(call)
    assert info["blocked"]["rule"] == rule and not info["changed"] and env.state_key() == key


def test_automations_are_made_listed_changed_and_removed():
    env = world()
    off = [{"did": "1001", "locator": "turn_off"}]
    _, info = ask(env, "create_automation", title="night", conditions=["time_cron = 0 0 22 * * ? *"], actions=off)
    assert info["changed"] == ("automation.1",)
    ask(env, "create_automation", actions=off, delay_seconds=600)
    listed, info = ask(env, "list_automations")
    assert [(rule["id"], rule["title"], len(rule["conditions"])) for rule in listed] == [("1", "night", 1), ("2", "", 1)]
    assert listed[0]["actions"] == [off[0] | {"arguments": {}}] and not info["changed"]
    ask(env, "edit_automation", id="1", conditions=['device("1003").state == "on"'], hold_seconds=60)
    ask(env, "edit_automation", id="2", title="soon")
    rule, soon = ask(env, "list_automations")[0]
    assert (rule["title"], rule["hold_seconds"], rule["conditions"]) == ("night", 60, ['device("1003").state == "on"'])
    assert soon["title"] == "soon" and env.engine.home.rules[1].progress.due == env.engine.home.clock + 600
    ask(env, "edit_automation", id="1", enabled=False)
    ask(env, "delete_automation", id="2")
    assert [r["enabled"] for r in ask(env, "list_automations")[0]] == [False]
    ask(env, "control_device", did="1003", locator="turn_on")
    assert env.engine.home.advance(3600) == [], "what is disabled does not act"


@pytest.mark.parametrize("line", ["0 0 31 4 *", "0 0 0 30 2 ? *", "0 0 8 1 1 ? 2020", "0 0 8 31 6 ? 2099"])
def test_a_time_that_never_comes_is_refused(line):
    env, off = world(), [{"did": "1001", "locator": "turn_off"}]
    answer, info = ask(env, "create_automation", conditions=[f"time_cron = {line}"], actions=off)
    assert info["blocked"]["rule"] == "out_of_range" and "never due" in answer
    ask(env, "create_automation", conditions=["time_cron = 0 0 29 2 *"], actions=off)
    answer, _ = ask(env, "edit_automation", id="1", conditions=[f"time_cron = {line}"])
    assert "never due" in answer and env.engine.home.rules[0].definition.cron == "0 0 29 2 *"


def test_a_time_that_is_over_is_no_more_edited_unless_to_stop_it():
    """A home of a file may have one: an edit that leaves it as it is would promise what never comes."""
    env, off = world(), [{"did": "1001", "locator": "turn_off"}]
    home = env.engine.home
    home.rules = (make_rule(home, ["time_cron = 0 0 8 1 1 ? 2020"], off, "old"),)
    answer, info = ask(env, "edit_automation", id="1", title="new")
    assert info["blocked"]["rule"] == "out_of_range" and "never due" in answer and home.rules[0].definition.title == "old"
    ask(env, "edit_automation", id="1", enabled=False, title="new")
    assert (home.rules[0].progress.enabled, home.rules[0].definition.title) == (False, "new")
    ask(env, "edit_automation", id="1", conditions=["time_cron = 0 0 8 * * ? *"], enabled=True)
    assert home.rules[0].progress.enabled and home.rules[0].progress.due is not None


def test_what_an_edit_leaves_out_stays():
    env, off = world(), [{"did": "1001", "locator": "turn_off"}]
    conditions = ['device("1003").state == "on"']
    ask(env, "create_automation", conditions=conditions, delay_seconds=600, actions=off)
    (made,) = (rule.definition for rule in env.engine.home.rules)
    ask(env, "edit_automation", id="1", title="soon", actions=[{"did": "1003", "locator": "turn_off"}])
    (soon,) = (rule.definition for rule in env.engine.home.rules)
    assert (soon.at, soon.when, soon.title, soon.actions != made.actions) == (made.at, made.when, "soon", True)
    ask(env, "edit_automation", id="1", delay_seconds=900)
    (later,) = (rule.definition for rule in env.engine.home.rules)
    assert (later.at, later.when) == (made.at + 300, made.when)
    assert ask(env, "edit_automation", id="1", hold_seconds=5)[1]["blocked"]["rule"] == "wrong_type"
    ask(env, "edit_automation", id="1", conditions=conditions)
    ask(env, "edit_automation", id="1", hold_seconds=5)
    (held,) = (rule.definition for rule in env.engine.home.rules)
    assert (held.at, held.when, held.hold) == (None, made.when, 5)
    ask(env, "edit_automation", id="1", conditions=["time_cron = 0 0 22 * * ? *", *conditions])
    ask(env, "edit_automation", id="1", enabled=False)
    (nightly,) = (rule.definition for rule in env.engine.home.rules)
    assert (nightly.cron, nightly.when, nightly.hold) == ("0 0 22 * * ? *", made.when, 0)
    assert not env.engine.home.rules[0].progress.enabled


def test_an_edit_does_not_let_a_rule_act_twice_in_a_second():
    env, off = world(), [{"did": "1001", "locator": "turn_off"}]
    ask(env, "create_automation", conditions=['device("1003").state == "on"'], actions=off)
    assert "1001.state" in ask(env, "control_device", did="1003", locator="turn_on")[1]["changed"]
    ask(env, "edit_automation", id="1", title="again")
    for did, way in (("1001", "turn_on"), ("1003", "turn_off"), ("1003", "turn_on")):
        ask(env, "control_device", did=did, locator=way)
    assert env.engine.home.read_value("1001", "state") == "on"


def test_arguments_that_no_message_could_hold_are_refused():
    env, nest = world(), []
    for _ in range(900):
        nest = [nest]
    for wrong in (10**5000, nest, "\ud800"):
        _, info = ask(env, "control_device", did=wrong, locator=wrong, arguments={"x": wrong})
        assert info["blocked"] and not info["changed"]
    off = [{"did": "1001", "locator": "turn_off"}]
    assert ask(env, "create_automation", delay_seconds=5, actions=off, title="\ud800")[1]["blocked"]["rule"] == "wrong_type"


def test_a_rule_acts_on_what_the_agent_does_in_the_same_step():
    env = world()
    ask(
        env,
        "create_automation",
        conditions=['device("1003").state == "on"'],
        actions=[{"did": "1001", "locator": "turn_off"}],
    )
    _, info = ask(env, "control_device", did="1003", locator="turn_on")
    assert set(info["changed"]) == {"1001.state", "1003.state", "automation.1"}


def test_the_contract_holds():
    off = [{"did": "1001", "locator": "turn_off"}]
    check_world(
        world("smh", 'device("1001").state == "off"'),
        [
            {"name": "query_device", "what": "status"},
            {"name": "create_automation", "conditions": ['device("1003").state == "on"'], "actions": off},
            {"name": "control_device", "did": "1003", "locator": "turn_on"},
            {"name": "delete_automation", "id": "1"},
        ],
    )
    check_world(world("direct"), [{"name": "answer", "mode": "execute", "actions": off}])


def test_one_answer_is_replayed_up_to_what_is_refused():
    env = world("direct")
    actions = [
        {"did": "1003", "locator": "turn_on"},
        {"did": "1003", "locator": "set_brightness", "arguments": {"brightness": 500}},
        {"did": "1001", "locator": "turn_off"},
    ]
    _, info = ask(env, "answer", mode="execute", response="Done.", actions=actions)
    assert info["blocked"]["rule"] == "out_of_range" and info["changed"] == ("1003.state",)
    text, info = ask(env, "answer", mode="clarify", response="Which lamp?", actions=actions[2:])
    assert text == "Which lamp?" and not info["changed"], "who asks does not act"


def test_an_answer_may_hold_automations():
    env = world("direct")
    rule = {"delay_seconds": 60, "actions": [{"did": "1001", "locator": "turn_off"}]}
    assert ask(env, "answer", mode="execute", automations=[rule])[1]["changed"] == ("automation.1",)
    assert len(env.engine.home.advance(60)) == 1 and env.engine.home.read_value("1001", "state") == "off"


def test_the_whole_home_is_written_down_once():
    home = HomeSampler.sample_test()
    told = json.loads(json.dumps(serialise_home(home)))
    assert [d["did"] for d in told["devices"]] == [d.did for d in home.plan.devices]
    assert told["devices"][2]["state"] == home.state_of("1003") and set(told["products"]) == {
        d["spid"] for d in told["devices"]
    }
    assert {room["id"] for room in told["rooms"]} == set(home.plan.rooms_by_id)


def test_an_argument_called_name_reaches_its_tool_and_no_other():
    """An action's `name` is the tool's."""
    arguments = {"name": "desk lamp", "domain": ["light"]}
    assert action_arguments(tool_call_to_action("intent__HassTurnOn", arguments, takes_name=True)) == arguments
    assert action_arguments(tool_call_to_action("pyexec", arguments, takes_name=False)) == {"domain": ["light"]}
    assert not [name for name in TOOLSETS if name != "assist" for tool in TOOLSETS[name].tools if "name" in tool.parameters]
