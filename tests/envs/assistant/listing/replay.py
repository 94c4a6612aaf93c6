"""A server that gives the recorded answers of a real Home Assistant: its WebSocket, REST and MCP, behind a token.

It keeps no state: a service call gets its recorded outcome, and the states stay those of the listing. What was not recorded
is refused as Home Assistant refuses what it does not know.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from running import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import ENTITY, ENTRIES, SERVICES, STATES, Listing
from homerl.envs.homeenv.sim.home import Home

FOLDER = Path(__file__).parent / "recorded"
TOKEN = "a-token-of-the-replay"


@cache
def recorded(name: str) -> Any:
    """A record by its name."""
    (path,) = FOLDER.glob(f"{name}.json*")
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def listing() -> Listing:
    """The recorded listing."""
    return Listing.model_validate(recorded("listing"))


@cache
def _recorded_home() -> Home:
    return import_home(listing()).home


def recorded_home() -> Home:
    """The home of the recorded listing, to be changed at will. It is imported once."""
    return _recorded_home().fork()


def naming(home: Listing, said: object) -> Listing:
    """The listing without entities that a text does not name, since the import of all takes long."""
    return only(home, set(ENTITY.findall(repr(said))))


def only(home: Listing, ids: Collection[str]) -> Listing:
    """The listing with the entities of these ids alone."""
    rows = [row for row in home.sources[STATES] if row["entity_id"] in ids]
    return home.with_sources({STATES: rows})


class Unknown(Exception):
    """What Home Assistant says of what it does not know: a code and a message."""


@dataclass
class Replay:
    """The server, as a context manager. It runs in a thread, on the loopback."""

    listing: Listing = field(default_factory=listing)
    lacks: frozenset[str] = frozenset()  # commands that this version does not have
    silent: frozenset[str] = frozenset()  # commands to which it gives no answer
    hangs_up: frozenset[str] = frozenset()  # commands at which it closes the connection
    garbled: frozenset[str] = frozenset()  # commands that it answers with half a message
    seen: list[dict[str, Any]] = field(default_factory=list)  # the commands that came
    away: bool = False  # whether nothing answers
    open: list[WebSocket] = field(default_factory=list)  # the connections
    heard: list[tuple[WebSocket, int, str]] = field(default_factory=list)  # the subscriptions to kinds of events

    def __enter__(self) -> Replay:
        routes = [
            WebSocketRoute("/api/websocket", self._converse),
            Route("/api/states", self._with_token(lambda _: JSONResponse(self.listing.sources["get_states"]))),
            Route("/api/states/{entity}", self._with_token(self._state)),
            Route("/api/mcp/assist", self._mcp, methods=["POST"]),
        ]
        self._running = running(Starlette(routes=routes), quiet=True)
        self.url = f"http://127.0.0.1:{self._running.__enter__()}"
        return self

    def __exit__(self, *raised: Any) -> None:
        self._running.__exit__(*raised)

    def fire(self, kind: str) -> None:
        """Tell those who have subscribed that something has happened."""
        for connection, number, wanted in self.heard:
            if wanted == kind:
                told = {"id": number, "type": "event", "event": {"event_type": kind, "data": {}}}
                asyncio.run_coroutine_threadsafe(connection.send_json(told), self._loop).result(10)

    def stop(self) -> None:
        """Hang up on everybody, and answer nobody until `away` is false again."""
        self.away, self.heard = True, []
        for connection in self.open:
            asyncio.run_coroutine_threadsafe(connection.close(), self._loop).result(10)

    async def _converse(self, connection: WebSocket) -> None:
        self._loop = asyncio.get_running_loop()
        if self.away:
            return await connection.close()
        await connection.accept()
        version = {"ha_version": self.listing.version}
        await connection.send_json({"type": "auth_required"} | version)
        if (await connection.receive_json()).get("access_token") != TOKEN:
            await connection.send_json({"type": "auth_invalid", "message": "Invalid access token or password"})
            return await connection.close()
        await connection.send_json({"type": "auth_ok"} | version)
        self.open.append(connection)
        try:
            while True:
                message = await connection.receive_json()
                self.seen.append(message)
                if message["type"] in self.hangs_up:
                    return await connection.close()
                if message["type"] == "subscribe_events":
                    self.heard.append((connection, message["id"], message["event_type"]))
                if message["type"] == "subscribe_trigger":
                    self.heard.append((connection, message["id"], message["trigger"]["event_type"]))
                if message["type"] in self.garbled:
                    await connection.send_text('{"id": ')
                elif message["type"] not in self.silent:
                    await connection.send_json({"id": message["id"], "type": "result"} | self._answer(message))
        except WebSocketDisconnect:
            return None
        finally:
            self.open.remove(connection)
            self.heard = [one for one in self.heard if one[0] is not connection]

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"success": True, "result": self._result(message)}
        except Unknown as error:
            return {"success": False, "error": dict(zip(("code", "message"), error.args))}

    def _result(self, message: Mapping[str, Any]) -> Any:
        command, sources = message["type"], self.listing.sources
        if command in self.lacks:
            raise Unknown("unknown_command", "Unknown command.")
        if command in ("subscribe_events", "subscribe_trigger"):
            return None
        if command == ENTRIES:
            return {entity: sources[ENTRIES].get(entity) for entity in message["entity_ids"]}
        if command == SERVICES:
            return sources[SERVICES].get(message["target"]["entity_id"][0], [])
        if command == "call_service":
            return _outcome(message)
        if command == "conversation/process":
            return _spoken(message["text"])
        if command not in sources:
            raise Unknown("unknown_command", "Unknown command.")
        return sources[command]

    def _state(self, request: Request) -> Response:
        states = {state["entity_id"]: state for state in self.listing.sources["get_states"]}
        found = states.get(request.path_params["entity"])
        return JSONResponse(found) if found else JSONResponse({"message": "Entity not found."}, 404)

    async def _mcp(self, request: Request) -> Response:
        if not _allowed(request):
            return PlainTextResponse("401: Unauthorized", 401)
        asked = await request.json()
        answer = _tool_answer(asked["method"], asked.get("params") or {})
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"]} | answer)

    def _with_token(self, give: Callable[[Request], Response]) -> Callable[[Request], Response]:
        return lambda request: give(request) if _allowed(request) else PlainTextResponse("401: Unauthorized", 401)


def _allowed(request: Request) -> bool:
    return request.headers.get("authorization") == f"Bearer {TOKEN}"


def _outcome(message: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of the first recorded call that is the same."""
    service, data = f"{message['domain']}.{message['service']}", message.get("service_data", {})
    entity = message.get("target", {}).get("entity_id")
    for call in recorded("services"):
        if (call["entity"], call["service"], call["data"]) == (entity, service, data):
            outcome = call["outcome"]
            if "error" in outcome:
                raise Unknown(outcome["code"], outcome["error"])
            return {"context": {}, "response": outcome.get("response")}
    raise Unknown("not_found", f"Service {service} not found.")


def _spoken(text: str) -> Any:
    answers = {said["sentence"]: said["answer"] for said in recorded("assist")["sentences"]}
    if text not in answers:
        raise Unknown("unknown_error", "This sentence was not recorded.")
    return answers[text]


def _tool_answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded answer of the MCP server to a method."""
    shown = recorded("tools")
    if method == "tools/call":
        for call in recorded("assist")["calls"]:
            if (call["tool"], call["arguments"]) == (params["name"], params["arguments"]):
                return {"result": {"content": [{"type": "text", "text": call["text"]}], "isError": call["failed"]}}
        text = f'Error calling tool: Tool "{params["name"]}" not found'
        return {"result": {"content": [{"type": "text", "text": text}], "isError": True}}
    results: dict[str, Any] = {
        "initialize": shown["server"],
        "tools/list": {"tools": shown["tools"]},
        "prompts/list": {"prompts": [{"name": prompt["name"]} for prompt in shown["prompts"]]},
        "prompts/get": shown["prompts"][0],
    }
    if method not in results:
        return {"error": {"code": -32601, "message": "Method not found", "data": method}}
    return {"result": results[method]}
