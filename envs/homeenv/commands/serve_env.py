"""`homerl serve-env`: a home for agents of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.commands.make_home import parse_number_range
from homerl.host.terminal import Command, check_option_value


def serve_env(
    mcp: Annotated[bool, typer.Option("--mcp", help="speak the Model Context Protocol")] = False,
    home: Annotated[Path | None, typer.Option(help="a home file; default: a home is made")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the made home; default: 0")] = None,
    devices: Annotated[str | None, typer.Option(help="number of devices of the made home; default: 2-6")] = None,
    task: Annotated[list[str] | None, typer.Option(help="a condition to meet; may be repeated")] = None,
    toolset: Annotated[str, typer.Option(help="the tools that clients see")] = "homeflow",
    show_tasks: Annotated[bool, typer.Option(help="let clients read the tasks")] = False,
    transport: Annotated[str, typer.Option(help="stdio or http")] = "stdio",
    port: Annotated[int, typer.Option(help="port of http; 0 for any free port")] = 8000,
) -> None:
    """Serve a home to agents of other programs. Each gets its own fork of the home."""
    from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
    from homerl.envs.homeenv.sim.home_file import load_home
    from homerl.envs.homeenv.sim.home_world import HomeWorld
    from homerl.envs.homeenv.sim.toolsets import TOOLSETS

    if not mcp:
        raise InputError("no protocol is named", where="serve-env", remedy="add --mcp")
    check_option_value("--toolset", toolset, TOOLSETS)
    check_option_value("--transport", transport, ("stdio", "http"))
    if home and (seed is not None or devices):
        raise InputError("a home file is served as it is", where="--home", remedy="leave out --seed and --devices")
    from homerl.envs.homeenv.mcp_server import Transport, serve_home_over_mcp

    start = load_home(home) if home else make_home(seed or 0, HomeRecipe(devices=parse_number_range(devices or "2-6")))
    serve_home_over_mcp(HomeWorld(start, tuple(task or ()), toolset), cast(Transport, transport), port, show_tasks)


COMMAND = Command("serve-env", "research", serve_env, "homerl serve-env --mcp --home home.json")
