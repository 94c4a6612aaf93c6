"""RLVE of a finished flywheel, repeated from its SFT model with other seeds: is its gain more than chance?

Invariants: the runs share homes, dialogues, SFT model and suites; seeds, rollouts and training tasks differ; the flywheel's
own run is one of them; what stands is not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from envs.documents import InputError
from homerl.bench.score import paired_difference
from homerl.bench.seeds import read_results, seeds_table, suites_of
from homerl.run.children import run_stage
from homerl.run.flywheel import launcher, stages
from homerl.run.products import is_done, require_product
from homerl.run.recipe import FlywheelRecipe, load_recipe, recipe_data
from homerl.terminal.endings import run_to_end

SHARED = ("untrained", "sft")
APART = 100_000  # first seeds of two runs' blueprints; no recipe has so many


def with_seed(recipe: FlywheelRecipe, run: Path, seed: int) -> FlywheelRecipe:
    """The flywheel with another seed and other training tasks, in a folder of its own beside the run's."""
    data = recipe_data(recipe)
    blueprints = data["blueprints"] | {"first_seed": data["blueprints"]["first_seed"] + seed * APART}
    out = run.parent / f"{run.name}-rlve" / str(seed)
    return FlywheelRecipe.model_validate(data | {"seed": seed, "blueprints": blueprints, "out": str(out)})


def make(recipe: FlywheelRecipe, run: Path) -> None:
    """Train by RLVE from the run's SFT model, and play the suites."""
    recipe.out.mkdir(parents=True, exist_ok=True)
    for name in SHARED:
        if not (recipe.out / name).exists():
            (recipe.out / name).symlink_to(run.resolve() / name)
    for stage, product in stages(recipe):
        if Path(stage["out"]).name == "rlve" and not is_done(stage, product):
            run_stage(stage, launcher(recipe, stage["run"]))
            require_product(stage, product)


def gain_by_task(runs: Sequence[Path], suite: str) -> str:
    """RLVE's mean gain over the runs, with the interval that other tasks may give."""
    after = [row for run in runs for row in read_results(run, "rlve", suite)]
    gain = paired_difference(read_results(runs[0], "sft", suite), after)
    low, high = (100 * bound for bound in gain["interval"])
    return f"RLVE − SFT of all runs: {100 * gain['gain']:+.1f}; over the {gain['n']} tasks {low:+.1f} to {high:+.1f}"


def work(run: Path, seeds: Sequence[int], processes: int | None) -> None:
    """Make the runs that are not made, then print a table of each suite. Raises `InputError` for an unfinished SFT."""
    if not (run / "sft/model").exists():
        raise InputError("this flywheel has no SFT model", str(run), "name the folder of a run that has got to RLVE")
    recipe = load_recipe(run / "recipe.yaml")
    if not isinstance(recipe, FlywheelRecipe):
        raise InputError(f"a run of `run: {recipe.run}`", str(run), "name the folder of a flywheel")
    made = [with_seed(recipe.model_copy(update={"processes": processes or recipe.processes}), run, seed) for seed in seeds]
    for one in made:
        make(one, run)
    runs, console = [run, *(one.out for one in made)], Console(markup=False)
    for suite in suites_of(run):
        console.print(seeds_table(runs, suite))
        console.print(gain_by_task(runs, suite), highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a flywheel's folder")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--processes", type=int, help="of each training; default: the recipe's")
    asked = parser.parse_args()
    return run_to_end(lambda: work(asked.run, asked.seeds, asked.processes))


if __name__ == "__main__":
    sys.exit(main())
