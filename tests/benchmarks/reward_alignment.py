"""Does a recipe of RLVE reward what the benchmark scores? One agent of known quality plays both.

The agent is the scripted expert with a share of wrong messages. It plays held-out blueprints of each recipe within the
recipe's limits, with the scripted user in the place of an LLM, and every n-th task of SmartHome-Bench.

Invariant: the same seeds give the same table.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console
from rich.table import Table

from homerl.app.runs.recipe import load_recipe
from homerl.bench.runner import SuiteInstances
from homerl.bench.suites import read_suite, spread_evenly
from homerl.play.confidence_intervals import share_interval
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import add_step_rewards
from homerl.play.situation import BlueprintProtocol
from homerl.play.trajectory import Trajectory
from homerl.train.recipe import RLVERecipe
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

ROOT = Path(__file__).resolve().parents[2]
SUITE = "smarthome-bench"


def played(blueprint: BlueprintProtocol, limits: EpisodeLimits, mistakes: float) -> Trajectory:
    """The expert's episode, with a share of wrong messages."""
    expert = world_of(blueprint).expert(ExpertConfig(mistakes=mistakes), blueprint.seed)
    return asyncio.run(play(begin_episode(blueprint, limits), expert, ScriptedUser(blueprint.seed), blueprint.seed))


def by_recipe(recipe: RLVERecipe, mistakes: float, count: int) -> tuple[list[bool], list[float]]:
    """Success and reward of each episode of a recipe."""
    made = (make_blueprint_of_seed(recipe.blueprints.recipe, "heldout", seed) for seed in range(count))
    found = [add_step_rewards(played(blueprint, recipe.limits, mistakes), recipe.rewards) for blueprint in made]
    return [one.success for one in found], [sum(sum(step.values()) for step in one.rewards) for one in found]


def by_benchmark(mistakes: float, count: int) -> list[bool]:
    """Success on every n-th task of the benchmark."""
    tasks = SuiteInstances(spread_evenly(read_suite(SUITE), count), "eia", 1)
    return [played(tasks[i].blueprint, tasks[i].limits, mistakes).success for i in range(len(tasks))]


def rows(names: Sequence[str], mistakes: Sequence[float], count: int) -> Iterator[tuple[str, ...]]:
    """A line for each share of mistakes: success with its interval, and reward, of each recipe and of the benchmark."""
    recipes = [load_recipe(ROOT / f"recipes/{name}.yaml") for name in names]
    for share in mistakes:
        cells = []
        for recipe in recipes:
            success, rewards = by_recipe(recipe, share, count)
            cells.append(f"{interval(success)}, {fmean(rewards):.2f}")
        yield (f"{100 * share:g} %", *cells, interval(by_benchmark(share, count)))


def interval(success: Sequence[bool]) -> str:
    """A share in percent with its 95 % interval."""
    low, high = share_interval(np.array(success, dtype=float))
    return f"{100 * fmean(success):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipes", nargs="+", default=["rlve_full", "rlve_aligned"])
    parser.add_argument("--mistakes", type=float, nargs="+", default=[0, 0.03, 0.1, 0.25, 0.5])
    parser.add_argument("--count", type=int, default=300)
    asked = parser.parse_args()
    table = Table("mistakes", *(f"{name}: success %, reward" for name in asked.recipes), f"{SUITE} %")
    for row in rows(asked.recipes, asked.mistakes, asked.count):
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
