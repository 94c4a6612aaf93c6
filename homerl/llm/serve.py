"""A vLLM of the run's own (user simulator, author or assistant) for as long as it, or `homerl serve-user`, needs it.

Invariants: rank 0 starts and stops it, the others only wait; one that already answers at the recipe's port with the
recipe's model is used and left alone; a server that does not answer in time, or dies, is an error that shows the end
of its log; nothing is left running, however its owner ends.
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

from rich.console import Console

from envs.documents import InputError
from homerl.llm.settings import EndpointSettings, ServeSettings
from homerl.processes.guard import GRACE

LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # not for vLLM
POLL = 0.5
LIMIT = 5.0  # seconds in which a server is to list its models
SILENT = (OSError, ValueError, KeyError, TypeError, HTTPException)  # no list of models, or not now
TAIL = 15  # lines of the log that an error shows


class ServerFailed(InputError):
    """A server that did not come up, or went away; shows the end of its log."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what, "serve", f"{log} ends:")
        self.log = log

    def __str__(self) -> str:
        return super().__str__() + tail(self.log)

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.log)


@contextmanager
def served(settings: EndpointSettings, log: Path = Path("user_server.log")) -> Iterator[tuple[tuple[str, ...], str]]:
    """(urls, model) of endpoints that answer; one that the recipe serves is started and stopped here."""
    if settings.serve is None:
        yield settings.urls, settings.model
        return
    serve, model, key = settings.serve, settings.served_name, settings.key
    url = address(serve)
    if os.environ.get("RANK", "0") != "0":
        wait_until_ready(url, None, log, serve.start_seconds, key)
        yield (url,), model
    elif model in (models(url, key) or ()):
        yield (url,), model
    else:
        with running(serve, model, log, key) as server, missed(server, log):
            yield (url,), model


@contextmanager
def running(serve: ServeSettings, model: str, log: Path, key: str | None = None) -> Iterator[subprocess.Popen]:
    """A server of our own, once it answers, under the name `model`."""
    with stoppable():
        server = start(serve, model, log)
        try:
            wait_until_ready(address(serve), server, log, serve.start_seconds, key)
            yield server
        finally:
            stop(server)


@contextmanager
def missed(server: subprocess.Popen, log: Path) -> Iterator[None]:
    """A server that ends by itself ends the block, whatever is under way, with the end of its log; in the main thread,
    which alone can be interrupted."""
    over, main = threading.Event(), threading.main_thread()

    def watch() -> None:
        while not over.wait(POLL):
            if server.poll() is not None:
                signal.pthread_kill(main.ident, signal.SIGTERM)  # as `stoppable` has it
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


def address(serve: ServeSettings) -> str:
    return f"http://127.0.0.1:{serve.port}/v1"


def start(serve: ServeSettings, model: str, log: Path) -> subprocess.Popen:
    """Start vLLM on the GPUs named, under a guard, in a process group of its own."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", serve.port)) == 0:
            raise InputError(f"port {serve.port} is taken by something else", "serve.port", "name a free one")
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHER}
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, serve.gpus))
    command = [sys.executable, "-m", "homerl.processes.guard", str(os.getpid()), *vllm_command(serve, model)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def vllm_command(serve: ServeSettings, model: str) -> list[str]:
    """`vllm serve` as the recipe says; GPUs beyond a copy's `tensor_parallel` hold further copies."""
    size = serve.tensor_parallel or len(serve.gpus)
    copies = len(serve.gpus) // size
    return [
        vllm_program(), "serve", serve.model, "--served-model-name", model, "--host", "127.0.0.1", "--port", str(serve.port),
        "--tensor-parallel-size", str(size), *(["--data-parallel-size", str(copies)] if copies > 1 else []),
        "--max-model-len", str(serve.max_length), "--gpu-memory-utilization", str(serve.gpu_memory),
        "--seed", str(serve.seed), *serve.arguments,
    ]  # fmt: skip


