"""The auditor: a firewall between agents and homes. Each refusal names the rule that was applied.

Invariants:
- A refused call has changed nothing by the time `Refused` is raised.
- Every rule that a refusal names is a key of `RULES`.
- The static check of code reads the syntax tree and runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar, cast

from homerl.envs.core.restricted_python import restricted_node_uses
from homerl.envs.homeenv.sim.values import parsing

RULES: dict[str, str] = {
    "unknown_tool": "the tool is not in the agent's toolset",
    "unknown_device": "no device has this id",
    "unknown_room": "no room has this name",
    "unknown_attribute": "the device has no such attribute",
    "unknown_service": "the device has no such service",
    "unknown_automation": "no automation has this id",
    "missing_argument": "a required argument is missing",
    "unknown_argument": "the tool or service takes no such argument",
    "wrong_type": "a value has another type than the specification says",
    "out_of_range": "a value is outside its range or options",
    "precondition": "the device refuses this in its present state",
    "unavailable": "the device cannot be reached",
    "read_only": "attributes change through services alone",
    "restricted_code": "the code uses a construct that agents may not use",
    "syntax": "the code or the call cannot be parsed",
    "time_limit": "the code ran longer than it may",
    "memory_limit": "the code used more memory than it may",
    "call_limit": "the code, or the agent, made more calls than it may",
    "output_limit": "the code printed more than it may",
    "code_limit": "the code is longer than it may be",
    "size_limit": "the call is longer, or nested more deeply, than it may be",
}


class Refused(Exception):
    """The refusal of a call. `rule` is a key of `rules` (any other is a `KeyError`); `message` is for the agent.

    A simulator with more rules has a subclass with `rules` of its own.
    """

    rules: ClassVar[Mapping[str, str]] = RULES

    def __init__(self, rule: str, message: str) -> None:
        if rule not in self.rules:
            raise KeyError(f"{rule} is not a rule of the auditor")
        self.rule, self.message = rule, message
        super().__init__(f"{rule}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        return type(self), (self.rule, self.message)  # for pickling between processes


def parse_code(code: str) -> ast.Module:
    """The syntax tree of a snippet. Raises `Refused` (rule `syntax`) if it does not parse."""
    try:
        return cast(ast.Module, parsing.parse_python(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise Refused("syntax", f"the code does not parse{f' (line {line})' if line else ''}: {error}") from None


def audit_code(code: str) -> list[ast.AST]:
    """The nodes of a snippet's syntax tree.

    Raises `Refused` if the snippet does not parse (`syntax`), assigns to an attribute (`read_only`), or uses Python that
    agents may not use (`restricted_code`).
    """
    nodes = list(ast.walk(parse_code(code)))
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            raise Refused("read_only", f"line {node.lineno}: '{node.attr}' cannot be assigned; call a service instead")
    if uses := restricted_node_uses(nodes):
        raise Refused("restricted_code", f"{uses[0]} is not allowed in agent code")
    return nodes
