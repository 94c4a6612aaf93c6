"""`homerl serve-env`: a home for agents, or tasks for trainers, of other programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, cast

import typer

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.commands.make_home import parse_number_range
from homerl.host.terminal import Command, check_option_value

MCP_ALONE = ("home", "seed", "devices", "task", "toolset", "show_tasks", "transport")
OPENENV_ALONE = ("source", "host", "key_env", "sessions", "fork")


def serve_env(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(help="with --openenv: the suite, recipe or world with the tasks", show_default=False),
    ] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="speak the Model Context Protocol: a home to act in")] = False,
    openenv: Annotated[bool, typer.Option("--openenv", help="speak OpenEnv's protocol: tasks to train on")] = False,
    home: Annotated[Path | None, typer.Option(help="a home file; default: a home is made")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the made home; default: 0")] = None,
    devices: Annotated[str | None, typer.Option(help="number of devices of the made home; default: 2-6")] = None,
    task: Annotated[list[str] | None, typer.Option(help="a condition to meet; may be repeated")] = None,
    toolset: Annotated[str, typer.Option(help="the tools that clients see")] = "homeflow",
    show_tasks: Annotated[bool, typer.Option(help="let clients read the tasks")] = False,
    transport: Annotated[str, typer.Option(help="stdio or http")] = "stdio",
    port: Annotated[int, typer.Option(help="port of http; 0 for any free port")] = 8000,
    host: Annotated[str, typer.Option(help="with --openenv: the address to listen at")] = "127.0.0.1",
    key_env: Annotated[
        str | None,
        typer.Option(help="with --openenv: environment variable of a key that clients send"),
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="with --openenv: the most clients at once")] = 256,
    fork: Annotated[bool, typer.Option("--fork", help="with --openenv: clients may fork and restore")] = False,
) -> None:
    """Serve a home to agents, or tasks to trainers, of other programs. Each client gets its own."""
    if mcp == openenv:
        raise InputError("no one protocol is named", where="serve-env", remedy="add either --mcp or --openenv")
    name, others = ("--mcp", OPENENV_ALONE) if mcp else ("--openenv", MCP_ALONE)
    for other in others:
        given = context.get_parameter_source(other)
        if given is not None and given.name == "COMMANDLINE":
            shown = "SOURCE" if other == "source" else f"--{other.replace('_', '-')}"
            raise InputError(f"it has no meaning with {name}", where=shown, remedy="leave it out: homerl serve-env --help")
    if openenv:
        if source is None:
            remedy = "name a suite, a recipe or a world: homerl serve-env --openenv smarthome-bench"
            raise InputError("it is not said which tasks to serve", where="SOURCE", remedy=remedy)
        if find_spec("openenv") is None:
            raise InputError("the package openenv is not installed", "serve-env", "pip install 'homerl[interop]'")
        context.obj.serve_tasks(source, host, port, key_env, sessions, fork)
        return
    if find_spec("mcp") is None:
        raise InputError("the package mcp is not installed", "serve-env", "pip install 'homerl[mcp]'")
    from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
    from homerl.envs.homeenv.sim.home_file import load_home
    from homerl.envs.homeenv.sim.home_world import HomeWorld
    from homerl.envs.homeenv.sim.toolsets import TOOLSETS

    check_option_value("--toolset", toolset, TOOLSETS)
    check_option_value("--transport", transport, ("stdio", "http"))
    if home and (seed is not None or devices):
        raise InputError("a home file is served as it is", where="--home", remedy="leave out --seed and --devices")
    from homerl.envs.homeenv.mcp_server import Transport, serve_home_over_mcp

    start = load_home(home) if home else make_home(seed or 0, HomeRecipe(devices=parse_number_range(devices or "2-6")))
    serve_home_over_mcp(HomeWorld(start, tuple(task or ()), toolset), cast(Transport, transport), port, show_tasks)


COMMAND = Command("serve-env", "research", serve_env, "homerl serve-env --mcp --home home.json")