def vllm_program() -> str:
    """`vllm` on the PATH, or beside this Python."""
    found = find_vllm()
    if found is None:
        raise InputError("the program vllm is not installed", "serve", "pip install 'homerl[gpu]', or use `url`")
    return found


def find_vllm() -> str | None:
    return shutil.which("vllm") or shutil.which("vllm", path=str(Path(sys.executable).parent))


def models(url: str, key: str | None = None) -> Sequence[str] | None:
    """The models of a server, or None while it does not answer; with the key in a variable, if one is named."""
    try:
        return _models(url, key)
    except SILENT:
        return None


def answers(url: str) -> bool:
    """Whether there is a server, if only one that wants a key."""
    try:
        return fetched(f"{url}/models") is not None
    except urllib.error.HTTPError:
        return True
    except SILENT:
        return False


def wait_until_ready(url: str, server: subprocess.Popen | None, log: Path, seconds: float, key: str | None = None) -> None:
    """Return once `url` answers, showing what is waited for, or raise `InputError` with the reason."""
    begin, console = time.monotonic(), Console(stderr=True)
    with console.status(f"waiting for {url}") as status:
        while not _ready(url, key):
            gone = time.monotonic() - begin
            if server and server.poll() is not None:
                raise ServerFailed(f"the model's server ended with code {server.returncode}", log)
            if gone > seconds:
                raise ServerFailed(f"{url} did not answer within {seconds:.0f} s", log)
            status.update(f"waiting for {url}, {gone:.0f} s: {tail(log, 1).strip()[:80]}", spinner="dots")
            time.sleep(POLL)


def _ready(url: str, key: str | None) -> bool:
    """Whether it lists its models; to wait for one that wants another key would be in vain."""
    try:
        return _models(url, key) is not None
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise InputError(
                f"{url} wants another key than ${key}", "key", "export the one that it was started with"
            ) from None
        return False
    except SILENT:
        return False


def _models(url: str, key: str | None) -> Sequence[str]:
    return [model["id"] for model in json.loads(fetched(f"{url}/models", key))["data"]]


def fetched(address: str, key: str | None = None, seconds: float | None = None) -> bytes:
    """What a server says there, within `seconds` (`LIMIT`) in all, however slowly it comes."""
    found: Future[bytes] = Future()
    threading.Thread(target=_fetch, args=(address, key, seconds or LIMIT, found), daemon=True).start()
    return found.result(seconds or LIMIT)


def _fetch(address: str, key: str | None, seconds: float, found: Future[bytes]) -> None:
    headers = {"authorization": f"Bearer {os.environ.get(key, 'none')}"} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=seconds) as answer:
            found.set_result(answer.read())
    except Exception as error:
        found.set_exception(error)  # raised where the result is waited for


def tail(log: Path, lines: int = TAIL) -> str:
    """The end of a log, each line on one of its own."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return " (there is none)"
    return "".join(f"\n  {line}" for line in text.splitlines()[-lines:]) or " (it is empty)"


def stop(server: subprocess.Popen) -> None:
    """End the server and all of its group."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            server.wait(GRACE)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that what it started is stopped; in the main thread, where it can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def serve_user(settings: EndpointSettings, key: str, log: Path, say: Callable[[str], None]) -> None:
    """Serve the model that a recipe names under `key` until this process is told to stop."""
    if settings.serve is None:
        where = ", ".join(settings.urls) or "no endpoint: it is scripted"
        example = "{serve: {model: ..., gpus: [0]}}` (a user's also needs `kind: llm`)"
        raise InputError(
            f"the recipe serves no {key.rpartition('.')[2]} ({where})", f"{key}.serve", f"write `{key}: {example}"
        )
    model, url = settings.served_name, address(settings.serve)
    with running(settings.serve, model, log, settings.key) as server:
        say(f"{model} answers at {url}; its log is {log}")
        say(f"elsewhere: --{key}.serve null --{key}.url {url} --{key}.model {model}")
        with suppress(KeyboardInterrupt):
            raise ServerFailed(f"the model's server ended with code {server.wait()}", log)
    say("stopped")
