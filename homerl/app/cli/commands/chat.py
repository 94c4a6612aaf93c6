"""`homerl chat`: talk with a model."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import write_atomic
from homerl.host.terminal import Command, OnCpu, PlainConsole, Served, console, waiting_spinner

WHAT = "a run's folder, a model's folder or hub id, http://host/v1, or an agent without a model such as keywords"
WIDTH = 79  # columns of a picture: two rooms side by side


def chat(
    what: Annotated[str, typer.Argument(help=WHAT)],
    home: Annotated[Path | None, typer.Option(help="a home file; default: the seed makes a home")] = None,
    seed: Annotated[int, typer.Option(help="another seed makes another home, and samples otherwise")] = 0,
    world: Annotated[str | None, typer.Option(help="world to visit, if the model knows several")] = None,
    like: Annotated[
        Path | None, typer.Option(help="a run whose homes, tools and limits are used, if WHAT is not a run")
    ] = None,
    served: Served = None,
    page: Annotated[bool, typer.Option("--page", help="in the browser instead of the terminal")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port of the page; 0 for any free one")] = 8130,
    picture: Annotated[Path | None, typer.Option(help="an SVG file, in which the talk in the terminal is drawn")] = None,
    cpu: OnCpu = False,
    temperature: Annotated[float | None, typer.Option(min=0, help="default: that of the run's benchmark, else 0")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="most tokens of a message; default: the run's")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="most messages of the model for a sentence; default: the run's")
    ] = None,
) -> None:
    """Talk with a trained model in a simulated home: a sentence in, calls and changes out, with undo."""
    from homerl.app.chat.partner import ChatRequest, open_chat_session

    wanted = ChatRequest(what, like, home, seed, world, served, cpu, temperature, max_tokens, steps)
    with waiting_spinner(f"opening {what}"):
        session = open_chat_session(wanted)
    if page:
        from homerl.app.chat.chat_page import serve_chat_page
        from homerl.host.web_server import ServerAddress, open_listening_socket

        socket = open_listening_socket(ServerAddress(port=port))
        console.print(f"{session.partner.name}: http://127.0.0.1:{socket.getsockname()[1]}/   (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            serve_chat_page(session, socket)
        return
    from homerl.app.chat.chat_terminal import ChatTerminal

    drawn = PlainConsole(record=True, width=WIDTH) if picture else console
    ChatTerminal(session, drawn).run(sentences_shown=not sys.stdin.isatty())
    if picture:
        write_atomic(picture, drawn.export_svg(title=f"homerl chat {what}", unique_id="talk"))


COMMAND = Command("chat", "start here", chat, "homerl chat runs/mine --page")
