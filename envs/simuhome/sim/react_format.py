"""The paper's text form of tool calls (ReAct): each message is one JSON object with thought, action and action_input.

Invariants:
- `parse_step` never raises on a model's text.
- In strict mode braces inside strings are counted as well, as the released program counts them.
- A message without a valid call counts as a failure. The third failure in a row ends an episode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.core.world import MOST_TEXT
from homerl.envs.simuhome.sim.device_catalogue import device_types

INVALID = {"error": "Invalid structured output format"}
BRACES = re.compile("{+|}+")
MAX_TURNS, MAX_FAILURES, MAX_POLLS = 20, 3, 8
LONGEST_POLL = 8  # seconds
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
    def world_action(self) -> dict[str, Any]:
        """The step as an action of the world. The name `finish` is recognised in any case."""
        return {"name": "finish" if self.action.lower() == "finish" else self.action, **self.arguments}


def poll_seconds(number: int) -> int:
    """The seconds that pass before a status query of a workflow is answered, by its number: 0, 1, 2, 4, 8, 8..."""
    return 0 if number < 2 else min(2 ** (number - 2), LONGEST_POLL)


def parse_step(text: str, strict: bool = True) -> ReActStep | None:
    """The step in a message, or None if its format is invalid, or if the message is longer than `MOST_TEXT`."""
    if len(text) > MOST_TEXT:
        return None
    try:
        step = _by_counting_braces(text) if strict else _by_json_decoder(text)
        given = step["action_input"]
        arguments = given if isinstance(given, dict) else json.loads(given) if given.strip() else {}
        well_formed = isinstance(step["thought"], str) and isinstance(step["action"], str) and isinstance(arguments, dict)
        return ReActStep(step["thought"], step["action"], arguments) if well_formed else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _by_counting_braces(text: str) -> dict[str, Any]:
    """The JSON object from the first brace to the one that closes it, by counting braces. Raises `ValueError`."""
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


def _by_json_decoder(text: str) -> dict[str, Any]:
    """The JSON object that starts at the first brace. Raises `ValueError`."""
    step: dict[str, Any] = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    return step


def observation_text(result: Any) -> str:
    """The message that shows a result to the agent."""
    return f"observation: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def task_text(query: str, context: str) -> str:
    """The message that sets the task. `context` says where the user is and what time it is."""
    return f"User query: {query}\n{context}\nAnswer with one JSON object: thought, action and action_input."


def text_dialogue(messages: Sequence[Mapping[str, Any]], tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A dialogue of OpenAI tool calls in the text form.

    The dialogue must start with a system message whose last paragraph is the context, followed by one user message.
    """
    conduct, _, context = messages[0]["content"].rpartition("\n\n")
    said = [{"role": "system", "content": system_text(tools, conduct)}]
    for message in messages[1:]:
        match message["role"]:
            case "user":
                said.append({"role": "user", "content": task_text(message["content"], context)})
            case "tool":
                seen = json.dumps(INVALID) if message["content"].startswith("refused: syntax") else message["content"]
                said.append({"role": "user", "content": observation_text(seen)})
            case _:
                said.append({"role": "assistant", "content": _message_text(message)})
    return said


def _message_text(message: Mapping[str, Any]) -> str:
    """The text of an agent's message. A tool call becomes the JSON object that it was."""
    calls = message.get("tool_calls") or ()
    if not calls:
        return str(message["content"])
    function = calls[0]["function"]
    step = {"thought": message.get("content") or "", "action": function["name"], "action_input": function["arguments"]}
    return json.dumps(step, ensure_ascii=False)


def system_text(tools: Iterable[Mapping[str, Any]], conduct: str) -> str:
    """The system message in our own words: rules of conduct, the format, the tools and the device types."""
    functions = sorted((tool["function"] for tool in tools), key=lambda function: function["name"])
    rows = [f"| {one['name']} | {one['description']} | {_arguments(one['parameters'])} |" for one in functions]
    table = ("| tool | what it does | arguments |", "|---|---|---|", *rows)
    return "\n".join((conduct, "", *_FORM, "", *table, "", f"Device types: {', '.join(sorted(device_types()))}."))


def _arguments(parameters: Mapping[str, Any]) -> str:
    required = parameters.get("required", ())
    named = (f"{name}{'' if name in required else ' (optional)'}" for name in parameters["properties"])
    return ", ".join(named) or "none"


_FORM = (
    "Work step by step. Every message of yours is one JSON object:",
    '{"thought": "...", "action": "<tool>", "action_input": "<JSON object>"}.',
    "You then read what the tool observed. When all is done, call finish with your answer to the user.",
)
