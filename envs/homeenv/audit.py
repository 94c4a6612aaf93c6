"""The auditor: a firewall that names the rule it applied.

Invariants: a refused call has changed nothing by the time `Refused` is raised; every rule that is named is a key of
`RULES`; the static check of code reads the syntax tree and runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from envs.homeenv import parsing

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
    "read_only": "attributes change through services alone",
    "restricted_code": "the code uses a construct that agents may not use",
    "syntax": "the code or the call cannot be parsed",
    "time_limit": "the code ran longer than it may",
    "memory_limit": "the code used more memory than it may",
    "call_limit": "the code, or the agent, made more calls than it may",
    "output_limit": "the code printed more than it may",
    "code_limit": "the code is longer than it may be",
}

RESTRICTED_NAMES = frozenset(
    "getattr setattr delattr hasattr eval exec compile open input breakpoint globals locals vars dir "
    "__import__ __builtins__ __loader__ memoryview type object super classmethod staticmethod property".split()
)
FRAME_NAMES = frozenset(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code ag_await tb_frame tb_next f_back f_builtins "
    "f_code f_globals f_locals co_code co_consts co_names func_globals func_code mro with_traceback".split()
)
ASYNC = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
HARMLESS = (ast.expr_context, ast.Constant, ast.Call, ast.Expr)  # most of a tree: they name nothing
ALLOWED_IMPORTS = frozenset({"math", "json", "re", "datetime"})


class Refused(Exception):
    """A call that the firewall blocked: `rule` is a key of `RULES`, `message` is for the agent."""

    def __init__(self, rule: str, message: str) -> None:
        if rule not in RULES:
            raise KeyError(f"{rule} is not a rule of the auditor")
        self.rule, self.message = rule, message
        super().__init__(f"{rule}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        return type(self), (self.rule, self.message)  # between processes


def restricted_uses(tree: ast.AST) -> list[str]:
    """What a syntax tree uses that agents may not (HomeFlow D.2, CodeCheck), in the order of the source."""
    return _restricted(ast.walk(tree))


def _restricted(nodes: Iterable[ast.AST]) -> list[str]:
    found: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, HARMLESS):
            continue
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            if node.id in RESTRICTED_NAMES or node.id.startswith("__"):
                found.append((line, node.id))
        elif isinstance(node, ast.Attribute):
            if _is_private(node.attr):
                found.append((line, "." + node.attr))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            found += [(line, f"import {name}") for name in names if name not in ALLOWED_IMPORTS]
        elif isinstance(node, (ast.ClassDef, ast.Global, ast.Nonlocal, *ASYNC)) or getattr(node, "is_async", False):
            found.append((line, type(node).__name__))
        elif isinstance(node, ast.MatchClass):  # case str(name=x) reads the attribute `name`
            found += [(line, "." + name) for name in node.kwd_attrs if _is_private(name)]
        else:
            found += [(line, name) for name in _other_names(node) if name.startswith("__")]
    return [what for _, what in sorted(found, key=lambda pair: pair[0])]


def _is_private(attribute: str) -> bool:
    return attribute.startswith("_") or attribute in FRAME_NAMES


def _other_names(node: ast.AST) -> list[str]:
    """The names that a node binds or imports other than by a `Name`."""
    match node:
        case ast.alias(name=name, asname=alias):
            return [name, alias or name]
        case ast.arg(arg=name):
            return [name]
        case (
            ast.FunctionDef(name=str(name))
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            return [name]
    return []


def parse_code(code: str) -> ast.Module:
    """Parse a snippet or refuse it (`syntax`)."""
    try:
        return parsing.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise Refused("syntax", f"the code does not parse{f' (line {line})' if line else ''}: {error}") from None


def audit_code(code: str) -> list[ast.AST]:
    """A snippet's nodes; refused if it writes attributes (`read_only`) or uses restricted Python (`restricted_code`)."""
    nodes = list(ast.walk(parse_code(code)))
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            raise Refused("read_only", f"line {node.lineno}: '{node.attr}' cannot be assigned; call a service instead")
    if uses := _restricted(nodes):
        raise Refused("restricted_code", f"{uses[0]} is not allowed in agent code")
    return nodes
