"""SimuHome under Gymnasium's checker and ours; tools, refusals and the text form."""

from __future__ import annotations

import json
import random
import warnings

import gymnasium as gym
import pytest
from crossed import crossed
from gymnasium.utils.env_checker import check_env

from homerl.envs.core.world import check_world
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.tasks import react_agent as react
from tests.envs.simuhome.conftest import BASE_TIME, some_samples

KINDS = ("air_conditioner", "dimmable_light", "dishwasher", "rvc", "tv", "window_covering_controller", "humidifier")
HOME = {
    "base_time": BASE_TIME,
    "rooms": {
        room: {"devices": [{"device_id": f"{room}_{kind}_1", "device_type": kind} for kind in KINDS]}
        for room in ("kitchen", "bathroom")
    },
}
EPISODE = {
    "meta": {"query_type": "qt3", "case": "feasible"},
    "query": "Turn the kitchen light on.",
    "user_location": "kitchen",
    "eval": {
        "required_actions": [{"tool": "get_room_devices", "params": {"room_id": "kitchen"}}],
        "goals": [{"device_id": "kitchen_dimmable_light_1", "asserts": [{"attribute": "1.OnOff.OnOff", "value": True}]}],
    },
    "initial_home_config": HOME,
}
PLACE = {"device_id": "kitchen_dimmable_light_1", "endpoint_id": 1, "cluster_id": "OnOff"}
TURN_ON = {"name": "execute_command", **PLACE, "command_id": "On", "args": {}}
LOOK = {"name": "get_room_devices", "room_id": "kitchen"}
each_mode = pytest.mark.parametrize("strict", [True, False])


def lively_calls(env, count, seed=0):
    """Well-formed calls, most of them about rooms, devices, clusters and commands that exist."""
    rng, plan = random.Random(seed), env.state.home.plan
    env.action_space.seed(seed)
    for number in range(count):
        call = env.action_space.sample()
        device = rng.choice(list(plan.devices.values()))
        endpoint, cluster = rng.choice(device.type.cluster_places)
        real = {
            "device_id": f"new_{number}" if call["name"] == "add_device" else device.id,
            "room_id": rng.choice(list(plan.rooms)),
            "endpoint_id": endpoint,
            "cluster_id": cluster.name,
            "attribute_id": rng.choice(list(cluster.attributes)),
            "command_id": rng.choice(list(cluster.commands) or ["On"]),
            "device_type": device.type.name,
            "tick_interval": 0.1,
            "start_time": "2025-08-23 11:00:00",
            "value": rng.choice([True, 1, 50, 2400, None]),
        }
        yield {key: real[key] if key in real and rng.random() < 0.95 else value for key, value in call.items()}


@each_mode
@pytest.mark.parametrize("toolset", tools.TOOLSETS)
def test_gymnasiums_checker_finds_nothing(strict, toolset):
    env = gym.make("homerl.envs.simuhome.sim:SimuHome-v0", episode=EPISODE, strict=strict, toolset=toolset)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the checker warns of what it does not refuse
        check_env(env)


@each_mode
@crossed(ticks=[0, 7], world=[EPISODE, HOME])
def test_our_checker_finds_nothing(strict, ticks, world):
    env = SimuHome(world, strict, ticks_per_step=ticks)
    calls = [LOOK, TURN_ON, *lively_calls(env, 300)]
    check_world(env, calls)
    assert {call["name"] for call in calls} == set(tools.TOOLS), "each tool was called"


@each_mode
def test_refused_calls_change_nothing_and_some_are_accepted(strict):
    env, outcomes = SimuHome(HOME, strict), {True: 0, False: 0}
    for call in lively_calls(env, 400, seed=3):
        key = env.state_key()
        info = env.step(call)[4]
        outcomes[info["blocked"] is None] += 1
        assert info["blocked"] is None or env.state_key() == key
    assert min(outcomes.values()) > 40


