"""Speed, measured and never asserted. Run with: scripts/benchmark

Each figure of docs/results/speed.md under "Operations" comes from here. In the default tests every benchmark runs once, so
that it keeps working.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from tree_search import search_tree

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, WeatherChange
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.models.policy.policy_agent import Sample
from homerl.play.episode import EpisodeLimits
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.tiny_model import make_tokenizer
from homerl.worlds.users import ScriptedUser

SIZES = (6, *(pytest.param(size, marks=pytest.mark.long) for size in (35, 135)))


def home_of(devices: int) -> Home:
    return make_home(devices, HomeRecipe(devices=(devices, devices)))


def switchable(home: Home) -> str:
    return next(d.did for d in home.plan.devices if {"turn_on", "turn_off"} <= set(d.spec.service_index))


@pytest.mark.parametrize("devices", SIZES)
def test_structured_steps(benchmark, devices: int) -> None:
    """Validated, audited service calls with the state key kept up to date and progress read after each."""
    home = home_of(devices)
    did = switchable(home)
    env = HomeEnv(home, (f'device("{did}").state == "on"',))
    calls = ("turn_on", "turn_off") * 500

    def run() -> None:
        home, board = env.engine.home, env.engine.task
        for service in calls:
            home.call(did, service)
            board.progress  # noqa: B018

    benchmark.extra_info["operations"] = len(calls)
    benchmark(run)


def test_pyexec_steps(benchmark) -> None:
    """Three-call snippets in the sandbox, through the whole environment."""
    home = home_of(6)
    did = switchable(home)
    env = HomeEnv(home)
    code = f'device("{did}").turn_on()\ndevice("{did}").turn_off()\nprint(device("{did}").state)'

    def run() -> None:
        for _ in range(50):
            env.step({"name": "pyexec", "code": code})

    benchmark.extra_info["operations"] = 50
    benchmark(run)


@pytest.mark.parametrize("devices", SIZES)
def test_fork(benchmark, devices: int) -> None:
    benchmark(home_of(devices).fork)


@pytest.mark.parametrize("devices", SIZES)
def test_state_key(benchmark, devices: int) -> None:
    benchmark(home_of(devices).state_key)


def test_conditions(benchmark) -> None:
    """A condition with three comparisons on a home of 135 devices."""
    home = home_of(135)
    did = switchable(home)
    text = f'device("{did}").state == "on" and room("{home.plan.rooms[0].name}").temperature > 5 and home.humidity <= 100'
    home.call(did, "turn_on")
    condition = compile_condition(text, home.plan)

    def run() -> None:
        for _ in range(1000):
            condition.holds_in(home)

    benchmark.extra_info["operations"] = 1000
    benchmark(run)


@pytest.mark.parametrize("devices", SIZES)
def test_homes(benchmark, devices: int) -> None:
    seeds = iter(range(10**9))
    recipe = HomeRecipe(devices=(devices, devices))
    make_home(0, recipe)
    benchmark(lambda: make_home(next(seeds), recipe))


@pytest.mark.parametrize(("scale", "homes"), [("simple", 5000), ("medium", 1000), ("complex", 200)])
def test_scales(benchmark, scale: str, homes: int) -> None:
    """Homes of the benchmarks' three scales, as many as it takes for most years of weather to have been seen."""
    seeds = iter(range(10**9))
    recipe = HomeRecipe(scale=scale)
    make_home(0, recipe)
    benchmark.pedantic(lambda: make_home(next(seeds), recipe), rounds=homes)


def test_verified_trajectories(benchmark) -> None:
    """Author, filters and MCTS-Flow for one blueprint: homes of 2 to 6 devices, k_agent 3, 5 rollouts."""
    seeds = iter(range(10**9))
    recipe = BlueprintRecipe()
    found: list[int] = []

    def run() -> None:
        seed = next(seeds)
        blueprint = make_home_blueprint(recipe, "train", seed)
        trajectories, _ = asyncio.run(search_tree(blueprint, Expert(seed, 0.25), [ScriptedUser(seed)]))
        found.append(len(trajectories))

    benchmark(run)
    benchmark.extra_info["operations"] = sum(found) / len(found)
    assert sum(found) > 0 or len(found) < 5


def test_a_day_with_automations(benchmark) -> None:
    """A day of hourly weather in a home of 135 devices with 20 automations: times, thresholds, what rules do."""
    home, rng = home_of(135), random.Random(0)
    first = (home.clock // 3600 + 1) * 3600
    skies = [Outdoors(rng.randint(0, 30) / 1.0, 60.0, 2000.0 * rng.randint(0, 30)) for _ in range(24)]
    forecast = tuple(WeatherChange(first + 3600 * hour, sky) for hour, sky in enumerate(skies))
    home = Home(replace(home.plan, forecast=forecast), home.values, home.clock)
    switches = [d.did for d in home.plan.devices if {"turn_on", "turn_off"} <= set(d.spec.service_index)]
    for number in range(20):
        room = rng.choice(home.plan.rooms).name
        condition = (f'room("{room}").temperature > {rng.randint(20, 26)}', f"time_cron = 0 {number} */6 * * ? *")[
            number % 2
        ]
        action = {"did": rng.choice(switches), "locator": rng.choice(("turn_on", "turn_off"))}
        home.rules = (*home.rules, make_rule(home, [condition], [action]))
    benchmark(lambda: home.fork().advance(86400))


class Phrases:
    """A sampler that says one call, then words, in turns."""

    def __init__(self, tokenizer) -> None:
        call = pyexec_message("print(1)")["tool_calls"][0]["function"]
        texts = f'<tool_call>\n{{"name": "pyexec", "arguments": {call["arguments"]}}}\n</tool_call>', "I am looking at it."
        self.said = [(*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id) for text in texts]
        self.head = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)[0]

    async def sample(self, prompt) -> Sample:
        said = self.said[(list(prompt).count(self.head) - 1) % 2]
        return Sample(said, (-1.0,) * len(said))


@pytest.mark.parametrize("devices", SIZES)
def test_a_group_of_rollouts(benchmark, devices: int) -> None:
    """Eight rollouts of one blueprint, of six steps each, with a sampler and a user that take no time."""
    tokenizer = make_tokenizer(["words of all kinds"], [])
    recipe = BlueprintRecipe.model_validate({"home": {"devices": (devices, devices)}})
    blueprint, seeds = make_home_blueprint(recipe, "train", 0), list(range(8))
    limits = EpisodeLimits(turns=3, steps=99)
    player = RolloutPlayer(Phrases(tokenizer), tokenizer, ScriptedUser, limits, RewardWeights(), 1 << 20)
    assert [len(rollout.trajectory.steps) for rollout in player.play_blueprints([blueprint] * 8, seeds)] == [6] * 8
    benchmark.extra_info["operations"] = 8
    benchmark(lambda: player.play_blueprints([blueprint] * 8, seeds))
