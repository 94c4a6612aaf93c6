"""`homerl chat` and `homerl serve`: talk with a model, and let other programs talk with it."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from homerl.terminal.console import console, waiting

WHAT = "a run's folder, a model's folder or hub id, http://host/v1, or an agent without a model such as keywords"


def chat(
    what: Annotated[str, typer.Argument(help=WHAT)],
    home: Annotated[str | None, typer.Option(help="a home file, or the seed that makes a home")] = None,
    seed: Annotated[int, typer.Option(help="of the home and of what the model samples")] = 0,
    world: Annotated[str | None, typer.Option(help="world to visit, if the model knows several")] = None,
    like: Annotated[
        Path | None, typer.Option(help="a run whose homes, tools and limits are used, if WHAT is not a run")
    ] = None,
    served: Annotated[str | None, typer.Option(help="the model's name, if the server has several")] = None,
    page: Annotated[bool, typer.Option("--page", help="in the browser instead of the terminal")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port of the page; 0 for any free one")] = 8130,
    cpu: Annotated[bool, typer.Option("--cpu", help="use the CPU, even where there is a GPU")] = False,
    temperature: Annotated[float | None, typer.Option(min=0, help="default: that of the run's benchmark, else 0")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="most tokens of a message; default: the run's")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="most messages of the model for a sentence; default: the run's")
    ] = None,
) -> None:
    """Talk with a trained model in a simulated home: a sentence in, calls and changes out, with undo."""
    from homerl.chat.find import Wanted, session_of

    wanted = Wanted(what, like, home, seed, world, served, cpu, temperature, max_tokens, steps)
    with waiting(f"opening {what}"):
        session = session_of(wanted)
    if page:
        from homerl.chat.server import serve_page
        from homerl.web.address import Address, listening

        socket = listening(Address(port=port))
        console.print(f"{session.partner.name}: http://127.0.0.1:{socket.getsockname()[1]}/   (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            serve_page(session, socket)
        return
    from homerl.chat.terminal import Terminal

    Terminal(session, console).run(sentences_shown=not sys.stdin.isatty())


def serve(
    what: Annotated[str, typer.Argument(help="a run's folder, a model's folder, or a hub id")],
    host: Annotated[str, typer.Option(help="address to listen on; others than this machine's own need a key")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0 for any free one")] = 8000,
    key_env: Annotated[str | None, typer.Option(help="environment variable with the key that clients must send")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="use the CPU, even where there is a GPU")] = False,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="most tokens of a message for which a request names no limit")
    ] = 512,
) -> None:
    """Serve a model by OpenAI's protocol, without vLLM: on a CPU, one request after the other."""
    import asyncio

    from homerl.chat.find import model_named
    from homerl.run.serve_model import ModelServer
    from homerl.web.address import Address, key_in, listening
    from homerl.web.serving import serve as serve_app

    address = Address(host, port, key_in(key_env))
    with waiting(f"opening {what}"):
        model = model_named(what, cpu)
    socket = listening(address)
    url = f"http://{address.in_brackets}:{socket.getsockname()[1]}"
    console.print(f"{model.name} answers at {url}/v1 (Ctrl-C ends it)", soft_wrap=True)
    console.print(f"talk with it: homerl chat {url}/v1 --like {shlex.quote(what)}", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_app(ModelServer(model, address, max_tokens).app(), socket))
