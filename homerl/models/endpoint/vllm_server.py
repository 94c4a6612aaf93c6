"""Runs a vLLM server for as long as a run, or `homerl serve-user`, needs it.

Invariants:
- Rank 0 starts and stops the server, the other ranks only wait.
- A server that already answers at the recipe's port with the recipe's model is used and not stopped.
- A server that does not answer in time, or ends by itself, is an error that shows the end of its log.
- No process remains, however the owner ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

from rich.text import Text

from homerl.envs.core.documents import InputError
from homerl.host.child_server import GRACE
from homerl.host.processes import is_main_process, stop_on_signals
from homerl.host.terminal import PlainConsole
from homerl.models.endpoint.endpoint import read_api_key
from homerl.models.endpoint.endpoint_settings import EndpointSettings, ServeSettings

Settings = TypeVar("Settings", bound=EndpointSettings)
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # hidden from vLLM
POLL = 0.5  # seconds between two looks at a server
LIMIT = 5.0  # seconds in which a server must list its models
SILENT = (OSError, ValueError, KeyError, TypeError, HTTPException)  # errors that mean: no list of models (yet)
TAIL = 15  # lines of the log that an error shows


class ServerFailed(InputError):
    """A server did not start, or ended by itself; the message shows the end of its log."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what, "serve", f"{log} ends:")
        self.log = log

    def __str__(self) -> str:
        return super().__str__() + log_tail(self.log)

    def __reduce__(self) -> tuple[type[ServerFailed], tuple[str, Path]]:
        return type(self), (self.what, self.log)


@contextmanager
def serve_endpoint(settings: Settings, log: Path = Path("user_server.log")) -> Iterator[Settings]:
    """Yield the settings of endpoints that answer; start and stop the server here if the recipe says `serve`."""
    if settings.serve is None:
        yield settings
        return
    serve, model, key = settings.serve, settings.served_name, settings.key
    url = server_url(serve)
    running = settings.model_copy(update={"url": url, "model": model, "serve": None})
    if not is_main_process():
        wait_until_ready(url, None, log, serve.start_seconds, key)
        yield running
    elif model in (list_served_models(url, key) or ()):
        yield running
    else:
        with run_vllm_server(serve, model, log, key) as server, interrupt_at_server_end(server, log):
            yield running


