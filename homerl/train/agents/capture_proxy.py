"""The servers that a program meets in an episode: the model by OpenAI's API, and the world's tools by MCP.

    http://127.0.0.1:PORT/KEY/v1     chat completions of the policy in training, captured with their tokens
    http://127.0.0.1:PORT/KEY/mcp    the tools of the world, with its instructions for agents

Invariants:
- The key is a random secret of one episode. An unknown key is 404. After the episode, and outside of the
  program's turn, a request is 409.
- A program sees what a policy sees: no goal, no plan, no other episode; and there is no tool that resets anything.
- The recipe says how is sampled. A temperature, a limit of tokens or a seed in a request changes nothing.
- A fault of ours (the engine, the world) is 503 and ends the episode as such, whatever the program makes of it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from homerl import __version__
from homerl.envs.core.messages import replace_surrogates
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    completion_response,
    models_response,
    open_listening_socket,
    read_json_body,
    refusal_response,
    serve_beside,
)
from homerl.models.policy.completion_requests import await_unless_gone, completion_message, parse_completion_request
from homerl.play.faults import EPISODE_ERRORS, AgentFault
from homerl.train.agents.program_session import ProgramSession, SessionEnded

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MODEL = "policy"  # the model's name; a request may name any other


class CaptureProxy:
    """Serves the episodes that are open, each under its key."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        # an episode that is served, and its MCP server, by key; None: the episode is over
        self.sessions: dict[str, tuple[ProgramSession, StreamableHTTPSessionManager] | None] = {}

    @asynccontextmanager
    async def open_session(self, session: ProgramSession) -> AsyncIterator[str]:
        """Serve an episode within the context, which gets the URL of its servers."""
        key = secrets.token_urlsafe(24)
        async with _serve_tools(session) as tools:
            self.sessions[key] = session, tools
            try:
                yield f"{self.address.base_url}/{key}"
            finally:
                self.sessions[key] = None

    def build_proxy_app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/{key}/v1/models", self._list_models),
            Route("/{key}/v1/chat/completions", self._complete_chat, methods=["POST"]),
            Route("/{key}/mcp", _ToolsEndpoint(self)),
        ]
        return Starlette(routes=routes, exception_handlers={BadRequest: refusal_response})

    def session_of_request(self, request: Request) -> tuple[ProgramSession, StreamableHTTPSessionManager]:
        """The open episode whose key a request has, and its MCP server."""
        admit_request(request, self.address)
        key = request.path_params["key"]
        if key not in self.sessions:
            raise BadRequest(404, "no episode has this key")
        if (opened := self.sessions[key]) is None:
            raise BadRequest(409, "the episode is over")
        return opened

    async def _list_models(self, request: Request) -> Response:
        self.session_of_request(request)
        return models_response(MODEL)

    async def _complete_chat(self, request: Request) -> Response:
        session, _ = self.session_of_request(request)
        body = await read_json_body(request)
        asked = parse_completion_request(body)
        messages = [said.to_chat_message for said in asked.messages]
        try:
            sampled = await session.sample(messages, body.get("tools") or [], partial(await_unless_gone, request))
        except SessionEnded as error:
            raise BadRequest(409, str(error)) from None
        except (AgentFault, TemplateError) as error:  # the dialogue is too long, or the template takes none like it
            raise BadRequest(400, replace_surrogates(str(error))) from None
        except EPISODE_ERRORS as error:
            raise BadRequest(503, replace_surrogates(str(error))) from None
        if sampled is None:
            return Response(status_code=499)
        reply = sampled.reply
        tokens = reply.prompt_tokens, reply.tokens
        return completion_response(MODEL, completion_message(reply), asked.stream, tokens, sampled.cut)


class _ToolsEndpoint:
    """The MCP server of the episode whose key a request has."""

    def __init__(self, proxy: CaptureProxy) -> None:
        self.proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, tools = self.proxy.session_of_request(Request(scope, receive))
        await tools.handle_request(scope, receive, send)


@asynccontextmanager
async def _serve_tools(session: ProgramSession) -> AsyncIterator[StreamableHTTPSessionManager]:
    """The MCP server of an episode. The key in the path is its session, so that clients need none of their own."""
    from mcp.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    observed = session.episode.observation
    instructions = "\n\n".join(one["content"] for one in observed.messages if one["role"] == "system")
    server = Server(
        "homerl",
        version=__version__,
        instructions=instructions,
        on_list_tools=partial(_list_tools, session),
        on_call_tool=partial(_call_tool, session),
    )
    tools = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with tools.run():
        yield tools


async def _list_tools(session: ProgramSession, context: Any, asked: Any) -> Any:
    from mcp import types

    functions = [tool["function"] for tool in session.episode.world.tools]
    tools = [
        types.Tool(name=one["name"], description=one.get("description"), input_schema=one["parameters"]) for one in functions
    ]
    return types.ListToolsResult(tools=tools)


async def _call_tool(session: ProgramSession, context: Any, call: Any) -> Any:
    from mcp import MCPError, types

    try:
        text, failed = await session.call_tool(call.name, call.arguments or {})
    except SessionEnded as error:
        raise MCPError(types.INVALID_REQUEST, str(error)) from None
    except EPISODE_ERRORS as error:
        raise MCPError(types.INTERNAL_ERROR, replace_surrogates(str(error))) from None
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)


@asynccontextmanager
async def open_capture_proxy() -> AsyncIterator[CaptureProxy]:
    """Serve on a free port of this machine within the context."""
    listener = open_listening_socket(ServerAddress(port=0))
    proxy = CaptureProxy(ServerAddress(port=listener.getsockname()[1]))
    async with serve_beside(proxy.build_proxy_app(), listener):
        yield proxy
