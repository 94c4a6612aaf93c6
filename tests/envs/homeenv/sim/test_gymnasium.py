"""HomeEnv under Gymnasium's own checker and ours, on homes of every size and with every toolset."""

import copy
import random
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from homerl.envs.core.spaces import AnyText, ToolCalls
from homerl.envs.core.world import check_world
from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.toolsets import TOOLSETS

HOMES = {
    "small": HomeSampler.sample_test(),
    "medium": make_home(3, HomeRecipe(devices=(35, 35))),
    "large": make_home(4, HomeRecipe(devices=(135, 135))),
}
each_home = pytest.mark.parametrize("home", HOMES.values(), ids=HOMES)
each_toolset = pytest.mark.parametrize("toolset", TOOLSETS)


def some_condition(home):
    """One that does not hold at first, about some device that can be switched on."""
    off = (d.did for d in home.plan.devices if home.state_of(d.did).get("state") == "off")
    return f"device('{next(off)}').state == 'on'"


def lively_calls(env, count, seed=0):
    """Well-formed calls, most of them about devices and rooms that the home has."""
    rng, home = random.Random(seed), env.engine.home
    env.action_space.seed(seed)
    dids = [d.did for d in home.plan.devices]
    code = [
        f"device('{path[0]}').{path[1]}()"
        for path in home.plan.compiled_services
        if path[1].endswith(("turn_on", "turn_off"))
    ]
    real = {"did": dids, "room": list(home.plan.rooms_by_id), "code": code}
    for _ in range(count):
        call = env.action_space.sample()
        yield {key: rng.choice(real[key]) if key in real and rng.random() < 0.9 else value for key, value in call.items()}


@each_home
@each_toolset
def test_gymnasiums_checker_finds_nothing(home, toolset):
    env = gym.make("HomeEnv-v0", home=home, conditions=(some_condition(home),), toolset=toolset)
    assert len(env.engine.home.plan.devices) == len(home.plan.devices)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the checker warns of what it does not refuse
        check_env(env)


@each_home
@each_toolset
def test_our_checker_finds_nothing_on_well_formed_calls(home, toolset):
    env = HomeEnv(home, (some_condition(home),), toolset)
    calls = list(lively_calls(env, max(25, 8 * len(env.tools))))
    check_world(env, calls)
    assert {call["name"] for call in calls} == set(env.action_space.parameters), "each tool was called"


@each_home
@each_toolset
def test_spaces_contain_what_happens(home, toolset):
    env = HomeEnv(home, toolset=toolset)
    seen = []
    for call in lively_calls(env, 25, seed=1):
        assert call in env.action_space
        seen.append(env.step(call))
        assert seen[-1][0] in env.observation_space
    assert any(info["blocked"] is None for *_, info in seen) and any(len(text) > 2 for text, *_ in seen)


@each_home
def test_a_reset_begins_again_whatever_was_done(home):
    env = HomeEnv(home, (some_condition(home),))
    key, calls = env.state_key(), list(lively_calls(env, 40, seed=2))
    lives = []
    for seed in (5, 5, None):
        assert env.reset(seed=seed) == ("", {"progress": 0.0, "blocked": None, "error": None, "changed": ()})
        assert env.state_key() == key
        lives.append([env.step(call) for call in calls] + [env.state_key()])
    assert lives[0] == lives[1] == lives[2] and lives[0][-1] != key


def test_what_agents_print_is_an_observation_in_any_script_and_length():
    env = HomeEnv(HomeSampler.sample_test())
    for code, said in (("print('Küche 厨房 🏠')", "Küche 厨房 🏠"), ("print('x' * 3999)", "x" * 3999)):
        assert (observation := env.step({"name": "pyexec", "code": code})[0]) == said
        assert observation in env.observation_space
    for length, rule in ((90_000, "unknown_tool"), (100_000, "size_limit")):
        long = env.step({"name": "x" * length})[0]
        assert long.startswith(f"refused: {rule}") and len(long) < 300


def test_homes_run_side_by_side_in_a_vector():
    homes = (HOMES["small"], HOMES["medium"])
    vector = gym.vector.SyncVectorEnv([lambda home=home: HomeEnv(home) for home in homes])
    vector.reset(seed=0)
    rooms = [home.plan.rooms[0].name for home in homes]
    observations, rewards, *_ = vector.step(tuple({"name": "query_status", "room": room} for room in rooms))
    alone = [HomeEnv(home).step({"name": "query_status", "room": room})[0] for home, room in zip(homes, rooms)]
    assert list(observations) == alone and rewards.tolist() == [0.0, 0.0]


TOOL = {
    "type": "function",
    "function": {
        "name": "set",
        "description": "Set things.",
        "parameters": {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["a", "b"]},
                "level": {"type": "integer"},
                "share": {"type": "number"},
                "loud": {"type": "boolean"},
                "dids": {"type": "array", "items": {"type": "string"}},
                "more": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
            },
            "required": ["mode", "dids"],
        },
    },
}
GOOD = {"name": "set", "mode": "a", "dids": ["1"], "level": 3, "share": 0.5, "loud": True, "more": {"x": 1}}


def test_a_call_is_in_the_space_if_it_fits_the_schema():
    space = ToolCalls([TOOL])
    assert GOOD in space and {"name": "set", "mode": "b", "dids": []} in space
    wrong = [
        None, "set", {}, {"name": 5}, {"name": ["set"]}, {"name": "get", "mode": "a", "dids": []},
        {"name": "set", "mode": "a"},
        *(GOOD | change for change in (
            {"mode": "c"}, {"mode": None}, {"dids": "1"}, {"dids": [1]}, {"level": 0.5}, {"level": True}, {"share": "1"},
            {"loud": 1}, {"more": {}}, {"more": {"x": "1"}}, {"more": []}, {"colour": "red"},
        )),
    ]  # fmt: skip
    assert [call for call in wrong if call in space] == []


def test_samples_are_in_their_space_and_follow_the_seed():
    toolsets = [[TOOL], *([tool.function_schema() for tool in toolset.tools] for toolset in TOOLSETS.values())]
    for space in (*map(ToolCalls, toolsets), AnyText()):
        space.seed(7)
        drawn = [space.sample() for _ in range(50)]
        space.seed(7)
        assert drawn == [space.sample() for _ in range(50)] and all(sample in space for sample in drawn)
        assert len({str(sample) for sample in drawn}) > 40 and copy.deepcopy(space) == space
