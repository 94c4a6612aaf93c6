"""No call that a model can write makes a world raise: each tool is tried by its own schema, and with its violations."""

import json
from functools import cache
from random import Random

import pytest
from draws import HALL, OWN, few, home_of
from hypothesis import given
from hypothesis import strategies as st
from schema_calls import calls, violations
from worst import real_values

from homerl.envs.core.spaces import ToolCalls
from homerl.envs.core.world import World, action_arguments, tool_call_to_action
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Entity
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Reply
from homerl.worlds.registry import begin_episode, known_worlds, make_blueprint_of_seed
from tests.envs.simuhome.test_world import EPISODE

PLACES = [*TOOLSETS, "released", "paper", pytest.param("mended", marks=pytest.mark.long), "household"]
PRODUCTS = ("100001", "100101", "100301", "100501", "100601", "100801", "101301")  # most tools of Assist fit one of them


@cache
def started(place: str) -> tuple[World, dict]:
    """A world, and values that mean something in it."""
    if place in TOOLSETS:
        specs = [*Entity.load(OWN), *(Catalogue.load_shipped()[spid] for spid in PRODUCTS)]
        home = home_of(specs, [HALL, Room("closet", "closet", "walk-in closet", parent="hall")], 1_750_000_000, Random(1))
        devices = home.plan.devices
        real = {
            "did": [d.did for d in devices],
            "room": [room.name for room in home.plan.rooms],
            "name": [d.name for d in devices],
            "area": [room.name for room in home.plan.rooms],
            "locator": sorted({path for d in devices for path in d.spec.service_index}),
            "code": [f"device('{d.did}').{path}(5)" for d in devices for path in d.spec.service_index],
            "conditions": [f'device("{d.did}").{path} == "on"' for d in devices for path in d.spec.attribute_index],
            "id": ["1", "2"],
        }
        return HomeEnv(home, toolset=place), real
    if place == "household":
        blueprint = make_blueprint_of_seed(known_worlds()["personalhome"].recipe(world="personalhome"), "train", 1)
        return begin_episode(blueprint).world, real_values(blueprint.model_dump(mode="json"))
    return SimuHome(EPISODE, place != "mended", "paper" if place == "paper" else "released"), real_values(EPISODE)


def take(world: World, call: dict) -> bool:
    """Take a call in a world, prove what holds of every one, and tell whether it was refused."""
    key = world.state_key()
    observation, reward, _, _, info = world.step(call)
    assert observation.encode() and isinstance(reward, float)
    parts = [part for part in (call.get("actions"), call.get("automations")) if isinstance(part, list)]
    several = call["name"] == "answer" and sum(map(len, parts)) > 1  # what came before the refusal stands, as in a snippet
    assert several or info["blocked"] is None or world.state_key() == key, "a refused call changed something"
    return info["blocked"] is not None


@pytest.mark.parametrize("place", PLACES)
def test_a_call_of_any_tool_gets_an_answer_or_a_refusal(place):
    world, real = started(place)
    seen = set()

    @few(40)
    @given(st.lists(calls(world.tools, real), min_size=1, max_size=3))
    def property_holds(made):
        twin = world.fork()
        seen.update(take(twin, call) for call in made)

    property_holds()
    assert seen == {True, False}


@pytest.mark.parametrize("place", PLACES)
def test_each_violation_of_each_tool_s_schema_gets_an_answer_or_a_refusal(place):
    world, _ = started(place)
    space = ToolCalls(world.tools, seed=1)
    bases = {call["name"]: action_arguments(call) for call in (space.sample() for _ in range(60 * len(world.tools)))}
    for function in (tool["function"] for tool in world.tools):
        for wrong in violations(function["parameters"], bases.get(function["name"], {})):
            action = tool_call_to_action(function["name"], wrong, "name" in function["parameters"]["properties"])
            take(world.fork(), action)


@cache
def episode_of(place: str) -> Episode:
    """An episode in which the user has spoken, without a limit that a few messages reach."""
    world = "simuhome" if place in ("released", "paper") else "personalhome" if place == "household" else "homeenv"
    told = {} if place == "household" else {"toolset": place}
    episode = begin_episode(
        make_blueprint_of_seed(known_worlds()[world].recipe(world=world, **told), "train", 1), EpisodeLimits(99, 99, 99)
    )
    episode.add_utterance("go on", 1)
    return episode


@pytest.mark.parametrize("place", [place for place in PLACES if isinstance(place, str)])
def test_no_message_of_calls_fails_a_situation(place):
    episode = episode_of(place)
    text = {"type": "object", "properties": {"text": {}}}
    odd = [{"function": {"name": name, "parameters": text}} for name in ("answer", "finish", "", "x")]

    @few(25)
    @given(st.lists(calls([*episode.world.tools, *odd], {}), max_size=3))
    def property_holds(made):
        told = [{"name": call["name"], "arguments": json.dumps(action_arguments(call))} for call in made]
        twin = episode.fork()
        twin.apply_reply(
            Reply({"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": f} for f in told]})
        )
        assert twin.fault is None

    property_holds()
