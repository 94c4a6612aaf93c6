"""`homerl synth-grid`: branching factors of the search, compared."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal.commands import Command, RecipeName
from homerl.host.terminal.console import console


def synth_grid(
    context: typer.Context,
    recipe: RecipeName,
    calls: Annotated[list[int] | None, typer.Option(help="budget: requests for each blueprint; may be repeated")] = None,
    sampled: Annotated[list[int] | None, typer.Option(help="budget: messages for each blueprint; may be repeated")] = None,
    out: Annotated[Path | None, typer.Option(help="a folder for figures and datasets")] = None,
) -> None:
    """Compare branching factors (HomeFlow, Table 2): as the paper counts, and at equal budgets for each blueprint."""
    from homerl.app.runs.recipe import FlywheelRecipe, load_recipe
    from homerl.host.processes.locks import folder_lock
    from homerl.host.terminal.progress import progress_bar
    from homerl.synth.grid import grid, grid_table, write_grid
    from homerl.synth.mcts import CallBudget
    from homerl.synth.recipe import SynthRecipe

    loaded = load_recipe(recipe, context.args)
    if not isinstance(loaded, SynthRecipe | FlywheelRecipe):
        raise InputError(f"`run: {loaded.run}` searches for nothing", recipe, "name a recipe of `run: synth`")
    budgets = [CallBudget("calls", most) for most in calls or ()] + [CallBudget("sampled", most) for most in sampled or ()]
    with folder_lock(out) if out else nullcontext():  # before anything is played, since the folder may be no place to write
        for budget in (None, *budgets):
            title = f"{budget.most} {budget.of} a blueprint" if budget else "one tree a blueprint"
            with progress_bar() as bar:
                task = bar.add_task("synth-grid", total=loaded.synth.blueprints, note=title)
                cells = grid(loaded.synth, budget, partial(bar.advance, task), keep=out is not None)
            console.print(grid_table(cells, title))
            if out:
                write_grid(cells, out / title.replace(" ", "-"), loaded.seed)


COMMAND = Command(
    "synth-grid", "research", synth_grid, "homerl synth-grid recipes/synth_m3.yaml --calls 64 --out grid", overrides=True
)
