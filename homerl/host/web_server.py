"""Web servers of homerl: where one listens, which requests it takes, how it answers in the forms of OpenAI's API, and how an
application is served until it is stopped.

Invariants:
- An address that other machines reach has a key.
- A request with a body needs JSON as its content type, and a server without a key takes only requests for this machine, so
  that no web page in a browser can send one.
- A server with a key takes nothing without it. A browser sends it as a password, for pages alone. The proxy of
  `ServerAddress.ingress` needs none for them.
- A connection is closed if its request is not whole within `WHOLE` seconds, or if its client reads nothing of the answer for
  `READING` seconds, so that nobody holds one for nothing. A slow reader is not dropped. A WebSocket is closed if its client
  answers no ping.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import re
import socket
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import h11
import uvicorn
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from homerl.envs.core.documents import InputError
from homerl.envs.core.world import is_too_deep


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens. `key` is needed on every request unless it is None, which the loopback alone allows.

    `ingress` is the address of a proxy that asks by itself who somebody is: its requests for pages need no key.
    """

    host: str = "127.0.0.1"
    port: int = 8124
    key: str | None = None
    ingress: str | None = None

    def __post_init__(self) -> None:
        if self.key is None and not is_loopback(self.host):
            remedy = "name the environment variable that holds a key: --key-env AGENT_KEY"
            raise InputError(f"everybody who reaches {self.host} could use it", "--host", remedy)
        if self.key is not None and not re.fullmatch(r"[!-~]+", self.key):
            remedy = "take letters, digits and signs of ASCII, without spaces"
            raise InputError("the key has characters that HTTP does not carry", "--key-env", remedy)

    @property
    def base_url(self) -> str:
        """The address as a browser takes it."""
        return f"http://{self.bracketed_host}:{self.port}"

    @property
    def bracketed_host(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listening_socket(address: ServerAddress) -> socket.socket:
    """A socket at the address, taken before anything is announced. `InputError` if it is in use or not of this machine."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        remedy = "is another agent running? Name a free port with --port, and an address of this machine with --host"
        raise InputError(error.strerror or str(error), f"{address.host}, port {address.port}", remedy) from None


def read_key_variable(variable: str | None) -> str | None:
    """The key in an environment variable; None without a variable. Raises `InputError` if the variable holds none."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"the environment variable {variable} holds no key", "--key-env", f"export {variable}=...")
    return key


LONGEST = 200_000  # bytes of a request
DEEPEST = 64  # levels of its JSON
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]@:/\s]+))(?::\d+)?", re.IGNORECASE)  # as the header has it


