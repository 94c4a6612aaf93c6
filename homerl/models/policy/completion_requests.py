"""Requests of OpenAI's chat completions, as homerl's servers of models read them, and what such a server answers.

Invariants: what is wrong with a request is told with the status 400, before anything is sampled; a message for a client that
has hung up is left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator
from starlette.requests import Request

from homerl.envs.core.model import Model
from homerl.envs.core.world import is_too_deep
from homerl.host.web_server import BadRequest
from homerl.models.policy.transformers_engine import COLDEST
from homerl.play.situation import Reply

Done = TypeVar("Done")
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


async def await_unless_gone(request: Request, work: Awaitable[Done]) -> Done | None:
    """The result of work for a request, or None if the client hung up before it was there; the work ends then."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=LOOK)
            if not task.done() and await request.is_disconnected():
                return None
        return task.result()
    finally:  # also where the server itself ends the request; a task that is done stays so
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def completion_message(reply: Reply) -> dict[str, Any]:
    """A reply as the message of a completion. Each call gets an id, to which its result will refer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.message.get("content") or ""}
    if calls := reply.message.get("tool_calls"):
        message["tool_calls"] = [{"id": f"call_{at}", **call} for at, call in enumerate(calls)]
    return message
