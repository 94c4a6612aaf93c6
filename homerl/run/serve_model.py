"""An OpenAI-compatible endpoint for a model that this process loads: what serves a model where vLLM cannot, on a CPU.

A message is asked for and read as everywhere in homerl (`Loaded.agents`), so whoever plays with the endpoint gets the calls
that it would get from the model's folder. That is why this is not `transformers serve` (5.17): it leaves out the
words of an earlier message that has calls, escapes in calls what is not ASCII, so that the model reads other text than it
wrote, and lists the models of the hub's cache and not its own.

Invariants: messages are sampled one after the other; one for a client that has hung up is left; it admits whom
`homerl.web.door` admits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from envs.model import Model
from homerl.play.faults import AgentFault
from homerl.play.observation import Observation
from homerl.play.situation import Reply
from homerl.run.model_agents import Loaded
from homerl.web.address import Address
from homerl.web.completions import completion, models
from homerl.web.door import BadRequest, admit, body_of, refused

LOOK = 0.5  # seconds between looks whether the client is still there


class Asked(Model):
    """The fields of a request that are followed; others are left aside."""

    model_config = Model.model_config | {"extra": "ignore"}

    messages: tuple[dict[str, Any], ...] = Field(min_length=1)
    tools: tuple[dict[str, Any], ...] = ()
    temperature: float = Field(0.0, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    n: int = Field(1, ge=1, le=1)
    stream: bool = False

    @property
    def observation(self) -> Observation:
        """The dialogue and the tools as an agent sees them."""
        return Observation("request", tuple(map(plain, self.messages)), self.tools)


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with its content as one text, as chat templates take it."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return {**message, "content": content or ""}


@dataclass(frozen=True)
class ModelServer:
    """The routes. `max_tokens` are the most of a message for which the request names no limit."""

    model: Loaded
    address: Address
    max_tokens: int = 512

    def app(self) -> Starlette:
        """The application."""
        routes = [Route("/v1/models", self._models), Route("/v1/chat/completions", self._chat, methods=["POST"])]
        return Starlette(routes=routes, exception_handlers={BadRequest: refused})

    async def _models(self, request: Request) -> Response:
        admit(request, self.address)
        return models(self.model.name)

    async def _chat(self, request: Request) -> Response:
        admit(request, self.address)
        asked = read(await body_of(request))
        most = asked.max_completion_tokens or asked.max_tokens or self.max_tokens
        agent = self.model.agents(most, asked.temperature, asked.seed)()
        try:
            reply: Reply | None = await _unless_gone(request, agent.propose(asked.observation))
        except AgentFault as error:  # the dialogue is too long
            raise BadRequest(400, str(error)) from None
        if reply is None:
            return Response(status_code=499)
        tokens = reply.prompt_tokens, reply.tokens
        return completion(self.model.name, _with_ids(reply.message), asked.stream, tokens, reply.tokens >= most)


def read(body: Mapping[str, Any]) -> Asked:
    """The request, or `BadRequest` with the first thing that is wrong with it."""
    given = {key: value for key, value in body.items() if value is not None}
    try:
        asked = Asked.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRequest(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if any(message.get("role") not in ("system", "user", "assistant", "tool") for message in asked.messages):
        raise BadRequest(400, "messages: a role is system, user, assistant or tool")
    return asked


async def _unless_gone(request: Request, proposing: Any) -> Reply | None:
    """The reply, or None if the client hung up before it was there; the sampling ends then."""
    task = asyncio.ensure_future(proposing)
    while not task.done():
        await asyncio.wait([task], timeout=LOOK)
        if not task.done() and await request.is_disconnected():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return None
    (reply,) = task.result()
    return reply


def _with_ids(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with an id for each call, to which results refer."""
    calls = [{"id": f"call_{at}", **call} for at, call in enumerate(message.get("tool_calls") or ())]
    return {"role": "assistant", "content": message.get("content") or ""} | ({"tool_calls": calls} if calls else {})
