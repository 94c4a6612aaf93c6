"""Answers by a schema: asked for as JSON, read into a model, asked for once more with the error.

Invariants: what cannot be read twice is `Unreadable`, a fault of the model's; what its servers do wrong is an `InfraError`;
a schema that a server refuses is left out from then on; requests to one seed and text are alike in every process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from envs.model import Model
from homerl.chat import FENCE, parse_json
from homerl.endpoint import Endpoint, derived_seed
from homerl.play import RequestRefused
from homerl.settings import EndpointSettings
from homerl.trajectory import Message

Shape = TypeVar("Shape", bound=Model)
AGAIN = "That could not be read ({error}). Answer again, with JSON of the form that was asked for and nothing else."


class Unreadable(Exception):
    """An answer that is not of its shape, nor when asked again."""


@dataclass
class Tally:
    """Requests that were answered, and their tokens."""

    requests: int = 0
    tokens: int = 0


@dataclass
class Asker:
    """Asks one model, in one of its parts."""

    endpoint: Endpoint
    settings: EndpointSettings
    tally: Tally = field(default_factory=Tally)

    async def ask(self, system: str, text: str, shape: type[Shape], seed: int, temperature: float | None = None) -> Shape:
        """The answer, in its shape."""
        messages: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        for attempt in range(2):
            said = await self._said(messages, shape, derived_seed(seed, shape.__name__, attempt), temperature)
            try:
                return shape.model_validate(parse_json(FENCE.sub(r"\1", said.strip())))
            except (ValidationError, ValueError, RecursionError) as error:
                fault = _in_words(error)
                again = AGAIN.format(error=fault)
                messages = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": again}]
        raise Unreadable(fault)

    async def _said(self, messages: list[Message], shape: type[Model], seed: int, temperature: float | None) -> str:
        options: dict[str, Any] = {"max_tokens": self.settings.max_tokens, "seed": seed, "extra_body": self.settings.extra}
        options["temperature"] = self.settings.temperature if temperature is None else temperature
        form = {} if shape.__name__ in self.endpoint.plain else {"response_format": response_format(shape)}
        try:
            answer = await self.endpoint.chat(messages, **options, **form)
        except RequestRefused:
            if not form:
                raise
            answer = await self.endpoint.chat(messages, **options)
            self.endpoint.plain.add(shape.__name__)  # so it was the schema that was refused
        self.tally.requests += 1
        self.tally.tokens += answer.usage.total_tokens if answer.usage else 0
        return answer.choices[0].message.content or ""


def response_format(shape: type[Model]) -> dict[str, Any]:
    """The `response_format` of a shape."""
    schema = {"name": shape.__name__, "strict": True, "schema": shape.model_json_schema()}
    return {"type": "json_schema", "json_schema": schema}


def _in_words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return "it is no JSON"
