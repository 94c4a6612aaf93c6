"""How large a value is, and how many steps an expression may take: bounds that are known before anything runs.

Invariants:
- Nothing is run, and nothing is counted while code runs. A bound holds for all values that the types of names allow.
- The unit of size is an item of a list, a number, or some characters of a text. A step touches one unit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument, Attribute, Service
from homerl.envs.homeenv.sim.values.expressions import MOST_ITEMS, attributes_in, parse_expression, parse_statements
from homerl.envs.homeenv.sim.values.types_and_ranges import MOST_UNITS, ValueType, count_units

MOST_STEPS = 2_000_000  # of one call or condition: some tenths of a second
CHECKED = 8  # steps in which a unit is checked that an attribute gets


class CostBound(NamedTuple):
    """What a value may come to: its items (0 for what is no list), its size in all, and the steps that make it."""

    items: int
    size: int
    steps: int = 1


Named = Callable[[ast.expr], CostBound | None]


def bound_of_type(type: ValueType) -> CostBound:
    """The bound of a value of a type."""
    longest = type.range[1] if type.range else MOST_ITEMS
    return CostBound(int(longest) if type.type == "list" else len(type.items or ()), min(type.most_units, MOST_UNITS))


def bound_of_expression(node: ast.expr, named: Named) -> CostBound:
    """The bound of an expression that compiles. `named` gives that of a name, and None for all other nodes."""
    if (known := named(node)) is not None:
        return known
    match node:
        case ast.Constant(value=int() as value):
            return CostBound(0, 1 + value.bit_length() // 64)
        case ast.Constant(value=value):
            return CostBound(0, count_units(value))
    parts = [bound_of_expression(child, named) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    if isinstance(node, ast.Call):
        parts = parts[1:]  # without the function's name
    items, size = max((p.items for p in parts), default=0), sum(p.size for p in parts)
    steps = 1 + sum(p.steps for p in parts)
    match node:
        case ast.BoolOp() | ast.IfExp():
            return CostBound(items, max(p.size for p in parts), steps)
        case ast.Tuple() | ast.List():
            return CostBound(len(parts), 1 + size, steps + len(parts))
        case ast.Dict():
            return CostBound(len(parts), 1 + 2 * size, steps + len(parts))
        case ast.BinOp(op=ast.Add()):
            both = min(sum(p.items for p in parts), MOST_ITEMS)
            return CostBound(both, size, steps + both)
        case ast.Subscript():
            return CostBound(min(size, MOST_ITEMS), size, steps + items)
        case ast.Compare():
            return CostBound(0, 1, steps + (len(parts) - 1) * size)  # what all sides are compared with is listed, too
        case ast.Call(func=ast.Name(id="replaced")) if len(parts) == 3:
            return CostBound(items, parts[0].size + parts[0].items * (parts[2].size - 1), steps + size)
        case ast.Call(func=ast.Name(id="without" | "min" | "max")):
            return CostBound(min(size, MOST_ITEMS), size, steps + size)
    return CostBound(0, size if isinstance(node, ast.BinOp) else 1, steps + size)


def bounds_of_names(own: Mapping[str, CostBound], given: Mapping[str, CostBound] = MappingProxyType({})) -> Named:
    """The bounds of a device's attributes (`self.name`) and of a service's arguments (`name`)."""

    def named(node: ast.expr) -> CostBound | None:
        if isinstance(node, ast.Attribute):
            return own.get(node.attr)
        return given.get(node.id) if isinstance(node, ast.Name) else None

    return named


def bounds_by_name(types: Sequence[Attribute | Argument]) -> dict[str, CostBound]:
    """The bounds of the values of some types, by name."""
    return {type.name: bound_of_type(type) for type in types}


def steps_of_expression(text: str, named: Named) -> int:
    """The most steps of working an expression out, and of reading its value."""
    found = bound_of_expression(parse_expression(text).body, named)
    return found.steps + found.size


def steps_of_call(
    service: Service, attributes: Sequence[Attribute], begin: Mapping[str, CostBound], given: Mapping[str, CostBound]
) -> int:
    """The most steps of a call with attributes and arguments within these bounds. What is derived follows each write."""
    limits, own, widest, steps = bounds_by_name(attributes), dict(begin), dict(begin), 0
    writes = [node for node in parse_statements(service.code).body if isinstance(node, ast.Assign)]
    for node in writes:
        found, name = bound_of_expression(node.value, bounds_of_names(own, given)), attributes_in(node.targets[0])[0]
        steps += found.steps + CHECKED * found.size
        own[name] = CostBound(min(found.items, limits[name].items), min(found.size, limits[name].size))
        widest[name] = max(own[name], widest[name], key=lambda known: known.size)
    named = bounds_of_names(widest, given)
    answers = service.returns.values() if isinstance(service.returns, dict) else (service.returns,)
    steps += sum(steps_of_expression(text, named) for text in (service.requires, *answers) if text)
    return steps + len(writes) * sum(CHECKED + steps_of_expression(a.derived, named) for a in attributes if a.derived)


def tell_too_costly(steps: int) -> str:
    """What to say of something that may take so many steps; nothing if they are allowed."""
    if steps <= MOST_STEPS:
        return ""
    return f"may take {steps:,} steps, and {MOST_STEPS:,} are allowed: do less, or give lists and texts a shorter range"