def test_an_episode_is_done_step_by_step():
    env = SimuHome(EPISODE)
    assert env.reset(seed=0)[0] == "Turn the kitchen light on."
    _, gain, ended, _, info = env.step(LOOK)
    assert (gain, ended, info["progress"], info["changed"]) == (0.5, False, 0.5, ("required.0",))
    _, gain, *_, info = env.step(TURN_ON)
    assert (gain, info["progress"]) == (0.5, 1.0)
    text, gain, ended, *_ = env.step({"name": "finish", "answer": "Done."})
    assert (gain, ended) == (0.0, True) and json.loads(text)["data"] is None
    env.reset()
    assert env.step(TURN_ON)[1] == 0.5


def test_refusals_have_the_service_s_shape():
    home = load.start_home(HOME)
    url = "http://127.0.0.1:8000/api/devices/nobody/attributes"
    refused = tools.call_tool(home, "get_all_attributes", {"device_id": "nobody"})
    assert refused == {
        "status": {"code": 400, "message": "HTTP_ERROR"},
        "data": None,
        "error": {"type": "HTTP_ERROR", "detail": f"404: 404 Client Error: Not Found for url: {url}"},
    }
    detail = tools.call_tool(load.start_home(HOME, strict=False), "get_all_attributes", {"device_id": "nobody"})["error"]
    assert detail == {"type": "DEVICE_NOT_FOUND", "detail": "there is no device 'nobody'"}
    missing = tools.call_tool(home, "execute_command", {"device_id": "x", "endpoint_id": 1})["error"]
    assert missing == {"type": "MISSING_PARAMETERS", "detail": "Missing required arguments: cluster_id, command_id, args"}
    foreign = tools.call_tool(home, "get_room_devices", {"room_id": "kitchen", "x": 1})["error"]
    assert foreign == {"type": "INVALID_PARAMETERS", "detail": "Invalid parameters: x. Allowed: room_id"}
    assert tools.call_tool(home, "get_rooms", {"x": 1})["error"] is None
    assert tools.call_tool(home, "get_device_structure", {}) == {"error": "'device_id'"}
    rules = tools.call_tool(home, "get_environment_control_rules", {"state": "pm10"})["error"]["detail"]
    assert rules.endswith("/environment/control_rules/pm10?state=pm10")
    for endpoint, status in (("1", 200), (1.0, 200), (1.5, 422), ("x", 422)):
        result = tools.call_tool(home, "execute_command", {**PLACE, "endpoint_id": endpoint, "command_id": "On", "args": {}})
        assert (200 if result["error"] is None else int(result["error"]["detail"][:3])) == status


def test_a_structure_shows_what_a_value_is_by_its_history():
    """Strict: built-in and computed values are members of enumerations, loaded and written ones plain."""
    given = {"device_id": "fan", "device_type": "fan", "attributes": {"1.FanControl.FanMode": 0, "1.OnOff.OnOff": True}}
    home = load.start_home({"base_time": BASE_TIME, "rooms": {"room": {"devices": [given]}}})

    def fan(attribute):
        endpoints = tools.call_tool(home, "get_device_structure", {"device_id": "fan"})["data"]["endpoints"]
        return endpoints["1"]["clusters"]["FanControl"]["attributes"][attribute]

    assert fan("FanMode") == {"value": 0, "type": "int", "readonly": False}
    assert fan("FanModeSequence")["value"] == "OFF_LOW_MED_HIGH"
    write = {"device_id": "fan", "endpoint_id": 1, "cluster_id": "FanControl", "attribute_id": "PercentSetting", "value": 40}
    tools.call_tool(home, "write_attribute", write)
    assert (fan("FanMode")["value"], fan("FanMode")["enum_name"], fan("FanMode")["enum_values"]["HIGH"]) == (
        "MEDIUM",
        "FanMode",
        3,
    )
    assert tools.call_tool(home, "get_all_attributes", {"device_id": "fan"})["data"]["1.FanControl.FanMode"] == 2


def test_devices_come_and_go():
    home = load.start_home(HOME)
    assert tools.call_tool(home, "add_device", {"room_id": "attic", "device_type": "fan", "device_id": "f"})["error"] is None
    assert tools.call_tool(home, "get_room_states", {"room_id": "attic"})["data"]["temperature"] == 2500.0
    assert (
        "409"
        in tools.call_tool(home, "add_device", {"room_id": "attic", "device_type": "fan", "device_id": "f"})["error"][
            "detail"
        ]
    )
    assert tools.call_tool(home, "remove_device", {"device_id": "f"})["data"] == {"device_id": "f"}
    assert tools.call_tool(home, "get_room_devices", {"room_id": "attic"})["data"] == {}


