"""`homerl run`: a run of a recipe."""

from __future__ import annotations

import typer

from homerl.host.terminal import Command, From, RecipeName


def run(context: typer.Context, recipe: RecipeName, origin: From = None) -> None:
    """Run a recipe in this process, or go on with an earlier start. Any key can be overridden: --sft.learning_rate 2e-6."""
    from homerl.app.runs.launch import main
    from homerl.app.runs.recipe import from_option_words
    from homerl.host.recipe_files import find_recipe

    raise typer.Exit(main(str(find_recipe(recipe)), [*context.args, *from_option_words(origin)]))


COMMAND = Command("run", "start here", run, "homerl run recipes/quickstart.yaml --out runs/mine", overrides=True)
