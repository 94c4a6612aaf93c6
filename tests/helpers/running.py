"""An application on a free port of this machine, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from homerl.host.web_server import uvicorn_config


@contextmanager
def running(app: Any, quiet: bool = False) -> Iterator[int]:
    """The port, while the application runs as the commands serve it; a `quiet` one logs nothing of what it is sent."""
    config = uvicorn.Config(app, log_level="error", lifespan="off") if quiet else uvicorn_config(app)
    config.port, config.timeout_graceful_shutdown = 0, 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
