"""The HTTP client of `homerl serve-agent`. It needs aiohttp alone, which Home Assistant has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from homeassistant.exceptions import HomeAssistantError
from yarl import URL

PATIENCE = aiohttp.ClientTimeout(total=90)  # seconds; the agent itself gives a sentence a minute


class AgentError(HomeAssistantError):
    """The agent did not answer."""


class KeyRefused(AgentError):
    """The agent wants another key."""


def base_of(address: str) -> str:
    """The address of an agent's API, from what a person types: with or without `/v1`. Raises `ValueError`."""
    url = URL(address.strip())
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{address} is no address")
    path = url.path.rstrip("/")
    return str(url.with_path(path if path.endswith("/v1") else f"{path}/v1"))


@dataclass(frozen=True)
class Agent:
    """An agent that is served at `url`, which ends in `/v1`."""

    session: aiohttp.ClientSession
    url: str
    key: str | None = None

    async def name(self) -> str:
        """The name of its model. Raises `AgentError`."""
        answer = await self._asked("GET", "models")
        return str(answer["data"][0]["id"]) if answer.get("data") else "homerl"

    async def reply(self, messages: Sequence[Mapping[str, str]], care: Mapping[str, Any]) -> str:
        """The reply to a dialogue, with more care than the agent was started with. Raises `AgentError`."""
        answer = await self._asked("POST", "chat/completions", json={"messages": [*messages], "homerl": {**care}})
        try:
            return str(answer["choices"][0]["message"]["content"] or "")
        except (KeyError, IndexError, TypeError):
            raise AgentError(f"{self.url} gave no reply. Is it `homerl serve-agent`?") from None

    async def _asked(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        head = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            async with self.session.request(
                method, f"{self.url}/{path}", headers=head, timeout=PATIENCE, **more
            ) as response:
                if response.status in (401, 403):
                    raise KeyRefused(f"{self.url} refuses the key")
                if response.status != 200:
                    raise AgentError(f"{self.url} answers HTTP {response.status}")
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise AgentError(f"{self.url} does not answer ({type(error).__name__})") from error
        if not isinstance(answer, dict):
            raise AgentError(f"{self.url} gave no reply. Is it `homerl serve-agent`?")
        return answer
