"""How an application is served until it is stopped."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette

STOPPING = 5  # seconds that open requests have when the server is stopped


async def serve(app: Starlette, at: socket.socket) -> None:
    """Serve at a socket until SIGTERM or SIGINT."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=STOPPING)
    await uvicorn.Server(config).serve(sockets=[at])
