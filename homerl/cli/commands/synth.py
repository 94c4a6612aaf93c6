"""`homerl synth`: a run of `run: synth`, on a cluster if wanted."""

from __future__ import annotations

from typing import Annotated

import typer

from envs.documents import InputError
from homerl.terminal.commands import Command, RecipeName


def synth(
    context: typer.Context,
    recipe: RecipeName,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster; `local` starts one here")] = None,
) -> None:
    """Run a recipe of `run: synth`. It resumes an earlier start."""
    from homerl.recipe.load import find_recipe
    from homerl.run.launch import main
    from homerl.run.recipe import load_recipe

    path, over = str(find_recipe(recipe)), [*context.args, *(["--ray", ray] if ray else [])]
    if (kind := load_recipe(path, context.args).run) != "synth":
        raise InputError(f"a recipe of `run: {kind}` is no synthesis", path, "start it with `homerl run`")
    raise typer.Exit(main(path, over))


COMMAND = Command("synth", "data", synth, "homerl synth recipes/synth.yaml --synth.blueprints 1000", overrides=True)
