"""How an application is served until it is stopped.

Invariant: a connection whose request is not whole within `WHOLE` seconds is closed, so that nobody holds one for nothing.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

STOPPING = 5  # seconds that open requests have when the server is stopped
WHOLE = 30.0  # seconds in which a client must have sent a request


async def serve(app: Any, at: socket.socket) -> None:
    """Serve an ASGI application at a socket until SIGTERM or SIGINT."""
    await uvicorn.Server(configured(app)).serve(sockets=[at])


def configured(app: Any) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(app, http=Connection, log_config=None, access_log=False, timeout_graceful_shutdown=STOPPING)


class Connection(H11Protocol):
    """A connection that waits for a whole request only so long. uvicorn limits the time between two requests alone."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._late.cancel()
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._late.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(WHOLE, self._drop)

    def _drop(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.close()
