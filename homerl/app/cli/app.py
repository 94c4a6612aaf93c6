"""The command line, made of the commands that are found in `homerl/app/cli/commands` and in the worlds' folders `commands`.

Invariants: commands are found by their files, so no list names them; finding them imports no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

import homerl.app.cli.commands
import homerl.envs
from homerl import __version__
from homerl.envs.core.plugins import discover, find_submodules
from homerl.host.terminal import GROUPS, Command, say
from homerl.play.loop import Agent
from homerl.worlds.contract import CommandServices
from homerl.worlds.registry import known_worlds

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def find_commands() -> Mapping[str, Command]:
    """Every command by what a person types, in the order of the help."""
    known_worlds()  # one that cannot be used is refused here
    packages = [homerl.app.cli.commands, *map(importlib.import_module, find_submodules(homerl.envs, "commands"))]
    discovered = [discover(package, "COMMAND", Command, several="COMMANDS") for package in packages]
    found = [command for commands in discovered for command in commands.values()]
    return {command.words: command for command in sorted(found, key=lambda one: (GROUPS.index(one.group), one.words))}


def build_command_line(found: Mapping[str, Command]) -> typer.Typer:
    """The typer app of the commands. Those of several words, such as `bench run`, lie in an app of the first word."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_set_up_context)
    alike: dict[str, list[Command]] = {}
    for command in found.values():
        alike.setdefault(command.words.partition(" ")[0], []).append(command)
    for first, members in alike.items():
        if members[0].words == first:
            _add_command(app, first, members[0])
            continue
        inner = typer.Typer(no_args_is_help=True)
        for command in members:
            _add_command(inner, command.words.removeprefix(f"{first} "), command)
        listed = ", ".join(command.words.removeprefix(f"{first} ") for command in members)
        app.add_typer(inner, name=first, help=f"Several commands: {listed}.", rich_help_panel=members[0].group)
    return app


def _add_command(app: typer.Typer, name: str, command: Command) -> None:
    settings = OVERRIDES if command.overrides else {}
    epilog = f"Example: {command.example}"
    app.command(name, context_settings=settings, epilog=epilog, rich_help_panel=command.group)(command.work)


def _say_version(asked: bool) -> None:
    if asked:
        say(f"homerl {__version__}")
        raise typer.Exit


def _set_up_context(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="print the version, and end")
    ] = False,
) -> None:
    """Train small language models to run a smart home."""
    context.obj = CommandServices(_load_recipe, _make_agents, _find_trained_recipes)


def _load_recipe(recipe: str, overrides: Sequence[str]) -> Any:
    """Load a recipe, for the commands of worlds."""
    from homerl.app.runs.recipe import load_recipe

    return load_recipe(recipe, overrides)


def _make_agents(
    model: str, served: str | None, cpu: bool, max_tokens: int, seconds: float
) -> tuple[str, Callable[[], Agent]]:
    """Agents of a model, for the commands of worlds."""
    from homerl.app.served.model_agents import make_model_agents

    return make_model_agents(model, served, cpu, max_tokens, seconds)


def _find_trained_recipes(model: str) -> Sequence[Mapping[str, Any]]:
    """The recipes of a model's blueprints, for the commands of worlds. Of a model behind a URL nothing is known."""
    from homerl.app.served.model_agents import is_model_url

    if is_model_url(model):
        return ()
    from homerl.report.cards.model_lineage import trained_blueprint_recipes

    return trained_blueprint_recipes(model)


app = build_command_line(find_commands())
