"""One agent for every world beside one for each: what is gained and what is lost, by world, at the same budget.

`all` is the recipe's flywheel on its mixture. Each of the others is the same flywheel with the blueprints of one part alone:
as many of them, as many updates, as many rollouts. Every model is scored on the suites of all parts.

Invariants: the runs differ in their blueprints alone; a difference is paired by the tasks of a suite; what stands is not
made again.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from homerl.app.runs.flywheel import run_flywheel
from homerl.app.runs.recipe import FlywheelRecipe, load_recipe, recipe_data
from homerl.bench.scores import paired_difference, score_results
from homerl.envs.core.documents import InputError, write_atomic
from homerl.report.pages.compare_runs import read_model_results

ALL = "all"


def flywheels(recipe: FlywheelRecipe, out: Path) -> Iterator[tuple[str, FlywheelRecipe]]:
    """The flywheel of all parts, then that of each. Raises `InputError` if the recipe mixes no worlds."""
    data = recipe_data(recipe)
    if "worlds" not in data["synth"]["recipe"]:
        raise InputError("its synthesis has one world", "synth.recipe", "name a recipe with `worlds`")
    for name in (ALL, *data["synth"]["recipe"]["worlds"]):
        made = data if name == ALL else alone(data, name)
        yield name, FlywheelRecipe.model_validate(made | {"out": str(out / name)})


def alone(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The recipe with the blueprints of one part."""
    made = copy.deepcopy(dict(data))
    for section in ("synth", "blueprints"):
        made[section]["recipe"] = made[section]["recipe"]["worlds"][name]["recipe"]
    made["synth"]["curriculum"] = []
    made["rlve"]["curriculum"]["temperature"] = None
    return made


def by_world(out: Path, names: list[str], suites: list[str]) -> Table:
    """Success of every run's model on every suite, and how the agent of all worlds differs from each world's own."""
    columns = ("suite", *names, "all, SFT", "all − own (95 %)")
    table = Table(*columns, title="success after RLVE in %", box=SIMPLE, padding=(0, 1, 0, 0))
    for suite in suites:
        results = {name: read_model_results(out / name, "rlve", suite) for name in names}
        shares = [
            100 * score_results(rows)["success"] for rows in (*results.values(), read_model_results(out / ALL, "sft", suite))
        ]
        gap = lost(results[suite], results[ALL]) if suite in results else ""
        table.add_row(suite, *(f"{share:.1f}" for share in shares), gap)
    return table


def lost(own: Sequence[Mapping[str, Any]], mixed: Sequence[Mapping[str, Any]]) -> str:
    """The success of the agent of all worlds less that of the world's own, in points with its interval."""
    gap = paired_difference(own, mixed)
    low, high = (100 * bound for bound in gap["interval"])
    return f"{100 * gap['gain']:+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/one_agent_study"))
    parser.add_argument("--recipe", default="recipes/one_agent.yaml")
    asked, overrides = parser.parse_known_args()
    recipe = load_recipe(asked.recipe, overrides)
    runs = dict(flywheels(recipe, asked.out))
    for made in runs.values():
        write_atomic(made.out / "recipe.yaml", yaml.safe_dump(recipe_data(made), sort_keys=False))
        run_flywheel(made)
    Console().print(by_world(asked.out, [*runs], [suite.name for suite in recipe.bench.suites]))


if __name__ == "__main__":
    main()
