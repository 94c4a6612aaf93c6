"""RLVE of a finished flywheel, repeated from its SFT model with other seeds, or with other keys: is a gain more than chance?

Invariants: all runs share homes, dialogues, SFT model and suites; seeds, rollouts and training tasks differ. Runs with other
keys have the seeds and tasks of those without, so they are paired. What stands is not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType

from homerl.app.runs.flywheel import flywheel_stages, stage_command
from homerl.app.runs.recipe import FlywheelRecipe, load_recipe, recipe_data
from homerl.app.runs.resume import is_stage_done, require_stage_product
from homerl.app.runs.stages import run_stage
from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import InputError
from homerl.host.exit_codes import run_to_end
from homerl.play.confidence_intervals import student_interval
from homerl.report.pages.compare_runs import build_seeds_table, find_scored_suites, read_model_results

PLAIN = "rlve"
SHARED = ("untrained", "sft")
KEYS = ("--rlve.", "--rewards.", "--user.", "--limits.")  # of RLVE alone: synthesis and suites have their own
APART = 100_000  # first seeds of two runs' blueprints; no recipe has so many


def flywheel(run: Path, overrides: Sequence[str] = ()) -> FlywheelRecipe:
    """The recipe of a run that has got to RLVE, with other keys. Raises `InputError` for any other run, and other keys."""
    if not (run / "sft/model").exists():
        raise InputError("this flywheel has no SFT model", str(run), "name the folder of a run that has got to RLVE")
    if wrong := [word for word in overrides if word.startswith("--") and not word.startswith(KEYS)]:
        raise InputError(f"{wrong[0]} would change more than RLVE", remedy=f"give keys that begin with {', '.join(KEYS)}")
    recipe = load_recipe(run / "recipe.yaml", overrides)
    if not isinstance(recipe, FlywheelRecipe):
        raise InputError(f"a run of `run: {recipe.run}`", str(run), "name the folder of a flywheel")
    return recipe


def with_seed(recipe: FlywheelRecipe, run: Path, name: str, seed: int) -> FlywheelRecipe:
    """The flywheel with another seed and other training tasks. Seed 0 of the run's own keys is the run itself."""
    data = recipe_data(recipe)
    blueprints = data["blueprints"] | {"first_seed": data["blueprints"]["first_seed"] + seed * APART}
    out = run if (name, seed) == (PLAIN, 0) else run.parent / f"{run.name}-{name}" / str(seed)
    changed = {"seed": data["seed"] + seed, "blueprints": blueprints, "out": str(out)}
    return FlywheelRecipe.model_validate(data | changed)


def make(recipe: FlywheelRecipe, run: Path) -> Path:
    """Train by RLVE from the SFT model of `run`, and play the suites. Returns the folder, which `homerl seeds` can read."""
    if recipe.out != run:
        recipe.out.mkdir(parents=True, exist_ok=True)
        for name in SHARED:
            if not (recipe.out / name).exists():
                (recipe.out / name).symlink_to(run.resolve() / name)
        for stage, product in flywheel_stages(recipe):
            if Path(stage["out"]).name == "rlve" and not is_stage_done(stage, product):
                run_stage(stage, stage_command(recipe, stage["run"]))
                require_stage_product(stage, product)
    return recipe.out


def gain_by_task(runs: Sequence[Path], suite: str) -> str:
    """RLVE's mean gain over the runs, with the interval that other tasks may give."""
    after = [row for run in runs for row in read_model_results(run, "rlve", suite)]
    gain = paired_difference(read_model_results(runs[0], "sft", suite), after)
    low, high = (100 * bound for bound in gain["interval"])
    return f"RLVE − SFT of all runs: {100 * gain['gain']:+.1f}; over the {gain['n']} tasks {low:+.1f} to {high:+.1f}"


def difference(name: str, plain: Sequence[Path], other: Sequence[Path], suite: str) -> str:
    """The success of runs with other keys less that of the plain ones, paired by seed, with Student's interval."""
    pairs = zip(plain, other, strict=True)
    gaps = [100 * paired_difference(*(read_model_results(run, "rlve", suite) for run in pair))["gain"] for pair in pairs]
    low, high = student_interval(gaps)
    return f"{name} − {PLAIN} on {suite}: {sum(gaps) / len(gaps):+.1f}; over the {len(gaps)} seeds {low:+.1f} to {high:+.1f}"


def said(run: Path, name: str, seeds: Sequence[int], made: Sequence[Path]) -> Iterator[RenderableType]:
    """The tables of the runs, and how they differ from the plain ones."""
    for suite in find_scored_suites(made[0]):
        yield build_seeds_table(made, suite)
        yield gain_by_task(made, suite)
        if name != PLAIN and len(seeds) > 1:
            recipe = flywheel(run)
            yield difference(name, [with_seed(recipe, run, PLAIN, seed).out for seed in seeds], made, suite)


def work(run: Path, name: str, seeds: Sequence[int], processes: int | None, overrides: Sequence[str]) -> None:
    """Make the runs that are not made, then print a table of each suite. Raises `InputError` for what does not fit."""
    if bool(overrides) != (name != PLAIN):
        raise InputError("other keys need a name, and a name other keys", remedy="give both --name and --rlve.KEY, or none")
    recipe = flywheel(run, overrides)
    recipe = recipe.model_copy(update={"processes": processes or recipe.processes})
    made = [make(with_seed(recipe, run, name, seed), run) for seed in seeds]
    console = Console(markup=False, highlight=False)
    for part in said(run, name, seeds, made):
        console.print(part)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a flywheel's folder")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--name", default=PLAIN, help="of the runs with other keys, such as --rlve.credit trajectory")
    parser.add_argument("--processes", type=int, help="of each training; default: the recipe's")
    asked, overrides = parser.parse_known_args()
    return run_to_end(lambda: work(asked.run, asked.name, asked.seeds, asked.processes, overrides))


if __name__ == "__main__":
    sys.exit(main())
