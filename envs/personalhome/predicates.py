"""Conditions over one device, in the expression grammar of device files (`self.brightness <= 20`).

Invariant: a condition that compiles can be asked of any state of its kind.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from envs.homeenv.expressions import Closure, ExpressionError, compile_expression, parse_expression, path_of
from envs.homeenv.spec import DeviceSpec

Predicate = Callable[[Mapping[str, Any]], bool]


def compile_predicate(spec: DeviceSpec, text: str) -> Predicate:
    """The condition over a device's values by attribute. Raises `ExpressionError` if it does not compile."""
    return _compiled(tuple(spec.attribute_index), text)


@lru_cache(maxsize=1024)
def _compiled(attributes: tuple[str, ...], text: str) -> Predicate:
    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if not (isinstance(root, ast.Name) and root.id == "self" and names):
            return None
        path = ".".join(names)
        if path not in attributes:
            raise ExpressionError(f"self has no attribute '{path}'", node)
        return lambda state: state[path]

    closure = compile_expression(parse_expression(text).body, resolve)
    return lambda state: bool(closure(state))
