"""What is done with a recipe: `homerl init`, `check`, `run`, `serve-user` and `audit-user`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError, ensure_writable
from homerl.host.terminal import Command, From, RecipeName, check_option_value, console, say, waiting_spinner


def init(out: Annotated[Path, typer.Option(help="a folder, which is new or empty")] = Path("recipes")) -> None:
    """Copy the shipped recipes to a folder, to edit them."""
    from homerl.app.recipe_reference import write_recipes

    if out.exists() and any(out.iterdir()):
        raise InputError("the folder is not empty", where=str(out), remedy="name a new one with --out")
    write_recipes(out)
    first = shlex.quote(str(out / "quickstart.yaml"))
    console.print(f"recipes written to {out}; start one with: accelerate launch {first}")


def check(
    context: typer.Context,
    recipe: RecipeName,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="number of training GPUs; default: `processes`, or eight less those that serve a model"),
    ] = None,
    gpu_memory: Annotated[float | None, typer.Option(min=1, help="memory of each GPU, in GB; default: 80")] = None,
    origin: From = None,
    full: Annotated[bool, typer.Option("--full", help="also every key with its value, and the parts of the memory")] = False,
) -> None:
    """Check a recipe and this machine: memory, disk, an episode of each source of tasks, and the length of its prompts.

    `--gpus` or `--gpu-memory` plan for another machine: the exit code is 0 if the recipe fits there.
    """
    from homerl.app.runs.launch import refuse_without_packages
    from homerl.host.recipe_files import find_recipe

    with waiting_spinner(f"{recipe}: reading the recipe", in_log=True):  # what reads it takes seconds to import
        refuse_without_packages(find_recipe(recipe))
        from homerl.app.runs.preflight import summarise_recipe
        from homerl.app.runs.recipe import from_option_words, load_recipe, recipe_to_yaml

        loaded = load_recipe(recipe, [*context.args, *from_option_words(origin)])
    try:
        for line in summarise_recipe(loaded, recipe, gpus, gpu_memory, full):
            say(f"# {line}" if full else line)  # so that all of it is YAML
    finally:
        if not full:
            say("every key with its value, and the parts of the memory: --full")
    if full:
        say(recipe_to_yaml(loaded), end="")


def run(context: typer.Context, recipe: RecipeName, origin: From = None) -> None:
    """Run a recipe in this process, or go on with an earlier start. Any key can be overridden: --sft.learning_rate 2e-6."""
    from homerl.app.runs.launch import main, refuse_without_packages
    from homerl.host.recipe_files import find_recipe

    refuse_without_packages(file := find_recipe(recipe))
    from homerl.app.runs.recipe import from_option_words

    raise typer.Exit(main(str(file), [*context.args, *from_option_words(origin)]))


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


def audit_user(
    context: typer.Context,
    recipe: RecipeName,
    blueprints: Annotated[int, typer.Option(min=1, help="number of blueprints to play")] = 100,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    out: Annotated[Path | None, typer.Option(help="the JSON file; default: audit_user.json in the recipe's `out`")] = None,
) -> None:
    """Play blueprints with the recipe's user and the scripted expert. Exit code 1 if the user is worse than allowed."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.app.user_audit import run_user_audit as audit

    loaded = load_recipe(recipe, context.args)
    place = out or loaded.out / "audit_user.json"
    ensure_writable(place)
    report = audit(loaded, recipe, blueprints, at_once, place)
    console.print(report.to_table())
    raise typer.Exit(1 if report.breaches else 0)


COMMAND = (
    Command("init", "start here", init, "homerl init --out my_recipes"),
    Command("check", "start here", check, "homerl check quickstart", overrides=True),
    Command("run", "start here", run, "homerl run quickstart", overrides=True),
    Command("serve-user", "train", serve_user, "homerl serve-user rlve_full", overrides=True),
    Command("audit-user", "train", audit_user, "homerl audit-user audit_users --blueprints 50", overrides=True),
)
