"""Conditions over one device, in the expression grammar of device files (`self.brightness <= 20`).

Invariant: a condition that compiles can be asked of any state of its kind.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from homerl.envs.homeenv.sim.devices.cost import CostBound, bound_of_expression, bound_of_type, tell_too_costly
from homerl.envs.homeenv.sim.devices.spec import DeviceSpec
from homerl.envs.homeenv.sim.values.expressions import (
    Closure,
    ExpressionError,
    compile_expression,
    parse_expression,
    path_of,
)

Predicate = Callable[[Mapping[str, Any]], bool]


def compile_predicate(spec: DeviceSpec, text: str) -> Predicate:
    """The condition over a device's values by attribute. Raises `ExpressionError` for one that is none or costs too much."""
    return _compiled(tuple((path, bound_of_type(attribute)) for path, (_, attribute) in spec.attribute_index.items()), text)


@lru_cache(maxsize=1024)
def _compiled(bounds: tuple[tuple[str, CostBound], ...], text: str) -> Predicate:
    attributes, sizes = dict(bounds), dict[ast.expr, CostBound]()

    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if not (isinstance(root, ast.Name) and root.id == "self" and names):
            return None
        path = ".".join(names)
        if path not in attributes:
            raise ExpressionError(f"self has no attribute '{path}'", node)
        sizes[node] = attributes[path]
        return lambda state: state[path]

    tree = parse_expression(text).body
    closure = compile_expression(tree, resolve)
    if much := tell_too_costly(bound_of_expression(tree, sizes.get).steps):
        raise ExpressionError(f"it {much}", tree, "compare less")
    return lambda state: bool(closure(state))
