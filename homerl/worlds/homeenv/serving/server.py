"""An OpenAI-compatible endpoint in front of a caretaker: what Home Assistant's `llama_cpp` and similar integrations talk to.

Invariants:
- It never returns tool calls: the caretaker makes the calls, so that Home Assistant cannot make them behind its back.
- A request needs JSON as its content type and this machine as its host, so that no web page in a browser can send one.
- On an address other than the loopback every request needs the key. A browser sends it as a password, for the page alone.
- Nothing is carried out for a client that has hung up.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import socket
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from envs.documents import InputError
from envs.messages import Message
from homerl.play.faults import InfraError
from homerl.worlds.homeenv.serving.caretaker import Caretaker
from homerl.worlds.homeenv.serving.page import journal_page

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as missing:
    raise InputError(
        f"the package {missing.name} is not installed", "homerl serve-agent", "pip install 'homerl[homeassistant]'"
    ) from None

LONGEST = 200_000  # bytes of a request
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]@:/\s]+))(?::\d+)?", re.IGNORECASE)  # as the header has it


@dataclass(frozen=True)
class Address:
    """Where the endpoint listens. `key` is needed on every request unless it is None, which the loopback alone allows."""

    host: str = "127.0.0.1"
    port: int = 8124
    key: str | None = None

    def __post_init__(self) -> None:
        if self.key is None and not is_loopback(self.host):
            remedy = "name the environment variable that holds a key: --key-env AGENT_KEY"
            raise InputError(f"everybody who reaches {self.host} could speak to your home", "--host", remedy)
        if self.key is not None and not re.fullmatch(r"[!-~]+", self.key):
            remedy = "take letters, digits and signs of ASCII, without spaces"
            raise InputError("the key has characters that HTTP does not carry", "--key-env", remedy)


class BadRequest(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, what: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(what)
        self.status, self.headers = status, headers


class Endpoint:
    """The routes of the endpoint."""

    def __init__(self, caretaker: Caretaker, address: Address) -> None:
        self.caretaker, self.address = caretaker, address

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/", self._page),
            ],
            exception_handlers={BadRequest: _refused, InfraError: _failed, InputError: _unreadable},
        )

    async def _models(self, request: Request) -> Response:
        self._admit(request)
        model = {"id": self.caretaker.name, "object": "model", "created": 0, "owned_by": "homerl"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _page(self, request: Request) -> Response:
        self._admit(request, browser=True)
        log = self.caretaker.journal.log()
        return HTMLResponse(journal_page(log.entries, log.damaged))

    async def _chat(self, request: Request) -> Response:
        self._admit(request)
        body = await _body(request)
        reply = await self.caretaker.answer(dialogue_of(body), request.is_disconnected)
        if body.get("stream"):
            return StreamingResponse(_stream(self.caretaker.name, reply), media_type="text/event-stream")
        return JSONResponse(_completion(self.caretaker.name, reply))

    def _admit(self, request: Request, browser: bool = False) -> None:
        """Refuse a request that does not come from a program of this machine, or that lacks the key."""
        if self.address.key is None:
            self._admit_local(request.headers.getlist("host"))
        elif not hmac.compare_digest(_key_of(request, browser).encode(), self.address.key.encode()):
            asks = {"WWW-Authenticate": 'Basic realm="homerl, the key as password"'} if browser else None
            raise BadRequest(401, "the key is missing or wrong", asks)

    def _admit_local(self, hosts: Sequence[str]) -> None:
        """Refuse a name that was made to point here."""
        found = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None or not is_loopback((found[1] or found[2]).lower()):
            named = f"the host '{hosts[0]}' is not this machine" if len(hosts) == 1 else "the request names no one host"
            here = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
            raise BadRequest(403, f"{named}: ask for {here}, or serve with --host and --key-env")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key_of(request: Request, browser: bool) -> str:
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


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest(415, "the content type must be application/json")
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > LONGEST:
            raise BadRequest(413, f"a request has at most {LONGEST} bytes")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest(400, "the body is not a JSON object")
    return body


def dialogue_of(body: Mapping[str, Any]) -> list[Message]:
    """What person and agent said, in plain text. System messages are left out: the agent has its own.

    Raises `BadRequest` if the last of these messages is not a person's.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadRequest(400, "`messages` is not a list of messages")
    told = [{"role": message.get("role"), "content": _text(message.get("content"))} for message in messages]
    dialogue = [message for message in told if message["role"] in ("user", "assistant") and message["content"]]
    if not dialogue or dialogue[-1]["role"] != "user":
        raise BadRequest(400, "the last message must be the user's")
    return dialogue


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


def _completion(model: str, reply: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply}
    return {
        "id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion", "created": int(time.time()), "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }  # fmt: skip


async def _stream(model: str, reply: str) -> AsyncIterator[str]:
    """The reply as events: a role, the words, the end."""
    id, created = f"chatcmpl-{uuid4().hex}", int(time.time())
    deltas: Sequence[tuple[dict[str, str], str | None]]
    deltas = ({"role": "assistant", "content": ""}, None), ({"content": reply}, None), ({}, "stop")
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, error.status, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": {"message": f"the model did not answer: {error}", "type": "server_error"}}, 503)


async def _unreadable(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 500)


def listening(address: Address) -> socket.socket:
    """A socket at the address, taken before anything is announced. `InputError` if it is in use or not of this machine."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        remedy = "is another agent running? Name a free port with --port, and an address of this machine with --host"
        raise InputError(error.strerror or str(error), f"{address.host}, port {address.port}", remedy) from None


async def serve(caretaker: Caretaker, address: Address, at: socket.socket) -> None:
    """Serve at a socket until SIGTERM or SIGINT."""
    app = Endpoint(caretaker, address).app()
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve(sockets=[at])
