"""Which branching factors synthesise what teaches best? A model a cell and seed, by SFT on equal numbers of dialogues.

The model, its SFT and the suite are the quickstart's; the blueprints of a seed are the same in all cells, the held-out suite
is the same for all. What stands is not made again.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from rich.console import Console
from rich.table import Table

from homerl.bench.seeds import read_results
from homerl.flow.grid import CELLS, grid, write
from homerl.measure.intervals import mean_interval
from homerl.run.flywheel import is_done, run_stage, stages
from homerl.run.recipe import FlywheelRecipe, load_recipe
from homerl.terminal.progress import progress_bar

RECIPE = "recipes/quickstart.yaml"
NAMES = [f"{user}-{agent}" for user, agent in CELLS]


def datasets(recipe: FlywheelRecipe, folder: Path) -> None:
    """A dataset a cell."""
    if (folder / "grid.json").exists():
        return
    with progress_bar() as bar:
        task = bar.add_task("synth-grid", total=recipe.synth.blueprints, note=str(folder))
        cells = grid(recipe.synth, None, lambda: bar.advance(task), keep=True)
    write(cells, folder.with_suffix(".new"), recipe.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".new").rename(folder)


def first_suite_alone(recipe: FlywheelRecipe) -> FlywheelRecipe:
    bench = recipe.bench.model_copy(update={"suites": recipe.bench.suites[:1]})
    return recipe.model_copy(update={"bench": bench})


def train_and_play(recipe: FlywheelRecipe, data: Path) -> None:
    """The quickstart's SFT and its benchmark, on other data."""
    for stage, product in stages(recipe):
        if stage["out"] != str(recipe.out / "sft"):
            continue
        if stage["run"] == "sft":
            stage["data"] = str(data)
        if not is_done(stage, product):
            run_stage(stage, [sys.executable])


def successes(out: Path, seeds: Sequence[int], cell: str) -> Iterator[np.ndarray]:
    """Of each seed, which episodes of the suite succeeded."""
    for seed in seeds:
        yield np.array([row["success"] for row in read_results(out / f"{seed}-{cell}", "sft", "heldout")], float)


def summary(out: Path, seeds: Sequence[int]) -> Table:
    """Success in percent by cell; its gain over linear sampling on the same episodes, averaged over seeds, with 95 %."""
    table = Table("k", *(f"seed {seed}" for seed in seeds), "mean", "s.d.", "over (1, 1)", "95 %")
    linear = np.mean(list(successes(out, seeds, NAMES[0])), axis=0)
    for cell in NAMES:
        by_seed = list(successes(out, seeds, cell))
        rates = [100 * values.mean() for values in by_seed]
        gains = 100 * (np.mean(by_seed, axis=0) - linear)
        low, high = mean_interval(gains, 0)
        spread = f"{stdev(rates):.1f}" if len(rates) > 1 else ""
        figures = (*rates, fmean(rates))
        table.add_row(
            cell, *(f"{rate:.1f}" for rate in figures), spread, f"{gains.mean():+.1f}", f"{low:+.1f} to {high:+.1f}"
        )
    return table


def main(out: str, blueprints: str = "8000", *seeds: str) -> None:
    numbers, folder = list(map(int, seeds)) or [0, 1, 2], Path(out)
    for seed in numbers:
        shared = ["--seed", str(seed), "--synth.blueprints", blueprints, "--synth.first_seed", str(100_000 * seed)]
        datasets(load_recipe(RECIPE, shared), folder / f"{seed}-data")
        for cell in NAMES:
            recipe = load_recipe(
                RECIPE, [*shared, "--sft.dialogues_per_update", "16", "--out", str(folder / f"{seed}-{cell}")]
            )
            train_and_play(first_suite_alone(recipe), folder / f"{seed}-data" / cell)
    Console().print(summary(folder, numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
