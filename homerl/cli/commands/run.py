"""`homerl run`: a run of a recipe."""

from __future__ import annotations

import typer

from homerl.terminal.commands import Command, RecipeName


def run(context: typer.Context, recipe: RecipeName) -> None:
    """Run a recipe in this process. It goes on with an earlier start. Any key can be overridden: --sft.learning_rate 2e-6.

    --from RUN starts at what another run made: its synthesis, its SFT.
    """
    from homerl.recipe.load import find_recipe
    from homerl.run.launch import main

    raise typer.Exit(main(str(find_recipe(recipe)), context.args))


COMMAND = Command("run", "start here", run, "homerl run recipes/quickstart.yaml --out runs/mine", overrides=True)