@contextmanager
def run_vllm_server(
    serve: ServeSettings, model: str, log: Path, key: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a vLLM server under the name `model`, yield its process once it answers, and stop it at the end."""
    with stop_on_signals():
        server = start_vllm(serve, model, log)
        try:
            wait_until_ready(server_url(serve), server, log, serve.start_seconds, key)
            yield server
        finally:
            stop_server(server)


@contextmanager
def interrupt_at_server_end(server: subprocess.Popen[bytes], log: Path) -> Iterator[None]:
    """Interrupt the block if the server ends by itself, and raise `ServerFailed` with the end of its log.

    It works in the main thread only, because only the main thread can be interrupted.
    """
    over, main = threading.Event(), threading.main_thread()

    def watch() -> None:
        """Send SIGTERM to the main thread once the server has ended."""
        while not over.wait(POLL):
            if server.poll() is not None:
                signal.pthread_kill(main.ident or 0, signal.SIGTERM)  # `stop_on_signals` turns it into an interrupt
                return

    if threading.current_thread() is main:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if server.poll() is None:
            raise
        raise ServerFailed(f"the model's server ended with code {server.returncode}", log) from None
    finally:
        over.set()


def server_url(serve: ServeSettings) -> str:
    """The base URL of a server on this machine."""
    return f"http://127.0.0.1:{serve.port}/v1"


def start_vllm(serve: ServeSettings, model: str, log: Path) -> subprocess.Popen[bytes]:
    """Start vLLM on the GPUs of the recipe, under a guard and in a process group of its own.

    Raises `InputError` if the port is in use or vLLM is not installed.
    """
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", serve.port)) == 0:
            raise InputError(f"port {serve.port} is taken by something else", "serve.port", "name a free one")
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHER}
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, serve.gpus))
    command = [sys.executable, "-m", "homerl.host.child_server", str(os.getpid()), *vllm_command(serve, model)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def vllm_command(serve: ServeSettings, model: str) -> list[str]:
    """The `vllm serve` command of the recipe; GPUs beyond `tensor_parallel` hold more copies of the model.

    Raises `InputError` if vLLM is not installed.
    """
    if (program := find_vllm()) is None:
        raise InputError("the program vllm is not installed", "serve", "pip install 'homerl[gpu]', or use `url`")
    size = serve.tensor_parallel or len(serve.gpus)
    copies = len(serve.gpus) // size
    return [
        program, "serve", serve.model, "--served-model-name", model, "--host", "127.0.0.1", "--port", str(serve.port),
        "--tensor-parallel-size", str(size), *(["--data-parallel-size", str(copies)] if copies > 1 else []),
        "--max-model-len", str(serve.max_length), "--gpu-memory-utilization", str(serve.gpu_memory),
        "--seed", "0", *serve.arguments,
    ]  # fmt: skip


def find_vllm() -> str | None:
    """The path of `vllm` on the PATH or beside this Python, or None."""
    return shutil.which("vllm") or shutil.which("vllm", path=str(Path(sys.executable).parent))


def list_served_models(url: str, key: str | None = None) -> Sequence[str] | None:
    """The names of a server's models, or None while it does not answer; `key` names the variable with the API key."""
    try:
        return _fetch_model_names(url, key)
    except SILENT:
        return None


def describe_server_trouble(url: str, key: str | None = None) -> str:
    """Why nobody can be asked at the URL, in words; empty if a server answers and takes the key in the variable `key`."""
    try:
        fetch_body(f"{url}/models", key)
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            from homerl.models.endpoint.server_answers import READ, read_error_reason  # loads openai

            try:
                reason = read_error_reason(error.read(READ).decode(errors="replace"))
            except SILENT:  # it broke off
                reason = ""
            return f"is out of order (status {error.code}{f': {reason}' if reason else ''})"
        return f"refuses the key in ${key} (status {error.code})" if key and error.code in (401, 403) else ""
    except SILENT:
        return "does not answer"
    return ""


def wait_until_ready(
    url: str, server: subprocess.Popen[bytes] | None, log: Path, seconds: float, key: str | None = None
) -> None:
    """Return once `url` lists its models; show the waiting on the terminal.

    Raises `ServerFailed` if the server ends or needs more than `seconds`, and `InputError` if it demands another key.
    """
    begin, console = time.monotonic(), PlainConsole(stderr=True)
    with console.status(Text(f"waiting for {url}")) as status:
        while True:
            try:
                _fetch_model_names(url, key)
                return
            except urllib.error.HTTPError as error:
                if error.code in (401, 403):  # waiting would not help
                    what = f"{url} wants another key than ${key}"
                    raise InputError(what, "key", "export the one that it was started with") from None
            except SILENT:
                pass
            gone = time.monotonic() - begin
            if server and server.poll() is not None:
                raise ServerFailed(f"the model's server ended with code {server.returncode}", log)
            if gone > seconds:
                raise ServerFailed(f"{url} did not answer within {seconds:.0f} s", log)
            status.update(Text(f"waiting for {url}, {gone:.0f} s: {log_tail(log, 1).strip()[:80]}"), spinner="dots")
            time.sleep(POLL)


def _fetch_model_names(url: str, key: str | None) -> Sequence[str]:
    return [model["id"] for model in json.loads(fetch_body(f"{url}/models", key))["data"]]


def fetch_body(address: str, key: str | None = None, seconds: float | None = None, method: str = "GET") -> bytes:
    """The body at an address; `key` names the variable with the API key.

    The whole transfer may take `seconds` (`LIMIT` if None), however slowly bytes arrive.
    """
    limit, found = seconds or LIMIT, Future[bytes]()
    headers = {"authorization": f"Bearer {read_api_key(key)}"} if key else {}

    def fetch() -> None:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(address, headers=headers, method=method), timeout=limit
            ) as answer:
                found.set_result(answer.read())
        except Exception as error:
            found.set_exception(error)  # `found.result` raises it

    threading.Thread(target=fetch, daemon=True).start()
    return found.result(limit)


def log_tail(log: Path, lines: int = TAIL) -> str:
    """The last lines of a log, each after a line break, or a remark that the log is missing or empty."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return " (there is none)"
    return "".join(f"\n  {line}" for line in text.splitlines()[-lines:]) or " (it is empty)"


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """End the server and its process group: SIGTERM, then SIGKILL after `GRACE` seconds."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            server.wait(GRACE)


def serve_recipe_model(settings: EndpointSettings, key: str, log: Path, say: Callable[[str], None]) -> None:
    """Serve the model at the recipe's `key` until this process is stopped; `say` prints a line for people.

    Raises `InputError` if the recipe serves no such model, and `ServerFailed` if the server ends by itself.
    """
    if settings.serve is None:
        where = ", ".join(settings.urls) or "no endpoint: it is scripted"
        example = "{serve: {model: ..., gpus: [0]}}` (a user's also needs `kind: llm`)"
        what = f"the recipe serves no {key.rpartition('.')[2]} ({where})"
        raise InputError(what, f"{key}.serve", f"write `{key}: {example}")
    model, url = settings.served_name, server_url(settings.serve)
    with run_vllm_server(settings.serve, model, log, settings.key) as server:
        say(f"{model} answers at {url}; its log is {log}")
        say(f"elsewhere: --{key}.serve null --{key}.url {url} --{key}.model {model}")
        with suppress(KeyboardInterrupt):
            raise ServerFailed(f"the model's server ended with code {server.wait()}", log)
    say("stopped")
