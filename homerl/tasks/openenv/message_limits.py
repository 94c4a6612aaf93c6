"""The most bytes of a message over OpenEnv's wire: the time of a step grows with them, and other clients wait for it.

Invariants:
- A WebSocket's message that is too long has a typed answer, and its session goes on. Nothing of it is read.
- A request that is too long is 413. Its length is counted as it comes, since a client may state none, or a wrong one.
"""

from __future__ import annotations

from openenv.core.env_server.types import WSErrorCode, WSErrorResponse
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homerl.host.web_server import LONGEST


class LimitMessages:
    """ASGI middleware that refuses what is longer than `LONGEST`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is short enough."""
        if scope["type"] == "websocket":
            await self._app(scope, _receive_short(receive, send), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (body := await _read_body(receive)) is None:
            await JSONResponse({"detail": f"a request has at most {LONGEST} bytes"}, 413)(scope, receive, send)
        else:
            await self._app(scope, _receive_again(body, receive), send)


def _receive_short(receive: Receive, send: Send) -> Receive:
    """What a WebSocket brings, without messages that are too long: these are answered here."""
    data = {"message": f"a message has at most {LONGEST} bytes", "code": WSErrorCode.VALIDATION_ERROR}
    answer = WSErrorResponse(data=data).model_dump_json()

    async def receive_short() -> Message:
        while len(((message := await receive()).get("text") or "").encode()) > LONGEST:
            await send({"type": "websocket.send", "text": answer})
        return message

    return receive_short


async def _read_body(receive: Receive) -> list[Message] | None:
    """The messages of a request's body; None if it is too long."""
    messages, length = [], 0
    while True:
        messages.append(message := await receive())
        length += len(message.get("body", b""))
        if length > LONGEST:
            return None
        if message["type"] != "http.request" or not message.get("more_body", False):
            return messages


def _receive_again(messages: list[Message], receive: Receive) -> Receive:
    """These messages, and then what else comes."""
    waiting = iter(messages)

    async def receive_again() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return receive_again