def test_documents_are_found_by_meaningful_words():
    home = load.start_home(HOME)
    for query, cluster in (
        ("dim a light to level 50", "LevelControl"),
        ("thermostat cooling setpoint", "Thermostat"),
        ("countdown time of the dishwasher programme", "OperationalState"),
        ("WindowCovering", "WindowCovering"),
        ("spin speed rinses", "LaundryWasherControls"),
    ):
        text = tools.call_tool(home, "get_cluster_doc", {"query": query, "top_k": 2})["data"]["text"]
        assert f"{cluster} cluster." in text and text.isascii(), query
    assert tools.call_tool(home, "get_cluster_doc", {"query": "zzzz", "top_k": 2})["data"] == {"text": ""}
    wrong = tools.call_tool(home, "get_cluster_doc", {"query": 5, "top_k": 2})
    assert (wrong["status"]["code"], wrong["error"]["type"]) == (500, "INTERNAL_ERROR")


STEP = '{"thought": "t", "action": "Finish", "action_input": "{\\"answer\\": \\"a\\"}"}'


def test_the_text_form_is_read():
    step = react.parse_step(STEP)
    assert (step.tool_name, step.arguments) == ("finish", {"answer": "a"})
    assert react.parse_step(f"Well:\n```json\n{STEP}\n```\nso") == react.parse_step(STEP)
    step = react.parse_step('{"thought": "", "action": "get_rooms", "action_input": ""}')
    assert (step.tool_name, step.arguments) == ("get_rooms", {})
    assert react.parse_step('{"thought": "", "action": "get_rooms", "action_input": {"a": 1}}').arguments == {"a": 1}
    braces = '{"thought": "a } b", "action": "get_rooms", "action_input": "{}"}'
    assert react.parse_step(braces) is None and react.parse_step(braces, strict=False).thought == "a } b"
    for wrong in ("", "{", "no", '{"thought": 1}', '{"thought": "", "action": "x", "action_input": "[1]"}', "[" * 10000):
        assert react.parse_step(wrong) is None and react.parse_step(wrong, strict=False) is None
    assert react.observation_text({"a": 1}) == 'observation: {"a": 1}'
    system = react.system_text(SimuHome(HOME).tools, "Be kind.")
    assert system.startswith("Be kind.") and all(f"| {name} |" in system for name in tools.TOOLS)


def test_a_dialogue_of_calls_is_put_into_text():
    call = {"type": "function", "function": {"name": "get_rooms", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "Be kind.\nLook.\n\nUser location: kitchen\nCurrent time: noon"},
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": "first look", "tool_calls": [call]},
        {"role": "tool", "content": '{"status": 1}'},
        {"role": "assistant", "content": "no step"},
        {"role": "tool", "content": "refused: syntax: no step"},
    ]
    system, task, look, seen, slip, told = react.text_dialogue(messages, SimuHome(HOME).tools)
    assert system["content"].startswith("Be kind.\nLook.\n\n") and "kitchen" not in system["content"]
    assert "How warm is it?\nUser location: kitchen\nCurrent time: noon\n" in task["content"]
    assert react.parse_step(look["content"]) == react.ReActStep("first look", "get_rooms", {})
    assert seen == {"role": "user", "content": 'observation: {"status": 1}'}
    assert slip["content"] == "no step" and told["content"] == f"observation: {json.dumps(react.INVALID)}"


@some_samples
def test_samples_are_worlds(path):
    episode = json.loads(path.read_text())
    env = SimuHome(episode)
    check_world(env, lively_calls(env, 40))
    env.reset()
    state = tools.call_tool(env.state.home, "get_home_state", {})["data"]
    for name, room in episode["initial_home_config"]["rooms"].items():
        assert state["rooms"][name]["state"].keys() == room["state"].keys()
        for given, shown in zip(room["devices"], state["rooms"][name].get("devices", [])):
            assert given["device_id"] == shown["device_id"] and given["attributes"].keys() == shown["attributes"].keys()
