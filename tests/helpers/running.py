"""An application on a free port of this machine, in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from homerl.host.web_server import uvicorn_config


class PromptServer(uvicorn.Server):
    """One that ends as soon as it is told to, where uvicorn looks ten times a second. Forced to, it cuts all connections."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: Any = None) -> None:
        if self.force_exit:
            for server in self.servers:
                server.close()
            for connection in list(self.server_state.connections):
                connection.transport.close()
        else:
            await super().shutdown(sockets)


@contextmanager
def running(app: Any, quiet: bool = False) -> Iterator[int]:
    """The port, while the application runs as the commands serve it; a `quiet` one logs nothing of what it is sent."""
    config = uvicorn.Config(app, log_level="error", lifespan="off") if quiet else uvicorn_config(app)
    config.port, config.timeout_graceful_shutdown = 0, 1
    server = PromptServer(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
