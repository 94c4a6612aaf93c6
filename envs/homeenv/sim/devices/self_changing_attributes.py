"""Attributes that change by themselves, compiled: counters of seconds, attributes that move, and derived ones.

Invariants:
- What a counter counts, and where a moving attribute moves to, depends on attributes that services alone change (and, for a
  counter, on what a sensor measures). So it is constant between two events.
- A derived attribute depends on attributes of its part that stand before it.
- What cannot be computed now does no harm: it is not counted, it is no target, and what is derived from it keeps its value.
- A motion is a function of the clock in whole numbers: it has made as many steps at second t as `t * rate` has whole steps.
  So one long leap gives the same value, to the last bit, as any number of shorter ones.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Any, Self

from homerl.envs.homeenv.sim.devices.attributes_and_services import (
    Attribute,
    Offsets,
    ServiceScope,
    make_name_resolver,
    offsets_by_name,
)
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import (
    Closure,
    ExpressionError,
    Numbers,
    attributes_in,
    compile_expression,
    parse_expression,
    path_of,
    thresholds_of,
)
from homerl.envs.homeenv.sim.values.types_and_ranges import LARGEST

UNKNOWN = (ArithmeticError, TypeError, ValueError, Refused)  # raised by an expression that has no valid value now


@dataclass(frozen=True)
class SelfChanging:
    """An attribute that changes by itself, by the value of an expression.

    As it is compiled, `slot` is its offset within the device, and so is each of `reads`, which the expression reads by name.
    `placed_at` gives the attribute of a device in a home, whose first slot is `base`. `tree` is the expression.
    """

    slot: int
    attribute: Attribute
    tree: ast.expr
    expression: Closure
    reads: Mapping[str, int]
    base: int = 0

    def placed_at(self, base: int) -> Self:
        """The same attribute of a device whose first slot is `base`."""
        reads = {name: base + offset for name, offset in self.reads.items()}
        return replace(self, slot=base + self.slot, base=base, reads=reads)

    def _compute_expression(self, values: Sequence[Any]) -> Any:
        return self.expression(ServiceScope(values, self.base, {}))


class CountingAttribute(SelfChanging):
    """An attribute that counts for how many seconds a condition has held."""

    @property
    def largest_value(self) -> int:
        """The largest value (s). The counter stops there."""
        return int(self.attribute.range[1]) if self.attribute.range else LARGEST

    def is_counting(self, values: Sequence[Any]) -> bool:
        """Whether it grows, given the flat values."""
        try:
            return bool(self._compute_expression(values))
        except UNKNOWN:
            return False

    def value_after(self, values: Sequence[Any], seconds: int) -> int:
        """The value after `seconds` if nothing else changes; 0 if the condition does not hold."""
        return min(values[self.slot] + seconds, self.largest_value) if self.is_counting(values) else 0


class MovingAttribute(SelfChanging):
    """An attribute that moves to a target, by whole steps."""

    @cached_property
    def rate(self) -> Fraction:
        """Its steps a second."""
        if self.attribute.moves is None:
            raise ValueError(f"{self.attribute.name} does not move")
        # From the text of the numbers: 0.1 as a float is not a tenth.
        return Fraction(str(self.attribute.moves.rate)) / Fraction(str(self._step_size))

    @property
    def _step_size(self) -> float:
        return self.attribute.precision or 1

    def target_value(self, values: Sequence[Any]) -> Any:
        """Where the value moves to, given the flat values; its present value if it stands still."""
        try:
            to = self._compute_expression(values)
            return values[self.slot] if to is None else self.attribute.check_value(to)
        except UNKNOWN:
            return values[self.slot]

    def value_after(self, values: Sequence[Any], clock: int, seconds: int) -> Any:
        """The value `seconds` after `clock` if nothing else changes."""
        if not seconds:
            return values[self.slot]
        return self._value_after_steps(values, self._steps_until(clock + seconds) - self._steps_until(clock))

    def next_time_outside(self, values: Sequence[Any], clock: int, low: float, high: float) -> int | None:
        """The first clock (s) at which the value is not strictly between two numbers; None if it stops before.

        If the two are the present value, this is the clock at which the value next changes.
        """
        value, target = values[self.slot], self.target_value(values)
        if value is None:
            return None
        edge, step = high if target > value else low, self._step_size
        if target == value or not (target >= edge if target > value else target <= edge):
            return None
        count = max(ceil(min(abs(edge - value), abs(target - value)) / step) - 1, 1)
        while low < self._value_after_steps(values, count) < high or self._value_after_steps(values, count) == value:
            count += 1
        seconds: int = ceil((self._steps_until(clock) + count) / self.rate)
        return seconds

    def _steps_until(self, clock: int) -> int:
        """The number of steps that a motion has made from the epoch to the clock."""
        return floor(clock * self.rate)

    def _value_after_steps(self, values: Sequence[Any], steps: int) -> Any:
        """The value after this many steps towards the target. What has no value, or no target, stands still."""
        value, target = values[self.slot], self.target_value(values)
        if value is None or target is None:
            return value
        way = steps * self._step_size
        if way >= abs(target - value):
            return target
        return self.attribute.check_value(value + way if target > value else value - way)


class DerivedAttribute(SelfChanging):
    """An attribute that equals an expression."""

    def derived_value(self, values: Sequence[Any]) -> Any:
        """What it equals now. Raises one of `UNKNOWN` if that cannot be computed, or is no value of the attribute."""
        return self.attribute.check_value(self._compute_expression(values), self.attribute.name)

    def value_to_write(self, values: Sequence[Any]) -> Any:
        """What it equals now, given the flat values; its present value where none can be computed."""
        read = [values[slot] for slot in self.reads.values()]
        known = self._latest[0]
        if known is None or not all(map(operator.is_, read, known[0])):  # by identity, since 1 == 1.0 == True
            try:
                known = read, (self.derived_value(values),)
            except UNKNOWN:
                known = read, ()
            self._latest[0] = known
        return known[1][0] if known[1] else values[self.slot]

    @cached_property
    def _latest(self) -> list[tuple[list[Any], tuple[Any, ...]] | None]:
        """What it read when it was last computed, with its value then, if it had one: homes are looked at far more often."""
        return [None]

    @cached_property
    def slot_thresholds(self) -> Mapping[int, Numbers]:
        """For each slot that it reads, the numbers at which its value may change."""
        return thresholds_of(self.tree, self._slot_of_node, self.reads.values())

    def _slot_of_node(self, node: ast.expr) -> int | None:
        root, names = path_of(node)
        ours = isinstance(root, ast.Name) and root.id == "self" and len(names) == 1
        return self.reads.get(names[0]) if ours else None


def compile_counter(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> CountingAttribute | None:
    """The counter of an attribute, which is one of `attributes`; None for an attribute that does not count.

    `offset` is the offset of the first of `attributes` within the device. Raises `ExpressionError` if the condition does
    not compile or reads what changes by itself, other than what a sensor measures.
    """
    if attribute.counts is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    counter = CountingAttribute(*_compile_change(attribute, attribute.counts, offsets))
    if any(offsets[name][1].changes_by_itself and not offsets[name][1].measures for name in counter.reads):
        raise ExpressionError("what is counted must not count itself, move or be derived", counter.tree)
    return counter


def compile_motion(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> MovingAttribute | None:
    """The motion of an attribute; None for one that does not move. Raises `ExpressionError` like `compile_counter`."""
    if attribute.moves is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    mover = MovingAttribute(*_compile_change(attribute, attribute.moves.to, offsets))
    if moving := [name for name in mover.reads if offsets[name][1].changes_by_itself]:
        raise ExpressionError(f"a target that moves is none: '{moving[0]}' changes by itself", mover.tree)
    return mover


def compile_derived(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> DerivedAttribute | None:
    """The expression that an attribute equals; None for an attribute that is not derived. Raises `ExpressionError`."""
    if attribute.derived is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    derived = DerivedAttribute(*_compile_change(attribute, attribute.derived, offsets))
    late = [name for name, at in derived.reads.items() if offsets[name][1].derived is not None and at >= derived.slot]
    if late:
        raise ExpressionError(f"'{late[0]}' is derived later: write it above", derived.tree)
    return derived


def _compile_change(
    attribute: Attribute, text: str, offsets: Offsets
) -> tuple[int, Attribute, ast.expr, Closure, dict[str, int]]:
    """The first fields of a `SelfChanging`, by the expression in `text`."""
    tree, expression = _compile_text(text, offsets)
    return offsets[attribute.name][0], attribute, tree, expression, {name: offsets[name][0] for name in attributes_in(tree)}


def compile_start(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> Closure | None:
    """The value of an attribute for which a home file gives none. Raises `ExpressionError`."""
    if attribute.starts is None:
        return None
    tree, start = _compile_text(attribute.starts, offsets_by_name(attributes, offset))
    if not attributes_in(tree):
        try:
            attribute.check_value(start(ServiceScope((), 0, {})), "starts")
        except UNKNOWN as error:
            raise ExpressionError(error.message if isinstance(error, Refused) else str(error), tree) from None
    return start


def compile_part_expression(text: str, attributes: Sequence[Attribute], offset: int = 0) -> Closure:
    """An expression over the attributes of a part. Raises `ExpressionError`."""
    return _compile_text(text, offsets_by_name(attributes, offset))[1]


def compile_derived_of_part(attributes: Sequence[Attribute], offset: int = 0) -> tuple[DerivedAttribute, ...]:
    """The derived attributes of a part, in order. Raises `ExpressionError`."""
    return tuple(found for a in attributes if (found := compile_derived(a, attributes, offset)) is not None)


COMPILERS: dict[str, Callable[[Attribute, Sequence[Attribute]], Any]] = {
    "counts": compile_counter,
    "moves": compile_motion,
    "derived": compile_derived,
    "starts": compile_start,
}


def clockwork_problems(attributes: Sequence[Attribute]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The (key path within a part, what is wrong there) pairs of what does not compile."""
    for i, attribute in enumerate(attributes):
        for key, compiler in COMPILERS.items():
            try:
                compiler(attribute, attributes)
            except ExpressionError as error:
                yield ("attributes", i, key), f"attribute '{attribute.name}': {error}"


def _compile_text(text: str, offsets: Offsets) -> tuple[ast.expr, Closure]:
    tree = parse_expression(text).body
    return tree, compile_expression(tree, make_name_resolver(offsets, frozenset()))
