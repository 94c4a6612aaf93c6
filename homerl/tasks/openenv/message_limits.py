"""What is no message is refused at the door: what is too long, no JSON object, or nested too deep.

The time of a step grows with its message, and other clients wait for it. OpenEnv's server ends a session whose message it
cannot read.

Invariants:
- A WebSocket's message that is refused has a typed answer, and its session goes on. OpenEnv's server gets nothing of it.
- A request that is too long is 413. Its length is counted as it comes, since a client may state none, or a wrong one.
"""

from __future__ import annotations

from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcResponse
from openenv.core.env_server.types import WSErrorCode, WSErrorResponse
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homerl.host.web_server import LONGEST, BadRequest, parse_json_object


class LimitMessages:
    """ASGI middleware that passes on what is short enough and can be read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a connection, or answer it."""
        if scope["type"] == "websocket":
            await self._app(scope, _receive_messages(receive, send, is_rpc=scope["path"] != "/ws"), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            try:
                body = await _read_body(receive)
            except BadRequest as refused:
                await JSONResponse({"detail": str(refused)}, refused.status)(scope, receive, send)
            else:
                await self._app(scope, _receive_again(body, receive), send)


def _receive_messages(receive: Receive, send: Send, is_rpc: bool) -> Receive:
    """What a WebSocket brings, without what is refused: it is answered here, in the form of JSON-RPC or of OpenEnv."""

    async def receive_message() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            try:
                _refuse_unreadable(message.get("text") or message.get("bytes") or "")
                if message.get("text") is not None:
                    return message
                refused = BadRequest(400, "a message is a text, and no bytes")
            except BadRequest as error:
                refused = error
            await send({"type": "websocket.send", "text": _answer_refused(refused, is_rpc)})

    return receive_message


def _refuse_unreadable(raw: str | bytes) -> None:
    """Raise `BadRequest` for a message that is too long, no JSON object, or nested too deep."""
    if len(raw if isinstance(raw, bytes) else raw.encode(errors="surrogatepass")) > LONGEST:
        raise BadRequest(413, f"a message has at most {LONGEST} bytes")
    parse_json_object(raw)


def _answer_refused(refused: BadRequest, is_rpc: bool) -> str:
    if is_rpc:
        return str(JsonRpcResponse.error_response(JsonRpcErrorCode.PARSE_ERROR, str(refused)).model_dump_json())
    code = WSErrorCode.VALIDATION_ERROR if refused.status == 413 else WSErrorCode.INVALID_JSON
    return str(WSErrorResponse(data={"message": str(refused), "code": code}).model_dump_json())


async def _read_body(receive: Receive) -> list[Message]:
    """The messages of a request's body. Raises `BadRequest` if it is too long."""
    messages, length = [], 0
    while True:
        messages.append(message := await receive())
        length += len(message.get("body", b""))
        if length > LONGEST:
            raise BadRequest(413, f"a request has at most {LONGEST} bytes")
        if message["type"] != "http.request" or not message.get("more_body", False):
            return messages


def _receive_again(messages: list[Message], receive: Receive) -> Receive:
    """These messages, and then what else comes."""
    waiting = iter(messages)

    async def receive_again() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return receive_again
