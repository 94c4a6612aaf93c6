"""Forks over the wire: three messages that homerl adds to OpenEnv's WebSocket. `docs/interop.md` proposes them to others.

    {"type": "fork"}                                 {"type": "fork", "data": {"fork_id": ..., "state_key": ...}}
    {"type": "restore", "data": {"fork_id": ...}}    an observation, as `reset` gives it
    {"type": "state_key"}                            {"type": "state_key", "data": {"state_key": ...}}

Invariants:
- They are messages of the trainer's WebSocket. An action cannot hold one, and MCP has none of them.
- A fork lives until the session that made it ends or is reset. Any session of the server may restore it by its id, which
  cannot be guessed.
- All other messages reach OpenEnv's server as they came.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4

from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import BaseMessage, WSErrorCode, WSErrorResponse, WSObservationResponse
from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST = 4096  # forks of a session
T = TypeVar("T")


class ForkStore(Generic[T]):
    """The forks of all sessions of a server, each with the session that made it."""

    def __init__(self) -> None:
        self._kept: dict[str, T] = {}
        self._owned: dict[int, list[str]] = {}

    def keep(self, saved: T, owner: object) -> str:
        """Keep a fork, and return its id. Raises `ValueError` if its owner has too many."""
        ids = self._owned.setdefault(id(owner), [])
        if len(ids) >= MOST:
            raise ValueError(f"a session keeps at most {MOST} forks: `reset` drops those that it has")
        ids.append(uuid4().hex)
        self._kept[ids[-1]] = saved
        return ids[-1]

    def find(self, fork_id: str) -> T:
        """The fork of an id. Raises `ValueError` if there is none, or none any more."""
        if fork_id not in self._kept:
            raise ValueError(f"there is no fork {fork_id[:80]!r}: its session has ended, or was reset")
        return self._kept[fork_id]

    def drop_owned(self, owner: object) -> None:
        """Drop the forks of a session."""
        for fork_id in self._owned.pop(id(owner), ()):
            del self._kept[fork_id]


class RestoreMessage(BaseMessage):
    """The message `restore`."""

    class Which(BaseMessage):
        """The fork to go on from."""

        fork_id: str

    type: str
    data: Which


class PlainMessage(BaseMessage):
    """The messages `fork` and `state_key`."""

    type: str
    data: dict[str, Any] = {}


class ForkMessages:
    """ASGI middleware that answers the three messages on OpenEnv's WebSocket."""

    connected: ClassVar[ContextVar[Any]] = ContextVar("connected", default=None)  # the environment of this connection
    TYPES = ("fork", "restore", "state_key")

    def __init__(self, app: ASGIApp, server: HTTPEnvServer) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a connection: the messages of forks here, and all else by OpenEnv's server."""
        if scope["type"] != "websocket" or scope["path"] != "/ws":
            await self._app(scope, receive, send)
            return
        named = QueryParams(scope["query_string"]).get("session_id")  # a session that MCP has made, read as OpenEnv reads it
        self.connected.set(self._server._sessions.get(named))

        async def receive_other() -> Message:
            while True:
                message = await receive()
                answer = await self._answer(message)
                if answer is None:
                    return message
                await send({"type": "websocket.send", "text": answer})

        await self._app(scope, receive_other, send)

    async def _answer(self, message: Message) -> str | None:
        """The answer to a message of forks; None for any other."""
        text = message.get("text") or ""
        if not any(f'"{name}"' in text for name in self.TYPES):  # most messages need not be read twice
            return None
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):  # OpenEnv's server says so
            return None
        if not isinstance(said, dict) or said.get("type") not in self.TYPES:
            return None
        try:
            return await self._run(said, self.connected.get())
        except ValidationError as wrong:
            data: dict[str, Any] = {"message": "Invalid message", "code": WSErrorCode.VALIDATION_ERROR}
            data["errors"] = wrong.errors(include_url=False, include_context=False)
        except ValueError as refused:
            data = {"message": str(refused), "code": WSErrorCode.EXECUTION_ERROR}
        return str(WSErrorResponse(data=data).model_dump_json())

    async def _run(self, said: dict[str, Any], environment: Any) -> str:
        if environment is None:
            raise ValueError("this connection has no session")
        if said["type"] == "restore":
            observation = await environment.restore_fork(RestoreMessage(**said).data.fork_id)
            return str(WSObservationResponse(data=serialize_observation(observation)).model_dump_json())
        PlainMessage(**said)
        data = await (environment.keep_fork() if said["type"] == "fork" else environment.read_state_key())
        return json.dumps({"type": said["type"], "data": data})
