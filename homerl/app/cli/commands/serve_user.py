"""`homerl serve-user`: the user of a training, served."""

from __future__ import annotations

from typing import Annotated

import typer

from homerl.host.terminal import Command, RecipeName, check_option_value, console


def serve_user(
    context: typer.Context,
    recipe: RecipeName,
    part: Annotated[str, typer.Option(help="model role: user; of a synthesis also agent, author")] = "user",
) -> None:
    """Serve the model of the recipe's user (or of another role) with vLLM, until Ctrl-C or SIGTERM."""
    from homerl.app.runs.recipe import SERVED_ROLES, load_recipe, role_settings
    from homerl.models.endpoint.vllm_server import serve_recipe_model as serve

    check_option_value("--part", part, SERVED_ROLES)
    loaded = load_recipe(recipe, context.args)
    key, settings = role_settings(loaded, part, recipe)
    serve(settings, key, loaded.out / f"{part}_server.log", lambda s: console.print(s, highlight=False, soft_wrap=True))


COMMAND = Command("serve-user", "train", serve_user, "homerl serve-user recipes/rlve_full.yaml", overrides=True)
