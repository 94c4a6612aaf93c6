"""The Python that agents must not write: introspection, dynamic execution, private names, and most imports (HomeFlow
D.2).

Invariant: the check is static. It reads the syntax tree and runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

RESTRICTED_NAMES = frozenset(
    "getattr setattr delattr hasattr eval exec compile open input breakpoint globals locals vars dir "
    "__import__ __builtins__ __loader__ memoryview type object super classmethod staticmethod property".split()
)
FRAME_NAMES = frozenset(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code ag_await tb_frame tb_next f_back f_builtins "
    "f_code f_globals f_locals co_code co_consts co_names func_globals func_code mro with_traceback".split()
)
ASYNC = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
HARMLESS = (ast.expr_context, ast.Constant, ast.Call, ast.Expr)  # these name nothing, and are most of a tree's nodes
ALLOWED_IMPORTS = frozenset({"math", "json", "re", "datetime"})


def restricted_uses(nodes: Iterable[ast.AST]) -> list[str]:
    """All restricted uses in the nodes of a syntax tree (HomeFlow D.2, CodeCheck), in the order of the source.

    The nodes may come in any order.
    """
    uses: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, HARMLESS):
            continue
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            if node.id in RESTRICTED_NAMES or node.id.startswith("__"):
                uses.append((line, node.id))
        elif isinstance(node, ast.Attribute):
            if _is_private(node.attr):
                uses.append((line, "." + node.attr))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            uses += [(line, f"import {name}") for name in names if name not in ALLOWED_IMPORTS]
        elif isinstance(node, (ast.ClassDef, ast.Global, ast.Nonlocal, *ASYNC)) or getattr(node, "is_async", False):
            uses.append((line, type(node).__name__))
        elif isinstance(node, ast.MatchClass):  # the pattern `str(name=x)` reads the attribute `name`
            uses += [(line, "." + name) for name in node.kwd_attrs if _is_private(name)]
        else:
            uses += [(line, name) for name in _other_names(node) if name.startswith("__")]
    return [what for _, what in sorted(uses, key=lambda pair: pair[0])]


def _is_private(attribute: str) -> bool:
    return attribute.startswith("_") or attribute in FRAME_NAMES


def _other_names(node: ast.AST) -> list[str]:
    """The names that a node binds or imports, other than those of `ast.Name` nodes."""
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
