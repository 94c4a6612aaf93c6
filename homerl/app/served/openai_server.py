"""An OpenAI-compatible endpoint for a model that this process loads: what serves a model where vLLM cannot, on a CPU.

A message is asked for and read as everywhere in homerl (`LoadedModel.make_agents`), so whoever plays with the endpoint gets
the calls that it would get from the model's folder. That is why this is not `transformers serve` (5.17): it leaves out the
words of an earlier message that has calls, escapes in calls what is not ASCII, so that the model reads other text than it
wrote, and lists the models of the hub's cache and not its own.

Invariants: messages are sampled one after the other; one for a client that has hung up is left; it admits whom
`homerl.host.web_server` admits; what is wrong with a request is told with the status 400, before anything is sampled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError
from pydantic import Field, ValidationError, field_validator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from homerl.app.served.model_agents import LoadedModel
from homerl.envs.core.messages import replace_surrogates
from homerl.envs.core.model import Model
from homerl.envs.core.world import is_too_deep
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    completion_response,
    models_response,
    read_json_body,
    refusal_response,
    wants_json,
)
from homerl.models.policy.transformers_engine import COLDEST
from homerl.play.faults import AgentFault
from homerl.play.situation import JSON_ANSWERS, Observation, Reply

LOOK = 0.5  # seconds between looks whether the client is still there


class RequestPart(Model):
    """A part of a request, of which some fields are followed; others are left aside. No value is taken for another type."""

    model_config = Model.model_config | {"extra": "ignore", "strict": True}


class Text(RequestPart):
    """A part of a content: the model reads text alone."""

    type: Literal["text"]
    text: str


class CalledFunction(RequestPart):
    """What a call of an earlier message calls, with its arguments as JSON."""

    name: str
    arguments: str

    @field_validator("arguments")
    @classmethod
    def _require_json_object(cls, arguments: str) -> str:
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or is_too_deep(value):
            raise ValueError("arguments are a JSON object, as text")
        return arguments


class EarlierCall(RequestPart):
    """A call of an earlier message."""

    type: Literal["function"] = "function"
    id: str | None = None
    function: CalledFunction


class RequestMessage(RequestPart):
    """A message of the dialogue."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Text] | None = None
    tool_calls: list[EarlierCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def to_chat_message(self) -> dict[str, Any]:
        """The message with its content as one text, as chat templates take it."""
        content = self.content
        text = "".join(part.text for part in content) if isinstance(content, list) else content or ""
        return self.model_dump(exclude_none=True, exclude={"content"}) | {"content": text}


class ToolFunction(RequestPart):
    """What a tool is called, and which arguments it takes."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(RequestPart):
    """A tool that the model may call. It is shown to the model as it was sent."""

    type: Literal["function"]
    function: ToolFunction


class CompletionRequest(RequestPart):
    """A request."""

    messages: list[RequestMessage] = Field(min_length=1)
    tools: list[OfferedTool] = []
    temperature: float = Field(0.0, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    n: int = Field(1, ge=1, le=1)
    stream: bool = False

    @field_validator("temperature")
    @classmethod
    def _refuse_near_zero(cls, temperature: float) -> float:
        if 0 < temperature < COLDEST:
            raise ValueError(f"temperature is 0, which is greedy, or at least {COLDEST:g}")
        return temperature


@dataclass(frozen=True)
class ModelServer:
    """The routes. `max_tokens` are the most of a message for which the request names no limit."""

    model: LoadedModel
    address: ServerAddress
    max_tokens: int = 512

    def build_server_app(self) -> Starlette:
        """The application."""
        routes = [Route("/v1/models", self._models), Route("/v1/chat/completions", self._chat, methods=["POST"])]
        return Starlette(routes=routes, exception_handlers={BadRequest: refusal_response})

    async def _models(self, request: Request) -> Response:
        admit_request(request, self.address)
        return models_response(self.model.name)

    async def _chat(self, request: Request) -> Response:
        admit_request(request, self.address)
        body = await read_json_body(request)
        asked = parse_completion_request(body)
        messages = tuple(said.to_chat_message for said in asked.messages)
        protocol = {JSON_ANSWERS: True} if wants_json(body) else {}
        observation = Observation("request", messages, tuple(body.get("tools") or ()), protocol=protocol)
        most = asked.max_completion_tokens or asked.max_tokens or self.max_tokens
        most = min(most, self.model.engine.engine.context_length or most)  # never more than the model takes in all
        agent = self.model.make_agents(most, asked.temperature, asked.seed)()
        try:
            reply: Reply | None = await _propose_unless_gone(request, agent.propose(observation))
        except (AgentFault, TemplateError) as error:  # the dialogue is too long, or the model's template takes none like it
            raise BadRequest(400, replace_surrogates(str(error))) from None
        if reply is None:
            return Response(status_code=499)
        tokens = reply.prompt_tokens, reply.tokens
        message: dict[str, Any] = {"role": "assistant", "content": reply.message.get("content") or ""}
        if calls := reply.message.get("tool_calls"):  # each gets an id, to which its result will refer
            message["tool_calls"] = [{"id": f"call_{at}", **call} for at, call in enumerate(calls)]
        return completion_response(self.model.name, message, asked.stream, tokens, reply.tokens >= most)


def parse_completion_request(body: Mapping[str, Any]) -> CompletionRequest:
    """The request, or `BadRequest` with the first thing that is wrong with it."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
        return CompletionRequest.model_validate({key: value for key, value in body.items() if value is not None})
    except UnicodeEncodeError:
        raise BadRequest(400, "a text has half of a surrogate pair") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRequest(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


async def _propose_unless_gone(request: Request, proposing: Any) -> Reply | None:
    """The reply, or None if the client hung up before it was there; the sampling ends then."""
    task = asyncio.ensure_future(proposing)
    while not task.done():
        await asyncio.wait([task], timeout=LOOK)
        if not task.done() and await request.is_disconnected():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return None
    reply: Reply
    (reply,) = task.result()
    return reply
