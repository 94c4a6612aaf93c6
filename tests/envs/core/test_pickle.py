"""Homes and environments are pickled for workers of Ray, joblib and Gymnasium: small, exact, and alike ever after."""

import copy
import functools
import json
import multiprocessing
import pickle
import random

import draws
import gymnasium as gym
import pytest
from draws import LIVED, RANDOM, RULED, do, few, home_at, some_action, some_deed, whole
from hypothesis import given
from hypothesis import strategies as st
from scene_household import scene_household

from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home_file import home_to_json
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.personalhome.sim.env import PersonalHome
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.simuhome.sim.env import SimuHome

LAMP = {"device_type": "dimmable_light", "device_id": "lamp_1", "attributes": {}}
HOME = {"tick_interval": 0.1, "base_time": "2025-08-23 13:00:00", "rooms": {"hall": {"devices": [LAMP]}}}
DIM = {
    "name": "execute_command",
    "device_id": "lamp_1",
    "endpoint_id": 1,
    "cluster_id": "LevelControl",
    "command_id": "MoveToLevelWithOnOff",
    "args": {"Level": 80, "TransitionTime": 30, "OptionsMask": 0, "OptionsOverride": 0},
}


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@few(20)
@given(st.one_of(LIVED, RULED), RANDOM)
def test_a_pickled_home_and_its_forks_behave_alike_ever_after(home, rng):
    pairs = [(home, again(home))]
    assert whole(home) == whole(pairs[0][1]) and not home.diff(pairs[0][1])
    for _ in range(8):
        here, there = rng.choice(pairs)
        deed = some_deed(here, rng)
        assert do(here, deed) == do(there, deed) and here.state_key() == there.state_key()
        pairs.append((here.fork(), rng.choice((there.fork(), again(there), copy.deepcopy(there)))))
    assert all(here.state_key() == there.state_key() and whole(here) == whole(there) for here, there in pairs)


@few(15)
@given(LIVED, RANDOM, st.sampled_from(sorted(TOOLSETS)))
def test_a_pickled_environment_behaves_alike_ever_after(home, rng, toolset):
    env = HomeEnv(home, ("home.temperature > 15", "home.humidity < 40"), toolset)
    env.action_space.seed(rng.randrange(9))
    twin = again(env)
    assert twin.tools == env.tools and twin.tools_with_name == env.tools_with_name
    for _ in range(8):
        action = env.action_space.sample()
        assert action == twin.action_space.sample()
        action = some_action(env.engine.home, rng) if toolset == "smh" else action
        assert env.step(action) == twin.step(action) and env.state_key() == twin.state_key()
        twin = rng.choice((twin, again(twin), again(twin).fork(), copy.deepcopy(twin)))
    assert env.reset() == twin.reset() and env.state_key() == twin.state_key()


def worlds():
    """One world of each kind, and actions in it."""
    room = HomeSampler.sample_test().plan.rooms[0].id
    steps = [{"name": "pyexec", "code": 'device("1001").set_brightness(80)'}, {"name": "query_status", "room": room}]
    bright = ('device("1001").brightness > 60',)
    yield gym.make("HomeEnv-v0", home=HomeSampler.sample_test(), conditions=bright).unwrapped, steps
    yield SimuHome(HOME, ticks_per_step=50), [DIM, {"name": "get_all_attributes", "device_id": "lamp_1"}]
    yield PersonalHome(HouseholdState(scene_household(3))), [{"name": "get_weather"}, {"name": "get_owned_sensors"}]


def lived_on(world, actions):
    return [(world.step(action), world.state_key()) for action in actions]


def test_a_spawned_process_goes_on_where_this_one_stopped():
    cases = [(world, steps) for world, steps in worlds()]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        theirs = pool.starmap(lived_on, cases)
        assert pool.map(again, [world for world, _ in cases])[0].state_key() == cases[0][0].state_key()
    assert theirs == [lived_on(world, steps) for world, steps in cases]


def test_gymnasium_steps_homes_in_spawned_processes():
    homes = [HomeSampler.sample_test(), make_home(3, HomeRecipe(devices=(35, 35)))]
    actions = tuple({"name": "query_status", "room": home.plan.rooms[0].name} for home in homes)
    makers = [functools.partial(HomeEnv, home) for home in homes]
    vector = gym.vector.AsyncVectorEnv(makers, shared_memory=False, context="spawn")
    try:
        vector.reset(seed=0)
        assert list(vector.step(actions)[0]) == [HomeEnv(home).step(action)[0] for home, action in zip(homes, actions)]
    finally:
        vector.close()


def test_a_copy_of_a_world_has_its_key_before_and_after_a_step():
    for world, steps in worlds():
        for twin in (again(world), copy.deepcopy(world)):
            assert twin.state_key() == world.state_key() and lived_on(twin, steps) == lived_on(world.fork(), steps)


@pytest.mark.parametrize("devices", [35, 135])
def test_a_pickle_is_smaller_than_a_home_file_and_its_products_compile_once(devices):
    home = make_home(3, HomeRecipe(devices=(devices, devices)))
    assert home.plan.time_wiring and home.plan.compiled_services  # what is worked out does not travel
    assert len(pickle.dumps(home)) < len(json.dumps(home_to_json(home, whole=True)))
    assert len(pickle.dumps([home, *(home.fork() for _ in range(9))])) < 2 * len(pickle.dumps(home)), "forks share the plan"
    first, second = again(home), again(home.fork())
    assert first.plan is second.plan and first.plan is not home.plan and copy.deepcopy(home).plan is home.plan
    other = again(make_home(4, HomeRecipe(devices=(devices, devices))))
    mine = {device.spec.spid: device.spec for device in first.plan.devices}
    shared = [device.spec for device in other.plan.devices if device.spec.spid in mine]
    assert shared and all(spec is mine[spec.spid] for spec in shared)


def test_a_home_of_own_products_with_every_type_of_value_is_pickled():
    for seed in range(5):
        home = draws.lived(draws.own_home(seed), random.Random(seed), 8)
        assert [d.spec for d in again(home).plan.devices] == [d.spec for d in home.plan.devices]
        assert again(home).state_key() == home.state_key() != home_at(seed).state_key()
