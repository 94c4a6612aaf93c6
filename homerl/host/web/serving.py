"""How an application is served until it is stopped.

Invariants: a connection whose request is not whole within `WHOLE` seconds is closed, and so is one whose client reads
nothing of its answer for `READING` seconds, so that nobody holds one for nothing. A slow reader is not dropped.
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
READING = 30.0  # seconds in which a client must have read something of what waits for it


async def serve_until_stopped(app: Any, at: socket.socket) -> None:
    """Serve an ASGI application at a socket until SIGTERM or SIGINT."""
    await uvicorn.Server(uvicorn_config(app)).serve(sockets=[at])


def uvicorn_config(app: Any) -> uvicorn.Config:
    """How uvicorn serves an application. No header of a request tells whom it comes from."""
    return uvicorn.Config(
        app, http=TimedConnection, log_config=None, access_log=False, proxy_headers=False, timeout_graceful_shutdown=STOPPING
    )


class TimedConnection(H11Protocol):
    """A connection that waits for a whole request, and for a reader, only so long. uvicorn limits the time between two
    requests alone, and waits for a reader for ever.
    """

    _reader: asyncio.TimerHandle | None = None

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
        self._read_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._read_on()
        super().resume_writing()

    def _watch(self) -> None:
        self._read_on()
        self._reader = self.loop.call_later(READING, self._look, self.transport.get_write_buffer_size())

    def _look(self, before: int) -> None:
        """Drop a client that has read nothing since it was looked at: closing would wait for it."""
        if self.transport.get_write_buffer_size() < before:
            self._watch()
        else:
            self.transport.abort()

    def _read_on(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    def _wait(self) -> None:
        self._late = self.loop.call_later(WHOLE, self._drop)

    def _drop(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            if self.transport.get_write_buffer_size():  # the end of an answer
                self._watch()
            self.transport.close()
