"""The HTTP client of `homerl serve-agent`. It needs aiohttp alone, which Home Assistant has."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from homeassistant.exceptions import HomeAssistantError
from homeassistant.util import dt
from yarl import URL

PATIENCE = aiohttp.ClientTimeout(total=90)  # seconds; the agent itself gives a sentence a minute
KEPT = 10  # errors that are remembered


class AgentError(HomeAssistantError):
    """The agent did not answer. The words may be heard, so no address is in them."""


class KeyRefused(AgentError):
    """The agent wants another key."""


class NoAgent(AgentError):
    """What answers is another server, such as a model's own: it would say "Done", and nothing would act."""


def base_of(address: str) -> str:
    """The address of an agent's API, from what a person types: with or without `/v1`. Raises `ValueError`."""
    url = URL(address.strip())
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{address} is no address")
    path = url.path.rstrip("/")
    return str(url.with_path(path if path.endswith("/v1") else f"{path}/v1"))


@dataclass(frozen=True)
class AgentFacts:
    """What an agent says of itself. An older one says neither its version nor its mode."""

    model: str
    version: str | None = None
    mode: str | None = None


@dataclass(frozen=True)
class AgentFailure:
    """When the agent failed, what was said of it, and the kind of the cause: neither has an address or a key."""

    time: str
    said: str
    cause: str


@dataclass
class Agent:
    """An agent that is served at `url`, which ends in `/v1`; what it last said of itself, and its last failures."""

    session: aiohttp.ClientSession
    url: str
    key: str | None = None
    facts: AgentFacts | None = None
    failures: deque[AgentFailure] = field(default_factory=lambda: deque(maxlen=KEPT))

    async def read_facts(self) -> AgentFacts:
        """Ask what it is. Raises `AgentError`, or `NoAgent` if the server does not say that it is an agent."""
        async with self._open_response("GET", "models") as response:
            (model, *_) = (await response.json())["data"] or [{}]
            told = model.get("homerl") or {}
            if told.get("serves") != "agent":
                raise NoAgent("What answers is no agent of homerl, or an older one.")
            self.facts = AgentFacts(str(model["id"]), told.get("version"), told.get("mode"))
            return self.facts

    async def parts(
        self, messages: Sequence[Mapping[str, str]], care: Mapping[str, Any], form: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str]:
        """The reply to a dialogue as it is spoken, with more care than the agent was started with. Raises `AgentError`.

        `form` is the `response_format` of a reply that is data.
        """
        body: dict[str, Any] = {"messages": [*messages], "homerl": {**care}, "stream": True}
        if form is not None:
            body["response_format"] = {**form}
        async with self._open_response("POST", "chat/completions", json=body) as response:
            async for line in response.content:
                told = line.decode().removeprefix("data:").strip()
                if told == "[DONE]":
                    return
                if told and (part := json.loads(told)["choices"][0]["delta"].get("content")):
                    yield part
            raise AgentError("The agent broke off.")

    @asynccontextmanager
    async def _open_response(self, method: str, path: str, **more: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer, whose reading is guarded too: whatever is wrong with it is an `AgentError`, which is remembered."""
        head = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            async with self.session.request(
                method, f"{self.url}/{path}", headers=head, timeout=PATIENCE, **more
            ) as response:
                if response.status in (401, 403):
                    raise KeyRefused("The agent refuses the key.")
                if response.status != 200:
                    raise AgentError(f"The agent has an error of its own, {response.status}.")
                yield response
        except AgentError as error:
            self._record_failure(error, error)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._record_failure(AgentError("The agent does not answer."), error) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._record_failure(AgentError("What answers is no agent of homerl."), error) from error

    def _record_failure(self, error: AgentError, cause: Exception) -> AgentError:
        """The error, of which the list of failures keeps what is no secret."""
        self.failures.append(AgentFailure(dt.utcnow().isoformat(timespec="seconds"), str(error), type(cause).__name__))
        return error
