"""Conditions φ over a home, written as text: `device("1001").light.brightness > 60`.

A condition refers to `device(did)`, `room(name)` and `home` (outdoors), each followed by the path of an attribute.

Invariants:
- A condition compiles once against a plan, to a closure over the flat values.
- Text outside the grammar, and names that the home lacks, raise a `ConditionError` that says where.
- Evaluating a compiled condition never raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nextafter
from typing import Any, Protocol

from envs.documents import InputError
from envs.documents.explain import did_you_mean
from envs.homeenv.audit import Refused
from envs.homeenv.expressions import Closure, ExpressionError, compile_expression, parse_expression, path_of
from envs.homeenv.plan import Plan
from envs.homeenv.rooms import OUTDOORS

KNOWN_SHOWN = 20  # at most so many known names are considered as suggestions for a wrong one
EXACT = 1 << 50  # below it, the float next to a number could not be the value of a slot
Numbers = frozenset[float] | None  # a slot's thresholds; None if the slot is used in more than comparisons with constants


class Valued(Protocol):
    """Anything with the flat values of a plan, such as the state of a home."""

    values: list[Any]


class ConditionError(InputError):
    """A condition that cannot be compiled against a home."""


@dataclass(frozen=True)
class Condition:
    """A condition, compiled against `plan`.

    `slots` are the slots that it reads. `comparisons` are the (slot, constant) pairs that it compares. `check` evaluates it
    on flat values and may raise; `holds` does not.
    """

    text: str
    check: Closure
    slots: frozenset[int]
    comparisons: tuple[tuple[int, Any], ...]
    tree: ast.expr = field(repr=False, compare=False)
    plan: Plan = field(repr=False, compare=False)

    @cached_property
    def thresholds(self) -> Mapping[int, Numbers]:
        """For each slot, the numbers at which the result of a comparison may change.

        The number is just above or below a constant where the comparison changes on one side only: `> 25` changes just
        above 25. None stands for a slot that is used in more than comparisons with constants (`a - b > 5`).
        """
        return _thresholds(self.tree, self.plan, self.slots)

    def holds(self, home: Valued) -> bool:
        """Whether the condition holds now. One that cannot be evaluated (incompatible types, 1 / 0) does not hold."""
        try:
            return bool(self.check(home.values))
        except (TypeError, ValueError, ArithmeticError):
            return False


def compile_condition(text: str, plan: Plan) -> Condition:
    """Compile `text` against `plan`. Raises `ConditionError`, which names the column, if it does not compile."""
    slots: set[int] = set()

    def resolve(node: ast.expr) -> Closure | None:
        slot = _slot(node, plan)
        if slot is None:
            return None
        slots.add(slot)
        return lambda values: values[slot]

    try:
        tree = parse_expression(text).body
        check = compile_expression(tree, resolve)
        if not slots:
            raise ExpressionError("it reads nothing of the home", tree)
    except ExpressionError as error:
        raise ConditionError(
            f"condition: {error.message}", where=f"{text.strip()!r}, column {error.column}",
            remedy=error.remedy or 'write e.g. device("1001").state == "on"',
        ) from None  # fmt: skip
    comparisons = tuple(_comparisons(tree, plan))
    return Condition(text.strip(), check, frozenset(slots), comparisons, tree, plan)


def _slot(node: ast.expr, plan: Plan) -> int | None:
    """The slot that `device("1").a.b`, `room("x").a` or `home.a` refers to; None for any other node."""
    root, names = path_of(node)
    match root:
        case ast.Call(func=ast.Name(id="device" | "room" as kind), args=[ast.Constant(value=named)], keywords=[]):
            owner = str(named)  # SMH-Bench writes device(1001)
            if kind == "room":
                owner = _room(owner, root, plan)
            elif owner not in plan.by_did:
                remedy = did_you_mean(owner, list(plan.by_did)[:KNOWN_SHOWN])
                raise ExpressionError(f"there is no device '{owner}' in this home", root, remedy)
        case ast.Name(id="home"):
            owner = OUTDOORS
        case _:
            return None
    try:
        return plan.slot_of(owner, ".".join(names))
    except Refused as error:
        raise ExpressionError(error.message, node) from None


def _room(called: str, node: ast.expr, plan: Plan) -> str:
    """The id of the room that a condition refers to by id or by name."""
    try:
        return plan.room(called).id
    except Refused as error:
        known = [name for room in plan.rooms for name in (room.id, room.name)]
        raise ExpressionError(f"{error.message} in this home", node, did_you_mean(called, known[:KNOWN_SHOWN])) from None


def _comparisons(tree: ast.expr, plan: Plan) -> Iterator[tuple[int, Any]]:
    """Every (slot, constant) pair that the expression compares, for the boundary filter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            slots = [slot for side in sides if (slot := _slot(side, plan)) is not None]
            among = [False, *(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)]
            for side, of_members in zip(sides, among):
                for part in side.elts if of_members and isinstance(side, (ast.Tuple, ast.List)) else (side,):
                    yield from ((slot, value) for value in _constants(part) for slot in slots)


def _thresholds(tree: ast.expr, plan: Plan, slots: frozenset[int]) -> dict[int, Numbers]:
    """For each slot, the thresholds of its plain comparisons, or None if it is used in anything else."""
    numbers: dict[int, set[float] | None] = {slot: set() for slot in slots}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.expr) and (slot := _slot(node, plan)) is not None:
            numbers[slot] = None
        elif isinstance(node, ast.Compare) and (plain := _plain_comparison(node, plan)) is not None:
            for slot, values in plain:
                if (known := numbers[slot]) is not None:
                    known.update(values)
        else:
            for child in ast.iter_child_nodes(node):
                walk(child)

    walk(tree)
    return {slot: None if values is None else frozenset(values) for slot, values in numbers.items()}


def _plain_comparison(node: ast.Compare, plan: Plan) -> list[tuple[int, list[float]]] | None:
    """The (slot, thresholds) pairs of a comparison in which each slot is compared with constants only; else None."""
    sides = [node.left, *node.comparators]
    slots = [_slot(side, plan) for side in sides]
    constants = [list(_constants(side)) for side in sides]
    pairs: list[tuple[int, list[float]]] = []
    for at, slot in enumerate(slots):
        near = [n for n in (at - 1, at + 1) if 0 <= n < len(sides)]
        if slot is None and not constants[at]:
            return None
        if slot is not None and not all(constants[n] for n in near):
            return None
        if slot is not None:
            edges = [(_side(node.ops[min(at, n)], n > at), value) for n in near for value in constants[n]]
            pairs.append((slot, [_edge(number, side) for side, value in edges for number in _numbers(value)]))
    return pairs


def _side(op: ast.cmpop, slot_first: bool) -> float:
    """On which side of a constant a comparison changes: just above it (inf), just below it (-inf), or on both (0)."""
    above, below = (ast.Gt, ast.LtE), (ast.Lt, ast.GtE)
    if isinstance(op, above + below):
        return inf if isinstance(op, above) == slot_first else -inf
    return 0


def _edge(number: float, side: float) -> float:
    """The float next to a number on the given side, a threshold that no slot's value equals.

    It is the number itself if the comparison changes on both sides, or if the number is too large.
    """
    return nextafter(number, side) if side and abs(number) < EXACT else number


def _numbers(value: Any) -> Iterator[float]:
    """The numbers in a constant: itself, or the members of a tuple or list."""
    for part in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(part, (int, float)):
            yield part


def _constants(node: ast.expr) -> Iterator[Any]:
    try:
        yield ast.literal_eval(node)
    except ValueError:
        return
