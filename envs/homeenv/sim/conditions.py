"""Conditions φ over a home, written as text: `device("1001").light.brightness > 60`.

A condition refers to `device(did)`, `room(name)` and `home` (outdoors), each followed by the path of an attribute, and to
the clock: `clock.time` (seconds since midnight), `clock.weekday` (`"mon"`), `clock.day`, `clock.month`, `clock.text`
(`"06:30:00"`), `clock.moment` (`"2026-01-31 06:30:00"`).

Invariants:
- A condition compiles once against a plan, to a closure over the flat values.
- Text outside the grammar, and names that the home lacks, raise a `ConditionError` that says where.
- Evaluating a compiled condition never raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol, Self

from homerl.envs.core.documents import InputError
from homerl.envs.core.documents.validation import did_you_mean
from homerl.envs.homeenv.sim.devices.expression_cost import CostBound, bound_of_expression, bound_of_type, tell_too_costly
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import (
    Closure,
    ExpressionError,
    Numbers,
    compile_expression,
    constant_values,
    parse_expression,
    path_of,
    thresholds_of,
)

KNOWN_SHOWN = 20  # at most so many known names are considered as suggestions for a wrong one


CLOCK: dict[str, Closure] = {  # of a clock in seconds since the epoch (local time), which follows the values of a home
    "time": lambda values: values[-1] % 86400,
    "weekday": lambda values: _date_of_clock(values).strftime("%a").lower(),
    "day": lambda values: _date_of_clock(values).day,
    "month": lambda values: _date_of_clock(values).month,
    "text": lambda values: _date_of_clock(values).strftime("%H:%M:%S"),
    "moment": lambda values: _date_of_clock(values).strftime("%Y-%m-%d %H:%M:%S"),
}


def _date_of_clock(values: list[Any]) -> datetime:
    return datetime.fromtimestamp(values[-1], UTC)


class ValuedHome(Protocol):
    """Anything with the flat values of a plan and a clock, such as the state of a home."""

    values: list[Any]
    clock: int


class ConditionError(InputError):
    """A condition that cannot be compiled against a home."""


@dataclass(frozen=True)
class Condition:
    """A condition, compiled against `plan`.

    `slots` are the slots that it reads, and `timed` says whether it reads the clock. `comparisons` are the (slot, constant)
    pairs that it compares. `check` evaluates it on flat values and may raise; `holds_in` does not.
    """

    text: str
    check: Closure
    slots: frozenset[int]
    comparisons: tuple[tuple[int, Any], ...]
    tree: ast.expr = field(repr=False, compare=False)
    plan: FixedPlan = field(repr=False, compare=False)
    timed: bool = False

    @cached_property
    def slot_thresholds(self) -> Mapping[int, Numbers]:
        """For each slot, the numbers at which the result of a comparison may change.

        The number is just above or below a constant where the comparison changes on one side only: `> 25` changes just
        above 25. None stands for a slot that is used in more than comparisons with constants (`a - b > 5`).
        """
        return thresholds_of(self.tree, lambda node: _slot_of_node(node, self.plan), self.slots)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_condition, (self.text, self.plan)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        return self

    def holds_in(self, home: ValuedHome) -> bool:
        """Whether the condition holds now. One that cannot be evaluated (incompatible types, 1 / 0) does not hold."""
        return self.is_true_of(home.values, home.clock)

    def is_true_of(self, values: list[Any], clock: int) -> bool:
        """Whether the condition holds of these values."""
        try:
            return bool(self.compute_value(values, clock))
        except (TypeError, ValueError, ArithmeticError):
            return False

    def compute_value(self, values: list[Any], clock: int) -> Any:
        """What the expression is worth. Raises `TypeError`, `ValueError` or `ArithmeticError` if that cannot be computed."""
        # The functions of `CLOCK` read the clock behind the last slot. The copy is made only where one is called.
        return self.check([*values, clock] if self.timed else values)


def compile_condition(text: str, plan: FixedPlan) -> Condition:
    """Compile `text` against `plan`. Raises `ConditionError`, which names the column, if it does not compile."""
    slots: set[int] = set()
    sizes: dict[ast.expr, CostBound] = {}
    timed = False

    def resolve(node: ast.expr) -> Closure | None:
        nonlocal timed
        root, names = path_of(node)
        if isinstance(root, ast.Name) and root.id == "clock" and len(names) == 1 and names[0] in CLOCK:
            timed, sizes[node] = True, CostBound(0, 2)
            return CLOCK[names[0]]
        slot = _slot_of_node(node, plan)
        if slot is None:
            return None
        slots.add(slot)  # also those in a branch that is not evaluated now
        sizes[node] = bound_of_type(plan.slots[slot].type)
        return lambda values: values[slot]

    try:
        tree = parse_expression(text).body
        check = compile_expression(tree, resolve)
        if not slots and not timed:
            raise ExpressionError("it reads nothing of the home", tree)
        if much := tell_too_costly(bound_of_expression(tree, sizes.get).steps):
            raise ExpressionError(f"it {much}", tree, "compare less, or write several conditions")
    except ExpressionError as error:
        raise ConditionError(
            f"condition: {error.message}",
            where=f"{text.strip()!r}, column {error.column}",
            remedy=error.remedy or 'write e.g. device("1001").state == "on"',
        ) from None
    comparisons = tuple(_compared_constants(tree, plan))
    return Condition(text.strip(), check, frozenset(slots), comparisons, tree, plan, timed)


def _slot_of_node(node: ast.expr, plan: FixedPlan) -> int | None:
    """The slot that `device("1").a.b`, `room("x").a` or `home.a` refers to; None for any other node."""
    root, names = path_of(node)
    match root:
        case ast.Call(func=ast.Name(id="device" | "room" as kind), args=[ast.Constant(value=named)], keywords=[]):
            owner = str(named)  # SMH-Bench writes device(1001)
            if kind == "room":
                try:
                    owner = plan.find_room(owner).id
                except Refused as error:
                    known = [name for room in plan.rooms for name in (room.id, room.name)][:KNOWN_SHOWN]
                    raise ExpressionError(f"{error.message} in this home", root, did_you_mean(owner, known)) from None
            elif owner not in plan.devices_by_did:
                remedy = did_you_mean(owner, list(plan.devices_by_did)[:KNOWN_SHOWN])
                raise ExpressionError(f"there is no device '{owner}' in this home", root, remedy)
        case ast.Name(id="home"):
            owner = OUTDOORS
        case _:
            return None
    try:
        return plan.slot_of(owner, ".".join(names))
    except Refused as error:
        raise ExpressionError(error.message, node) from None


def _compared_constants(tree: ast.expr, plan: FixedPlan) -> Iterator[tuple[int, Any]]:
    """Every (slot, constant) pair that the expression compares, for the boundary filter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            slots = [slot for side in sides if (slot := _slot_of_node(side, plan)) is not None]
            among = [False, *(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)]
            for side, of_members in zip(sides, among):
                for part in side.elts if of_members and isinstance(side, (ast.Tuple, ast.List)) else (side,):
                    yield from ((slot, value) for value in constant_values(part) for slot in slots)
