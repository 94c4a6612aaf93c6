"""`homerl check`: a recipe, looked at before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from homerl.host.terminal import Command, From, RecipeName, say


def check(
    context: typer.Context,
    recipe: RecipeName,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="number of training GPUs; default: `processes`, or eight less those that serve a model"),
    ] = None,
    gpu_memory: Annotated[float, typer.Option(min=1, help="memory of each GPU, in GB")] = 80.0,
    origin: From = None,
    full: Annotated[bool, typer.Option("--full", help="also every key with its value, and the parts of the memory")] = False,
) -> None:
    """Check a recipe and this machine: memory, disk, an episode of each source of tasks, and the length of its prompts."""
    from homerl.app.runs.preflight import recipe_to_yaml, summarise_recipe
    from homerl.app.runs.recipe import from_option_words, load_recipe

    loaded = load_recipe(recipe, [*context.args, *from_option_words(origin)])
    for line in summarise_recipe(loaded, recipe, gpus, gpu_memory, full):
        say(f"# {line}" if full else line)  # so that all of it is YAML
    say(recipe_to_yaml(loaded) if full else "every key with its value: --full", end="" if full else "\n")


COMMAND = Command("check", "start here", check, "homerl check recipes/quickstart.yaml --out runs/mine", overrides=True)
