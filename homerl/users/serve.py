"""A vLLM user simulator for as long as a run needs it.

Invariants: rank 0 starts and stops it, the others only wait; a server that does not answer in time, or dies, is
an error that shows the end of its log; nothing is left running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envs.documents import InputError
from homerl.recipe import ServeSettings, UserSettings

START_SECONDS = 1800


@contextmanager
def served(settings: UserSettings) -> Iterator[tuple[str, str]]:
    """(url, model) of an endpoint that answers; one that the recipe serves is started and stopped here."""
    if settings.serve is None:
        yield settings.url, settings.model
        return
    serve = settings.serve
    url = f"http://127.0.0.1:{serve.port}/v1"
    server = start(serve) if os.environ.get("RANK", "0") == "0" else None
    try:
        wait_until_ready(url, server)
        yield url, settings.model or serve.model
    finally:
        if server:
            stop(server)


def start(serve: ServeSettings, log: Path = Path("user_server.log")) -> subprocess.Popen:
    """Start vLLM on the GPUs named, in a process group of its own."""
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", serve.model, "--port", str(serve.port),
        "--tensor-parallel-size", str(len(serve.gpus)), "--max-model-len", str(serve.max_length),
        "--gpu-memory-utilization", str(serve.gpu_memory),
    ]  # fmt: skip
    hidden = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, serve.gpus))
    return subprocess.Popen(command, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT, start_new_session=True)


def wait_until_ready(url: str, server: subprocess.Popen | None, seconds: float = START_SECONDS) -> None:
    """Return once `url`/models answers, or raise `InputError` with the reason."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server and server.poll() is not None:
            raise InputError(
                f"the user server ended with code {server.returncode}", where="user.serve", remedy="see user_server.log"
            )
        try:
            with urllib.request.urlopen(f"{url}/models", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(2)
    raise InputError(f"{url} did not answer within {seconds:.0f} s", where="user", remedy="see user_server.log")


def stop(server: subprocess.Popen) -> None:
    """End the server and its workers."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
