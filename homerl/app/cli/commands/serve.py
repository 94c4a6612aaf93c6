"""`homerl serve`: a model for other programs."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import Annotated

import typer

from homerl.host.terminal import Command, OnCpu, console, waiting_spinner


def serve(
    what: Annotated[str, typer.Argument(help="a run's folder, a model's folder, or a hub id")],
    host: Annotated[str, typer.Option(help="address to listen on; others than this machine's own need a key")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0 for any free one")] = 8000,
    key_env: Annotated[str | None, typer.Option(help="environment variable with the key that clients must send")] = None,
    cpu: OnCpu = False,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="most tokens of a message for which a request names no limit")
    ] = 512,
) -> None:
    """Serve a model by OpenAI's protocol, without vLLM: on a CPU, one request after the other."""
    import asyncio

    from homerl.app.chat.partner import load_named_model
    from homerl.app.served.openai_server import ModelServer
    from homerl.host.web_server import ServerAddress, open_listening_socket, read_key_variable
    from homerl.host.web_server import serve_until_stopped as serve_app

    address = ServerAddress(host, port, read_key_variable(key_env))
    with waiting_spinner(f"opening {what}"):
        model = load_named_model(what, cpu)
    socket = open_listening_socket(address)
    url = f"http://{address.bracketed_host}:{socket.getsockname()[1]}"
    console.print(f"{model.name} answers at {url}/v1 (Ctrl-C ends it)", soft_wrap=True)
    console.print(f"talk with it: homerl chat {url}/v1 --like {shlex.quote(what)}", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_app(ModelServer(model, address, max_tokens).build_server_app(), socket))


COMMAND = Command("serve", "train", serve, "homerl serve runs/mine --port 8000")
