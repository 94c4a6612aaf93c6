"""`homerl serve-agent` in a process of its own, as the installation under test starts it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass
class Agent:
    """The agent, as a context manager, with its log in `folder`. It answers once it is entered."""

    folder: Path
    home: str
    model: str
    python: Path = Path(sys.executable)
    env: Mapping[str, str] | None = None
    more: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    seconds: float = 1000  # in which it must answer; one that ends fails at once

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Agent:
        named = ("--ha", self.home, "--model", self.model, "--port", str(self.port), *self.more)
        command = [self.python, "-m", "homerl", "serve-agent", *named]
        self.process = subprocess.Popen(command, cwd=self.folder, env=self.env)
        try:
            answers(f"{self.url}/v1/models", self.process, self.seconds)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(200)

    def say(self, text: str, seconds: float = 200) -> str:
        """The reply to a sentence, for which one waits so long."""
        message = {"model": "", "messages": [{"role": "user", "content": text}]}
        request = Request(
            f"{self.url}/v1/chat/completions", json.dumps(message).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=seconds) as answer:
            reply: str = json.load(answer)["choices"][0]["message"]["content"]
        return reply


def answers(url: str, process: subprocess.Popen[Any], seconds: float = 1000) -> None:
    """Wait until a process answers at an address. Raises `AssertionError` if it ends or is late."""
    until = time.monotonic() + seconds
    while True:
        try:
            urlopen(url, timeout=5).close()
            return
        except (URLError, OSError):
            assert process.poll() is None, f"it ended with code {process.returncode}"
            assert time.monotonic() < until, f"{url} does not answer"
            time.sleep(0.1)
