"""The command line, made of the commands that are found in `homerl/app/cli/commands` and in the worlds' folders `commands`.

Invariants: commands are found by their files, so no list names them; finding them imports no torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

import homerl.app.cli.commands
import homerl.envs
from homerl import __version__
from homerl.envs.core.plugins import discover, find_submodules
from homerl.host.terminal import GROUPS, Command, say
from homerl.worlds.contract import CommandServices
from homerl.worlds.registry import known_worlds

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def find_commands() -> Mapping[str, Command]:
    """Every command by what a person types, in the order of the help."""
    known_worlds()  # one that cannot be used is refused here
    packages = [homerl.app.cli.commands, *map(importlib.import_module, find_submodules(homerl.envs, "commands"))]
    discovered = [discover(package, "COMMAND", Command) for package in packages]
    found = [command for commands in discovered for command in commands.values()]
    return {command.words: command for command in sorted(found, key=lambda one: (GROUPS.index(one.group), one.words))}


def build_command_line(found: Mapping[str, Command]) -> typer.Typer:
    """The typer app of the commands. Those of several words, such as `bench run`, lie in an app of the first word."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
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
    context.obj = CommandServices(
        _import_when_called("homerl.app.runs.recipe:load_recipe"),
        _import_when_called("homerl.app.served.model_agents:make_model_agents"),
        _import_when_called("homerl.report.cards.model_lineage:trained_blueprint_recipes"),
        _import_when_called("homerl.tasks.openenv.server:serve_tasks_over_openenv"),
    )


def _import_when_called(name: str) -> Callable[..., Any]:
    """The function `module:name` for the commands of worlds. A call imports its module, which most commands never need."""
    return lambda *given: pkgutil.resolve_name(name)(*given)


app = build_command_line(find_commands())
