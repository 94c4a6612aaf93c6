"""The commands `homerl serve-agent` and `homerl view agent`.

The docstrings of the commands are their help texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envs.documents import InputError, write_atomic
from homerl.pages.templates import page_of
from homerl.terminal.console import console, one_of
from homerl.worlds.contract import CommandLine

if TYPE_CHECKING:
    from envs.homeenv.home import Home

MODES = ("shadow", "confirm", "act")


def add(cli: CommandLine) -> None:
    """Add the commands to `homerl` and `homerl view`."""
    cli.app.command("serve-agent")(serve_agent_command(cli.agents))
    cli.view.command("agent")(view_agent)


def serve_agent_command(agents: Callable[..., Any]) -> Callable[..., None]:
    """The command `homerl serve-agent`, which gets agents by the given function."""

    def serve_agent(
        model: Annotated[str, typer.Option(help="a model's folder, or http://host/v1")],
        ha: Annotated[str | None, typer.Option(help="URL of Home Assistant, http://host:8123")] = None,
        mode: Annotated[str, typer.Option(help="shadow (only watches), confirm (asks before it acts), or act")] = "shadow",
        home: Annotated[Path | None, typer.Option(help="a home of `homerl import-ha`; default: it is imported now")] = None,
        token_env: Annotated[str, typer.Option(help="environment variable with the token of Home Assistant")] = "HA_TOKEN",
        log: Annotated[Path, typer.Option(help="the log, to which every exchange is appended")] = Path("agent.jsonl"),
        allow: Annotated[
            list[str] | None, typer.Option(help="a guarded device that needs no consent if it is named; may be repeated")
        ] = None,
        toolset: Annotated[str, typer.Option(help="the tools that the model was trained with")] = "assist",
        language: Annotated[str, typer.Option(help="the language of the home, en or zh")] = "en",
        prompt: Annotated[str, typer.Option(help="how much the system prompt tells: brief or full")] = "full",
        served: Annotated[str | None, typer.Option(help="the model's name, if the server has several")] = None,
        cpu: Annotated[bool, typer.Option(help="load the model on the CPU, in float32")] = False,
        max_tokens: Annotated[int, typer.Option(min=1, help="most tokens of a message of the model")] = 512,
        steps: Annotated[
            int,
            typer.Option(
                min=1, help="most messages of the model for one sentence; 1 for a model that was not taught to end"
            ),
        ] = 8,
        patience: Annotated[
            float, typer.Option(min=1, help="seconds for one sentence; what was not begun by then is not done")
        ] = 60,
        host: Annotated[
            str, typer.Option(help="address to listen on; others than this machine's own need a key")
        ] = "127.0.0.1",
        port: Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")] = 8124,
        key_env: Annotated[str | None, typer.Option(help="environment variable with the key that clients must send")] = None,
    ) -> None:
        """Serve an agent to Home Assistant. It acts in a copy of the home first, and in the home only if the mode allows."""
        from envs.homeenv.toolsets import TOOLSETS
        from homerl.web.address import Address, key_in, listening
        from homerl.web.serving import serve
        from homerl.worlds.homeenv.serving.caretaker import Caretaker, House
        from homerl.worlds.homeenv.serving.guard import Guard
        from homerl.worlds.homeenv.serving.journal import Journal
        from homerl.worlds.homeenv.serving.server import Endpoint

        one_of("--mode", mode, MODES)
        one_of("--toolset", toolset, TOOLSETS)
        one_of("--prompt", prompt, ("brief", "full"))
        address = Address(host, port, key_in(key_env))
        twin, real = _homes(home, ha, token_env, mode)
        for did in allow or ():
            one_of("--allow", did, twin.plan.by_did)
        name, factory = agents(model, served, cpu, max_tokens, patience)
        guard = Guard(frozenset(allow or ()))
        house = House(mode, toolset, language, prompt, guard, steps=steps, patience=patience)  # type: ignore[arg-type]
        caretaker = Caretaker(twin, factory, real, Journal(log), house, name)
        socket = listening(address)
        console.print(f"{name} in the mode {mode} for {len(twin.plan.devices)} devices: {address.url}/v1")
        console.print(f"what it does: {address.url}/ (log: {log})")
        asyncio.run(serve(Endpoint(caretaker, address).app(), socket))

    return serve_agent


def _homes(file: Path | None, url: str | None, token_env: str, mode: str) -> tuple[Home, Any]:
    """The twin, and the real home or None. Raises `InputError`."""
    if url is None:
        if mode != "shadow" or file is None:
            raise InputError("there is no home to act in", "--ha", "name your Home Assistant: --ha http://host:8123")
        return _loaded(file), None

    from homerl.homeassistant.client import token_from
    from homerl.homeassistant.command import fetched
    from homerl.homeassistant.errors import HomeAssistantError, Unreachable
    from homerl.homeassistant.importing import import_home
    from homerl.worlds.homeenv.serving.real import HomeAssistant

    try:
        real = HomeAssistant(url, token_from(token_env))
        asyncio.run(real.greet())
    except Unreachable as error:
        if file is None:
            raise InputError(str(error)) from None
        console.print(f"{error} Sentences are answered as soon as it can be reached.")
    except HomeAssistantError as error:
        raise InputError(str(error)) from None
    if file:
        return _loaded(file), real
    imported = import_home(fetched(url, token_env))
    if left := sum(note.part == "automation" for note in imported.notes):
        console.print(f"{left} automations cannot be followed; homerl import-ha lists them")
    return imported.home, real


def _loaded(file: Path) -> Home:
    from envs.homeenv.home_file import load_home

    return load_home(file)


def view_agent(
    log: Annotated[Path, typer.Argument(help="a log of `homerl serve-agent`")],
    out: Annotated[Path | None, typer.Option(help="default: beside the log")] = None,
) -> None:
    """Write a page of what a served agent did, or would have done, day by day."""
    from homerl.worlds.homeenv.serving.journal import OWNER_ALONE, read_log
    from homerl.worlds.homeenv.serving.page import journal_page

    found = read_log(log)
    if found.damaged and not found.entries:
        first = found.damaged[0]
        raise InputError(first.why, f"{log}:{first.line}", "is it a log of an agent?")
    page = page_of(log, out)
    write_atomic(page, journal_page(found.entries, found.damaged))
    page.chmod(OWNER_ALONE)
    console.print(f"{page}: {len(found.entries)} exchanges")
    for line in found.damaged:
        console.print(f"{log}:{line.line} is damaged ({line.why})")
