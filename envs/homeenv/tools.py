"""A tool: an OpenAI function schema, and what a call of it does to a home. Toolsets are in `toolsets/`.

Invariants: a tool checks its arguments against its own schema before it acts; queries change nothing;
an observation holds only what the call returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from envs.homeenv.audit import Refused
from envs.homeenv.home import Home
from envs.homeenv.sandbox import Limits, RunResult
from envs.homeenv.types import clip

# What a broken keyword of a schema is to the auditor; any other is a wrong type.
RULE_OF = {
    "required": "missing_argument",
    "additionalProperties": "unknown_argument",
    "enum": "out_of_range",
    "minimum": "out_of_range",
}


@dataclass(frozen=True)
class Tool:
    """A tool: its schema's parts and `act(home, arguments, limits)`. A parameter given as text is a string."""

    name: str
    description: str
    parameters: Mapping[str, str | Mapping[str, Any]]
    required: tuple[str, ...]
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult]

    def schema(self) -> dict[str, Any]:
        """As an OpenAI function."""
        properties = {name: as_schema(given) for name, given in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.required)}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.schema()["function"]["parameters"] | {"additionalProperties": False})

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Act on `home`; refusals are part of the result."""
        try:
            self._check(arguments)
            return self.act(home, arguments, limits)
        except Refused as refusal:
            return RunResult("", refusal)

    def _check(self, arguments: Mapping[str, Any]) -> None:
        try:
            wrong = next(self._validator.iter_errors(arguments), None)
        except (ValueError, RecursionError):  # a number or a nest too large to be written into the message
            raise Refused("wrong_type", f"{self.name}: an argument is too large") from None
        if wrong:
            place = "".join(f" '{part}'" for part in wrong.absolute_path)
            raise Refused(RULE_OF.get(wrong.validator, "wrong_type"), f"{self.name}{place}: {clip(wrong.message)}")


def as_schema(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a parameter."""
    return {"type": "string", "description": given} if isinstance(given, str) else dict(given)


def as_json(value: Any) -> str:
    """A value as agents see it: JSON."""
    return json.dumps(value, ensure_ascii=False)
