"""Structured answers: requested as JSON with a schema, parsed into a pydantic model, requested once more with the error.

Invariants:
- What the model thinks is no part of its answer.
- An answer that cannot be parsed twice is an `UnreadableAnswer`, a fault of the model.
- Errors of servers are an `InfraError`.
- A schema that a server refuses is left out of later requests.
- The requests for one seed and text are the same in every process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ValidationError

from homerl.envs.core.messages import Message, replace_surrogates
from homerl.envs.core.model import Model
from homerl.models.endpoint.endpoint import Endpoint, derive_seed
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.play.faults import Boundary, Fault, InfraError, fault_from_error
from homerl.play.tool_call_parser import parse_model_json, strip_code_fence, strip_thoughts_and_controls

Shape = TypeVar("Shape", bound=Model)
T = TypeVar("T")
AGAIN = "That could not be read ({error}). Answer again, with JSON of the form that was asked for and nothing else."


AT_ONCE = 16  # requests


async def ask_at_once(
    todo: Collection[T], ask: Callable[[T], Awaitable[bool]], progress: Callable[[int, int], None]
) -> None:
    """Ask each, `AT_ONCE` at a time. `progress` is called with (how many were answered, how many there are)."""
    gate, answered = asyncio.Semaphore(AT_ONCE), 0

    async def ask_in_turn(one: T) -> None:
        nonlocal answered
        async with gate:
            heard = await ask(one)
        answered += heard  # after the await: `answered += await ...` would lose what others added meanwhile
        progress(answered, len(todo))

    await asyncio.gather(*map(ask_in_turn, todo))


class UnreadableAnswer(Exception):
    """The model's answer could not be parsed, and its second answer could not either."""


@dataclass
class RequestsSpent:
    """The number of answered requests, and their tokens."""

    requests: int = 0
    tokens: int = 0


@dataclass
class StructuredClient:
    """Sends structured requests to one model in one role."""

    endpoint: Endpoint
    settings: EndpointSettings
    tally: RequestsSpent = field(default_factory=RequestsSpent)

    async def ask(self, system: str, text: str, shape: type[Shape], seed: int, temperature: float | None = None) -> Shape:
        """The model's answer, parsed as `shape`.

        Raises `UnreadableAnswer` if neither of two answers can be parsed, and `InfraError` if the server fails.
        """
        messages: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        for attempt in range(2):
            said = await self._request_text(messages, shape, derive_seed(seed, shape_name(shape), attempt), temperature)
            try:
                return shape.model_validate(parse_model_json(strip_code_fence(strip_thoughts_and_controls(said))))
            except (ValidationError, ValueError, RecursionError) as error:
                fault = "it is no JSON"
                if isinstance(error, ValidationError):
                    first = error.errors()[0]
                    fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
                again = AGAIN.format(error=fault)
                messages = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": again}]
        raise UnreadableAnswer(fault)

    async def _request_text(self, messages: list[Message], shape: type[Model], seed: int, temperature: float | None) -> str:
        options: dict[str, Any] = {"max_tokens": self.settings.max_tokens, "seed": seed, "extra_body": self.settings.extra}
        options["temperature"] = self.settings.temperature if temperature is None else temperature
        answer = await self.endpoint.chat_in_form(messages, response_format(shape), **options)
        self.tally.requests += 1
        self.tally.tokens += answer.usage.total_tokens if answer.usage else 0
        return answer.choices[0].message.content or ""


def text_in_one_line(text: str) -> str:
    """The text in one line. Raises `ValueError` if it is empty."""
    if not (words := " ".join(text.split())):
        raise ValueError("it is empty")
    return words


# A text of an answer. Its schema has no bound on the length: servers differ in their support for it.
OneLineText = Annotated[str, AfterValidator(text_in_one_line)]


def shape_name(shape: type[Model]) -> str:
    """The name of an answer's shape in requests. They are seeded by it, so a renamed class keeps it as its `title`."""
    return shape.model_config.get("title") or shape.__name__


def response_format(shape: type[Model]) -> dict[str, Any]:
    """The field `response_format` of a request whose answer must have this shape."""
    schema = {"name": shape_name(shape), "strict": True, "schema": shape.model_json_schema()}
    return {"type": "json_schema", "json_schema": schema}


def judge_fault(error: InfraError | UnreadableAnswer) -> Fault:
    """The judge's fault, whether its server failed or its answer cannot be read."""
    if isinstance(error, UnreadableAnswer):
        return Fault(Boundary.JUDGE, replace_surrogates(f"unreadable: {error}"))
    return Fault(Boundary.JUDGE, f"server: {fault_from_error(error).reason}")
