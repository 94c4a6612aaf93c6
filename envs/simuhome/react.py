"""The paper's text form of a tool call: one JSON object a message with thought, action and action_input (ReAct).

Invariants: `parse` never raises on a model's text; strict, braces are counted inside strings as well, as the reference
counts them; a call that is not one counts as a failure, and the third in a row ends an episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envs.simuhome.spec import device_types

INVALID = {"error": "Invalid structured output format"}
MOST_TURNS, MOST_FAILURES, MOST_POLLS = 20, 3, 8
RESPONSE_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("thought", "action", "action_input")},
    "required": ["thought", "action", "action_input"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Step:
    """A turn of the agent, read."""

    thought: str
    action: str
    arguments: Mapping[str, Any]

    @property
    def call(self) -> dict[str, Any]:
        """As an action of the world."""
        return {"name": "finish" if self.action.lower() == "finish" else self.action, **self.arguments}


def parse(text: str, strict: bool = True) -> Step | None:
    """The step that a message holds, or None: its format is invalid."""
    try:
        found = _counted(text) if strict else _scanned(text)
        given = found["action_input"]
        arguments = given if isinstance(given, dict) else json.loads(given) if given.strip() else {}
        well_formed = isinstance(found["thought"], str) and isinstance(found["action"], str) and isinstance(arguments, dict)
        return Step(found["thought"], found["action"], arguments) if well_formed else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _counted(text: str) -> dict[str, Any]:
    """From the first brace to the one that closes it."""
    start, depth = text.index("{"), 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return json.loads(text[start : position + 1])
    raise ValueError("the braces do not close")


def _scanned(text: str) -> dict[str, Any]:
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def observation(result: Any) -> str:
    """What the agent is told of a result."""
    return f"observation: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def task(query: str, location: str, now: str) -> str:
    """The message that sets the task."""
    return (
        f"User query: {query}\nUser location: {location}\nCurrent time: {now}\n"
        "Answer with one JSON object: thought, action and action_input."
    )


def instructions(tools: Iterable[Mapping[str, Any]]) -> str:
    """A system message in our own words: the format, the tools, the devices, units and rules of conduct."""
    functions = sorted((tool["function"] for tool in tools), key=lambda function: function["name"])
    rows = [f"| {one['name']} | {one['description']} | {_arguments(one['parameters'])} |" for one in functions]
    return "\n".join((*_HEAD, "", "| tool | what it does | arguments |", "|---|---|---|", *rows, "", *_TAIL))


def _arguments(parameters: Mapping[str, Any]) -> str:
    required = parameters.get("required", ())
    named = (f"{name}{'' if name in required else ' (optional)'}" for name in parameters["properties"])
    return ", ".join(named) or "none"


_HEAD = (
    "You run a smart home whose devices speak Matter. Work on the user's request step by step.",
    'Every message of yours is one JSON object: {"thought": "...", "action": "<tool>", "action_input": "<JSON object>"}.',
    "You then read what the tool observed. When all is done, call finish with your answer to the user.",
)
_TAIL = (
    f"Device types: {', '.join(sorted(device_types()))}.",
    "Devices hold endpoints, endpoints clusters, clusters attributes and commands; look them up, do not guess.",
    "Temperatures and humidity are hundredths (2350 is 23.5), illuminance is lux, PM10 micrograms per cubic metre.",
    "A workflow that was accepted may still fail: check devices, commands and arguments before you schedule it.",
    "Look before you act: rooms, devices, states and the time may not be what the user believes.",
    "If a device is missing, a wish is beyond what devices can do, or two times in a request disagree, do not act:",
    "say so plainly, name the room and the device, and ask if that helps. Claim nothing that you did not observe.",
)
