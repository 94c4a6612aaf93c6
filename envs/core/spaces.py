"""Gymnasium spaces for worlds whose actions are tool calls and whose observations are text.

Invariants:
- Every sample is a member of its space.
- A call is a member of `ToolCalls` exactly if the tool exists and the arguments fit the tool's JSON Schema. Whether the
  call succeeds, for example because its device exists, is decided by the world.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from jsonschema import Draft202012Validator

from homerl.envs.core.world import action_arguments, tool_call_to_action

PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "
LONGEST_SAMPLE = 32  # characters; members of the space may be longer


class AnyText(spaces.Space[str]):
    """Text of any length and in any script. Gymnasium's own `Text` needs a maximum length and a list of characters."""

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A text of 0 to 32 printable ASCII characters."""
        return _draw_text(self.np_random)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string."""
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)

    def __repr__(self) -> str:
        return "AnyText()"


class JsonObjects(spaces.Space[list[dict[str, Any]]]):
    """Lists of JSON objects, such as messages or the schemas of tools."""

    def sample(self, mask: None = None, probability: None = None) -> list[dict[str, Any]]:
        """0 to 3 objects of one text each."""
        return [{_draw_text(self.np_random): _draw_text(self.np_random)} for _ in range(self.np_random.integers(4))]

    def contains(self, x: Any) -> bool:
        """Whether `x` is a list of objects that JSON can write."""
        return isinstance(x, list) and all(isinstance(item, dict) and _fits_json(item) for item in x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonObjects)

    def __repr__(self) -> str:
        return "JsonObjects()"


class ToolCalls(spaces.Space[dict[str, Any]]):
    """All calls of the given tools that fit their schemas: `{"name": ...}` together with the arguments."""

    def __init__(self, tools: Iterable[Mapping[str, Any]], seed: int | None = None) -> None:
        super().__init__(seed=seed)
        self.parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}

    def sample(self, mask: None = None, probability: None = None) -> dict[str, Any]:
        """A call that fits the schema, of a tool that is drawn with equal probability."""
        name = list(self.parameters)[self.np_random.integers(len(self.parameters))]
        arguments: dict[str, Any] = _draw_value(self.parameters[name], self.np_random)
        return tool_call_to_action(name, arguments, takes_name=True)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a call of one of the tools and its arguments fit the tool's schema."""
        if not isinstance(x, dict) or not isinstance(x.get("name"), str) or x["name"] not in self.parameters:
            return False
        schema = {"additionalProperties": False} | self.parameters[x["name"]]
        return Draft202012Validator(schema).is_valid(action_arguments(x)) and _fits_json(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCalls) and self.parameters == other.parameters

    def __repr__(self) -> str:
        return f"ToolCalls({', '.join(self.parameters)})"


def _fits_json(value: Mapping[str, Any]) -> bool:
    """Whether JSON can write an object: it has neither NaN nor infinity, nor what is no plain data."""
    try:
        return bool(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError):
        return False


def _draw_value(schema: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """A random value that fits a JSON Schema. Required members are always drawn, optional ones with probability 1/2."""
    if "allOf" in schema:
        return _draw_value({key: value for part in schema["allOf"][::-1] for key, value in part.items()}, rng)
    if "anyOf" in schema:
        return _draw_value(schema["anyOf"][0], rng)
    if "maximum" in schema:
        low, high = schema.get("minimum", -1000), schema["maximum"]
        return int(rng.integers(low, high + 1)) if schema["type"] == "integer" else float(rng.uniform(low, high))
    if "enum" in schema:
        return schema["enum"][rng.integers(len(schema["enum"]))]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            members = schema.get("properties", {}).items()
            return {key: _draw_value(part, rng) for key, part in members if key in required or rng.random() < 0.5}
        case "array":
            least = schema.get("minItems", 0)
            return [_draw_value(schema.get("items", {}), rng) for _ in range(least + rng.integers(4))]
        case "integer":
            return schema.get("minimum", -1000) + int(rng.integers(2000))
        case "number":
            return float(rng.uniform(-1000, 1000))
        case "boolean":
            return bool(rng.integers(2))
    return _draw_text(rng)


def _draw_text(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list(PRINTABLE), size=rng.integers(LONGEST_SAMPLE + 1)))
