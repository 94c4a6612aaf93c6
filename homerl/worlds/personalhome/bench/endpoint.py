"""An OpenAI-compatible endpoint as the agent that revises plans.

Invariant: its answer is not corrected; calls that it wrote as text are read from there, as `homerl bench run` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.messages import Message
from homerl.llm.endpoint import Endpoint
from homerl.play.messages import parse_reply
from homerl.play.observation import Observation
from homerl.play.situation import Reply


class EndpointAgent:
    """Asks an endpoint for the next message, at temperature 0."""

    def __init__(self, endpoint: Endpoint, max_tokens: int = 2048) -> None:
        self.name, self.endpoint, self.max_tokens = f"llm:{endpoint.model}", endpoint, max_tokens

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """The next message. Raises `InfraError` if the server fails."""
        sent = [
            {key: value for key, value in message.items() if value not in ([], None)} for message in observation.messages
        ]
        answer = await self.endpoint.chat(
            sent, n=n, temperature=0.0, max_tokens=self.max_tokens,
            **({"tools": list(observation.tools)} if observation.tools else {}),
        )  # fmt: skip
        return [_reply(choice.message.model_dump(exclude_none=True)) for choice in answer.choices]


def _reply(said: Message) -> Reply:
    message: Message = {"role": "assistant", "content": said.get("content") or ""}
    calls = [one for one in said.get("tool_calls") or () if one.get("type") == "function"]
    if calls:
        return Reply(message | {"tool_calls": calls})
    parsed, broken = parse_reply(message["content"])
    for number, one in enumerate(parsed.get("tool_calls", ())):
        one["id"] = f"call_{number}"  # a tool's result refers to its call by id
    return Reply(parsed, broken)
