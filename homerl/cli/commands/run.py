"""`homerl run`: a run of a recipe."""

from __future__ import annotations

import typer

from homerl.terminal.commands import Command, From, RecipeName


def run(context: typer.Context, recipe: RecipeName, origin: From = None) -> None:
    """Run a recipe in this process, or go on with an earlier start. Any key can be overridden: --sft.learning_rate 2e-6."""
    from homerl.recipe.load import find_recipe
    from homerl.run.launch import main
    from homerl.run.starting import origin_words

    raise typer.Exit(main(str(find_recipe(recipe)), [*context.args, *origin_words(origin)]))


COMMAND = Command("run", "start here", run, "homerl run recipes/quickstart.yaml --out runs/mine", overrides=True)
