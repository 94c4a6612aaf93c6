"""An agent that asks an OpenAI-compatible endpoint in SimuHome's text form of tool calls (ReAct).

Each message in this form is one JSON object with thought, action and action_input.

Invariants:
- The episode does not know the text form. A message is stored as a tool call with the thought as its words; the next
  request turns both into text again.
- `parse_step` never raises on a model's text.
- In strict mode braces inside strings are counted as well, as the released program counts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.core.messages import tool_call
from homerl.envs.core.world import MOST_TEXT
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.llm_agent import request_candidates
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import strip_thoughts_and_controls

INVALID = {"error": "Invalid structured output format"}
BRACES = re.compile("{+|}+")
RESPONSE_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("thought", "action", "action_input")},
    "required": ["thought", "action", "action_input"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class ReActStep:
    """One message of the agent, parsed."""

    thought: str
    action: str
    arguments: Mapping[str, Any]

    @property
    def tool_name(self) -> str:
        """The tool that the step calls. `finish` is recognised in any case."""
        return "finish" if self.action.lower() == "finish" else self.action


def parse_step(text: str, strict: bool = True) -> ReActStep | None:
    """The step in a message, or None if its format is invalid, or if the message is longer than `MOST_TEXT`."""
    if len(text) > MOST_TEXT:
        return None
    try:
        step = _read_counted_object(text) if strict else json.JSONDecoder().raw_decode(text, text.index("{"))[0]
        given = step["action_input"]
        arguments = given if isinstance(given, dict) else json.loads(given) if given.strip() else {}
        well_formed = isinstance(step["thought"], str) and isinstance(step["action"], str) and isinstance(arguments, dict)
        return ReActStep(step["thought"], step["action"], arguments) if well_formed else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _read_counted_object(text: str) -> dict[str, Any]:
    """The JSON object from the first brace to the one that closes it, by counting braces. Raises `ValueError`.

    Braces within strings count too, as in the released program.
    """
    start, depth = text.index("{"), 0
    for braces in BRACES.finditer(text, start):
        count = len(braces.group())
        if braces.group()[0] == "{":
            depth += count
        elif count < depth:
            depth -= count
        else:
            step: dict[str, Any] = json.loads(text[start : braces.start() + depth])
            return step
    raise ValueError("the braces do not close")


def observation_text(result: Any) -> str:
    """The message that shows a result to the agent."""
    return f"observation: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def text_dialogue(messages: Sequence[Mapping[str, Any]], tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A dialogue of OpenAI tool calls in the text form.

    The dialogue must start with a system message whose last paragraph is the context, followed by one user message.
    """
    conduct, _, context = messages[0]["content"].rpartition("\n\n")
    texts = [{"role": "system", "content": system_text(tools, conduct)}]
    for message in messages[1:]:
        role, content = "user", message.get("content") or ""
        if message["role"] == "user":
            content = f"User query: {content}\n{context}\nAnswer with one JSON object: thought, action and action_input."
        elif message["role"] == "tool":
            content = observation_text(json.dumps(INVALID) if content.startswith("refused: syntax") else content)
        else:
            role = "assistant"
            if calls := message.get("tool_calls"):  # a tool call becomes the JSON object that it was
                call = calls[0]["function"]
                step = {"thought": content or "", "action": call["name"], "action_input": call["arguments"]}
                content = json.dumps(step, ensure_ascii=False)
        texts.append({"role": role, "content": content})
    return texts


def system_text(tools: Iterable[Mapping[str, Any]], conduct: str) -> str:
    """The system message in our own words: rules of conduct, the format, the tools and the device types."""
    functions = sorted((tool["function"] for tool in tools), key=lambda function: function["name"])
    table = ["| tool | what it does | arguments |", "|---|---|---|"]
    for function in functions:
        parameters = function["parameters"]
        required = parameters.get("required", ())
        arguments = [f"{name}{'' if name in required else ' (optional)'}" for name in parameters["properties"]]
        table.append(f"| {function['name']} | {function['description']} | {', '.join(arguments) or 'none'} |")
    form = (
        "Work step by step. Every message of yours is one JSON object:\n"
        '{"thought": "...", "action": "<tool>", "action_input": "<JSON object>"}.\n'
        "You then read what the tool observed. When all is done, call finish with your answer to the user."
    )
    return "\n".join((conduct, "", form, "", *table, "", f"Device types: {', '.join(sorted(device_types()))}."))


RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "step", "schema": RESPONSE_SCHEMA, "strict": True}}


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
        text = text_dialogue(observation.messages, observation.tools)
        said = await request_candidates(self.endpoint, observation, text, n, self.seed, **self.options)
        strict = bool(observation.protocol["strict"])
        return [react_reply(one.message.content or "", strict, one.tokens, one.prompt_tokens) for one in said]


def react_reply(text: str, strict: bool = True, tokens: int = 0, prompt_tokens: int = 0) -> Reply:
    """A model's text as a tool call. If its format is invalid, the reply is marked as malformed."""
    step = parse_step(strip_thoughts_and_controls(text), strict)
    if step is None:
        message = {"role": "assistant", "content": text}
        return Reply(message, INVALID["error"], tokens, prompt_tokens=prompt_tokens)
    calls = [tool_call(step.tool_name, dict(step.arguments), "call_0")]
    called = {"role": "assistant", "content": step.thought, "tool_calls": calls}
    return Reply(called, None, tokens, prompt_tokens=prompt_tokens)