class BadRequest(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, what: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(what)
        self.status, self.headers = status, headers


async def refusal_response(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused, in OpenAI's form."""
    assert isinstance(error, BadRequest)
    return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, error.status, error.headers)


def admit_request(request: HTTPConnection, address: ServerAddress, browser: bool = False) -> None:
    """Refuse a request that does not come from a program of this machine, or that lacks the key."""
    if browser and request.client is not None and request.client.host == address.ingress:
        return
    if address.key is None:
        # A web page's host name may be made to point to this machine (DNS rebinding), so only its own names are taken.
        hosts = request.headers.getlist("host")
        found = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None or not is_loopback((found[1] or found[2]).lower()):
            named = f"the host '{hosts[0]}' is not this machine" if len(hosts) == 1 else "the request names no one host"
            raise BadRequest(403, f"{named}: ask for {address.bracketed_host}, or serve with --host and --key-env")
    elif not hmac.compare_digest(_read_key(request, browser).encode(), address.key.encode()):
        asks = {"WWW-Authenticate": 'Basic realm="homerl, the key as password"'} if browser else None
        raise BadRequest(401, "the key is missing or wrong", asks)


def _read_key(request: HTTPConnection, browser: bool) -> str:
    """The key that a request brings: as a token, or, from a browser, as the password of any user."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if not browser or scheme.lower() != "basic":
        return ""
    try:
        return b64decode(given, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:  # it is no password
        return ""


async def read_json_body(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings. Raises `BadRequest` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequest(415, "the content type must be application/json")
    raw = b""
    try:  # the length is counted here, since a client may state none, or a wrong one
        async for part in request.stream():
            raw += part
            if len(raw) > LONGEST:
                raise BadRequest(413, f"a request has at most {LONGEST} bytes")
    except ClientDisconnect:  # nobody hears the answer
        raise BadRequest(400, "the body is not whole") from None
    return parse_json_object(raw)


def parse_json_object(raw: bytes | str) -> dict[str, Any]:
    """The JSON object that a body or a message is. Raises `BadRequest` for anything else, and for one that is too deep."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest(400, "the body is not a JSON object")
    if is_too_deep(body, DEEPEST):
        raise BadRequest(400, f"the body is nested more than {DEEPEST} levels deep")
    return body


# OpenAI's API


def wants_json(body: Mapping[str, Any]) -> bool:
    """Whether a request asks for JSON as the answer (`response_format`), so that JSON is no call without its marks."""
    form = body.get("response_format")
    return isinstance(form, Mapping) and form.get("type") in ("json_object", "json_schema")


Said = Mapping[str, Any]  # an assistant's message


def models_response(name: str, **says: str) -> Response:
    """The list of the one model that a server has. Under `homerl` the server `says` more of itself."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "homerl"} | ({"homerl": says} if says else {})
    return JSONResponse({"object": "list", "data": [model]})


def completion_response(
    model: str, message: Said, stream: bool, tokens: tuple[int, int] = (0, 0), cut: bool = False
) -> Response:
    """A message as a completion. `tokens` are those of prompt and message; a message is `cut` if it was longer."""
    reason = "tool_calls" if message.get("tool_calls") else "length" if cut else "stop"
    if stream:
        calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls") or ())]
        whole = _yield_one({"content": message["content"]} | ({"tool_calls": calls} if calls else {}))
        return StreamingResponse(_stream_deltas(model, whole, reason), media_type="text/event-stream")
    prompt, written = tokens
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return JSONResponse(_completion_head("chat.completion", model) | {"choices": [choice], "usage": usage})


def streamed_completion(model: str, texts: AsyncIterator[str]) -> Response:
    """A completion whose words come one part after the other."""
    return StreamingResponse(
        _stream_deltas(model, ({"content": text} async for text in texts), "stop"), media_type="text/event-stream"
    )


async def _yield_one(part: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield part


async def _stream_deltas(model: str, parts: AsyncIterator[dict[str, Any]], reason: str) -> AsyncIterator[str]:
    """A message as events: a role, its parts (words and calls), the end."""
    head = _completion_head("chat.completion.chunk", model)

    def event(delta: dict[str, Any], end: str | None = None) -> str:
        return f"data: {json.dumps(head | {'choices': [{'index': 0, 'delta': delta, 'finish_reason': end}]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    async for part in parts:
        yield event(part)
    yield event({}, reason)
    yield "data: [DONE]\n\n"


def _completion_head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


# Serving

STOPPING = 5  # seconds that open requests have when the server is stopped
WHOLE = 30.0  # seconds in which a client must have sent a request
READING = 30.0  # seconds in which a client must have read something of what waits for it


async def serve_until_stopped(app: Any, at: socket.socket) -> None:
    """Serve an ASGI application at a socket until SIGTERM or SIGINT."""
    await uvicorn.Server(uvicorn_config(app)).serve(sockets=[at])


class _ServerBesideWork(uvicorn.Server):
    """A server that leaves the signals of its process to the work beside it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def serve_beside(app: Any, at: socket.socket) -> AsyncIterator[None]:
    """Serve an ASGI application at a socket within the context, in the loop of its caller."""
    server = _ServerBesideWork(uvicorn_config(app))
    serving = asyncio.create_task(server.serve(sockets=[at]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


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
        self._wait_for_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Wait no more: a WebSocket may be silent for as long as its client answers pings."""
        self._late.cancel()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._late.cancel()
        self._wait_for_request()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._late.cancel()
        self._stop_watching()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_watching()
        super().resume_writing()

    def _watch_reader(self) -> None:
        self._stop_watching()
        self._reader = self.loop.call_later(READING, self._drop_idle_reader, self.transport.get_write_buffer_size())

    def _drop_idle_reader(self, before: int) -> None:
        """Drop a client that has read nothing since it was looked at: closing would wait for it."""
        if self.transport.get_write_buffer_size() < before:
            self._watch_reader()
        else:
            self.transport.abort()

    def _stop_watching(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    def _wait_for_request(self) -> None:
        self._late = self.loop.call_later(WHOLE, self._drop_idle_client)

    def _drop_idle_client(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            if self.transport.get_write_buffer_size():  # the end of an answer
                self._watch_reader()
            self.transport.close()
