"""A tool: an OpenAI function schema, and the function that a call of it runs on a home. Toolsets are in `toolsets/`.

Invariants:
- A tool validates its arguments against its own schema before it acts.
- Queries change nothing.
- An observation holds only what the call returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import Limits, RunResult
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import clip_text

# The auditor's rule for each keyword of a JSON Schema that arguments violate. Any other keyword means `wrong_type`.
RULE_OF = {
    "required": "missing_argument",
    "additionalProperties": "unknown_argument",
    "enum": "out_of_range",
    "minimum": "out_of_range",
}


@dataclass(frozen=True)
class ToolHints:
    """How a tool behaves, in the terms of MCP. What says nothing may change and destroy things, as there."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = False


READS = ToolHints(read_only=True, destructive=False, idempotent=True)


@dataclass(frozen=True)
class Tool:
    """A tool: the parts of its schema, and `act(home, arguments, limits)`, which runs it. Clients of MCP read the `hints`.

    `parameters` maps each name to a JSON schema, or to a description, which stands for a string parameter.
    """

    name: str
    description: str
    parameters: Mapping[str, str | Mapping[str, Any]]
    required: tuple[str, ...]
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult]
    hints: ToolHints = ToolHints()

    def function_schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        properties = {name: parameter_schema(given) for name, given in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.required)}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.function_schema()["function"]["parameters"] | {"additionalProperties": False})

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Validate the arguments and act on `home`. A refusal is returned in the result, not raised."""
        try:
            self._refuse_invalid(arguments)
            return self.act(home, arguments, limits)
        except Refused as refusal:
            return RunResult("", refusal)

    def _refuse_invalid(self, arguments: Mapping[str, Any]) -> None:
        try:
            wrong = next(self._validator.iter_errors(arguments), None)
        except (ValueError, RecursionError):  # a number too large or data nested too deeply to be quoted in the message
            raise Refused("wrong_type", f"{self.name}: an argument is too large") from None
        if wrong:
            place = "".join(f" '{part}'" for part in wrong.absolute_path)
            raise Refused(RULE_OF.get(wrong.validator, "wrong_type"), f"{self.name}{place}: {clip_text(wrong.message)}")


def parameter_schema(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a parameter. A text is the description of a string parameter."""
    return {"type": "string", "description": given} if isinstance(given, str) else dict(given)


def to_json_line(value: Any) -> str:
    """A value as agents see it: one line of JSON."""
    return json.dumps(value, ensure_ascii=False)
