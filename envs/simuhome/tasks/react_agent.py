"""An agent that asks an OpenAI-compatible endpoint in SimuHome's text form (ReAct) in place of tool calls.

Invariant: the episode does not know the text form. A message is stored as a tool call with the thought as its words;
the next request turns both into text again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from homerl.envs.core.messages import tool_call
from homerl.envs.simuhome.sim import react_format as react
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.llm_agent import request_candidates
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import strip_thoughts_and_controls

RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "step", "schema": react.RESPONSE_SCHEMA, "strict": True}}


class ReActAgent:
    """Asks an endpoint for the next step as one JSON object."""

    def __init__(
        self, endpoint: Endpoint, temperature: float = 0.0, max_tokens: int = 2048, seed: int | None = None, **options: Any
    ) -> None:
        """With a `seed`, every request has a seed derived from it (`seed_for`)."""
        self.name, self.endpoint, self.seed = endpoint.speaker_name, endpoint, seed
        self.options = {"temperature": temperature, "max_tokens": max_tokens, "response_format": RESPONSE_FORMAT} | options

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """`n` candidates for the next message."""
        text = react.text_dialogue(observation.messages, observation.tools)
        said = await request_candidates(self.endpoint, observation, text, n, self.seed, **self.options)
        strict = bool(observation.protocol["strict"])
        return [react_reply(one.message.content or "", strict, one.tokens, one.prompt_tokens) for one in said]


def react_reply(text: str, strict: bool = True, tokens: int = 0, prompt_tokens: int = 0) -> Reply:
    """A model's text as a tool call. If its format is invalid, the reply is marked as malformed."""
    step = react.parse_step(strip_thoughts_and_controls(text), strict)
    if step is None:
        message = {"role": "assistant", "content": text}
        return Reply(message, react.INVALID["error"], tokens, prompt_tokens=prompt_tokens)
    calls = [tool_call(step.tool_name, dict(step.arguments), "call_0")]
    called = {"role": "assistant", "content": step.thought, "tool_calls": calls}
    return Reply(called, None, tokens, prompt_tokens=prompt_tokens)
