"""A server that gives MCP clients (Model Context Protocol) a home to act in.

Invariants:
- Each session has its own fork of the home, in which calls run one after another.
- A client sees what an agent may know (tools, and rooms, names and ids of devices), and the tasks only if the server shows
  them.
- Stdout carries the protocol alone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import weakref
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal, cast

from homerl import __version__
from homerl.envs.core.documents import InputError
from homerl.envs.core.world import WorldError, tool_call_to_action
from homerl.envs.homeenv.sim.home_world import HomeWorld
from homerl.envs.homeenv.tasks.prompts import home_system_prompt
from homerl.host.terminal import print_error

try:
    import anyio
    import anyio.to_thread
    from mcp import MCPError, types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.stdio import stdio_server
    from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
    from starlette.requests import ClientDisconnect

    from homerl.host.web_server import serve_until_stopped as serve_app
except ModuleNotFoundError as missing:
    what = f"the package {missing.name} is not installed"
    raise InputError(what, where="serve-env", remedy="pip install 'homerl[mcp]'") from None
except ImportError:
    what = "the package mcp is older than version 2.3, as the extra `interop` needs it"
    raise InputError(what, where="serve-env", remedy="take another environment: pip install 'homerl[mcp]'") from None

Transport = Literal["stdio", "http"]
HOST = "127.0.0.1"  # the server has no authentication, so it listens on this machine only
JSON = "application/json"


class ClientSession:
    """One client: its own fork of the home, and a lock that runs its calls one at a time."""

    def __init__(self, env: HomeWorld) -> None:
        self.env = env
        self._turn = anyio.Lock()

    async def run_tool_call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Run a tool call in a thread.

        The call is never cancelled, since the next call would then find the home in the middle of a step. Raises `MCPError`
        if the home fails; a refused call is a result with `is_error`.
        """
        async with self._turn:
            action = tool_call_to_action(name, arguments, name in self.env.tools_with_name)
            try:
                observation, *_, info = await anyio.to_thread.run_sync(self.env.step, action)
            except WorldError as error:
                raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        return types.CallToolResult(
            content=[types.TextContent(text=observation)],
            structured_content={"observation": observation} | info,  # some clients show only this part to the model
            is_error=bool(info["blocked"] or info["error"]),
        )


class HomeServer:
    """The handlers of the MCP server. Over stdio, which has no session ids, there is one session."""

    def __init__(self, env: HomeWorld, show_tasks: bool = False) -> None:
        self.env, self.show_tasks = env, show_tasks
        self.sessions: dict[str | None, ClientSession] = {}

    def build_mcp_server(self) -> Server:
        """The MCP server with these handlers."""
        server = Server(
            "homerl",
            version=__version__,
            title="A smart home",
            instructions=home_system_prompt(self.env.engine.home.plan.devices),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )
        server.middleware.append(cast(Any, _refuse_sessionless))
        return server

    def session_of_request(self, context: ServerRequestContext) -> ClientSession:
        """The session of a request. The first call creates it; it is dropped when the client's session ends."""
        name = _session_of(context)
        if name not in self.sessions:
            self.sessions[name] = ClientSession(self.env.fork())
            if name:  # `client_params` lives exactly as long as the session
                weakref.finalize(context.session.client_params, self.sessions.pop, name, None)
        return self.sessions[name]

    async def _list_tools(self, context: ServerRequestContext, _: Any) -> types.ListToolsResult:
        tools = []
        for tool in self.env.offered_tools:
            # By the hints, a client asks its user before it calls a tool that may destroy things.
            hints = types.ToolAnnotations(**{f"{name}_hint": value for name, value in asdict(tool.hints).items()})
            schema = tool.function_schema()["function"]["parameters"]
            tools.append(types.Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints))
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, context: ServerRequestContext, call: types.CallToolRequestParams) -> types.CallToolResult:
        return await self.session_of_request(context).run_tool_call(call.name, call.arguments or {})

    async def _list_resources(self, context: ServerRequestContext, _: Any) -> types.ListResourcesResult:
        named = {uri.removeprefix("home://"): uri for uri in self._resources_by_uri(self.env)}
        resources = [types.Resource(uri=uri, name=name, mime_type=JSON) for name, uri in named.items()]
        return types.ListResourcesResult(resources=resources)

    async def _read_resource(
        self, context: ServerRequestContext, wanted: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        known = self._resources_by_uri(self.session_of_request(context).env)
        if wanted.uri not in known:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {wanted.uri}; the resources are {', '.join(known)}")
        text = json.dumps(known[wanted.uri], ensure_ascii=False)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=wanted.uri, mime_type=JSON, text=text)])

    def _resources_by_uri(self, env: HomeWorld) -> dict[str, list[dict[str, Any]]]:
        """The resources that a client may read, by URI."""
        plan = env.engine.home.plan
        known: dict[str, list[dict[str, Any]]] = {
            "home://rooms": [asdict(room) for room in plan.rooms],
            "home://devices": [{"did": d.did, "name": d.name, "room": d.room.id} for d in plan.devices],
        }
        if self.show_tasks:
            tasks = env.engine.task.tasks
            known["home://tasks"] = [{"id": t.id, "condition": t.condition, "finished": t.finished} for t in tasks]
        return known


def _session_of(context: ServerRequestContext) -> str | None:
    return context.request.headers.get("mcp-session-id") if context.request else None


async def _refuse_sessionless(context: ServerRequestContext, call_next: CallNext) -> HandlerResult:
    """Refuse requests without a session over HTTP.

    The newest protocol version has no sessions, so its clients would not come back to the same home. They fall back to the
    handshake of an older version.
    """
    if context.request and not _session_of(context) and context.method != "initialize":
        raise MCPError(
            types.UNSUPPORTED_PROTOCOL_VERSION,
            "a home is kept for a session: open a session with the initialize handshake",
            {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": context.protocol_version},
        )
    return await call_next(context)


def serve_home_over_mcp(env: HomeWorld, transport: Transport = "stdio", port: int = 8000, show_tasks: bool = False) -> None:
    """Serve forks of `env` until stdin ends (stdio) or the process gets SIGTERM or SIGINT.

    Raises `InputError` if the port cannot be opened.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("mcp.server.streamable_http").addFilter(_is_no_hang_up)
    server = HomeServer(env, show_tasks).build_mcp_server()
    if transport == "http":
        listener = _listen(port)
        print_error(f"a home at http://{HOST}:{listener.getsockname()[1]}/mcp")
        _on_stop_signals(lambda *_: None)  # uvicorn handles these signals, and raises them again when it has stopped
        anyio.run(_serve_http, server, listener)
    else:
        _on_stop_signals(lambda *_: os._exit(0))  # a thread that reads stdin would block a normal exit
        anyio.run(_serve_stdio, server)


def _is_no_hang_up(record: logging.LogRecord) -> bool:
    """Whether a record is of anything but a client that hung up before its request was whole."""
    return not (record.exc_info and isinstance(record.exc_info[1], ClientDisconnect))


async def _serve_stdio(server: Server) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(server: Server, listener: socket.socket) -> None:
    await serve_app(server.streamable_http_app(host=HOST), listener)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        remedy = "choose another port, or 0 for any free one"
        raise InputError(f"port {port} cannot be opened: {error}", where="--port", remedy=remedy) from None


def _on_stop_signals(handler: Callable[..., None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
