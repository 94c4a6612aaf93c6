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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

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
    attributes_in,
    compile_expression,
    parse_expression,
)

UNKNOWN = (ArithmeticError, TypeError, ValueError, Refused)  # raised by an expression that has no valid value now


@dataclass(frozen=True)
class CompiledCounter:
    """An attribute that counts seconds. `offset` is its offset within the device's slots.

    It grows while `holds` is true. `reads` are the offsets of the attributes that `holds` reads.
    """

    offset: int
    holds: Closure
    reads: tuple[int, ...]

    def is_counting(self, scope: ServiceScope) -> bool:
        """Whether it grows now."""
        try:
            return bool(self.holds(scope))
        except UNKNOWN:
            return False


@dataclass(frozen=True)
class CompiledMotion:
    """An attribute that moves: its offset within the device's slots, where it moves to, and its steps a second."""

    offset: int
    attribute: Attribute
    to: Closure
    rate: Fraction

    @property
    def step_size(self) -> float:
        """The smallest change of the value."""
        return self.attribute.precision or 1

    def target_value(self, scope: ServiceScope) -> Any:
        """Where the value moves to; its present value if it stands still."""
        present = scope.values[scope.base + self.offset]
        try:
            to = self.to(scope)
            return present if to is None else self.attribute.check_value(to)
        except UNKNOWN:
            return present


@dataclass(frozen=True)
class CompiledDerived:
    """An attribute that equals an expression. `tree` is the expression, and `names` are the offsets of what it reads."""

    offset: int
    attribute: Attribute
    equals: Closure
    tree: ast.expr
    names: dict[str, int]

    def derived_value(self, scope: ServiceScope) -> Any:
        """What it equals now. Raises one of `UNKNOWN` if that cannot be computed, or is no value of the attribute."""
        return self.attribute.check_value(self.equals(scope), self.attribute.name)


def compile_counter(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> CompiledCounter | None:
    """The counter of an attribute, which is one of `attributes`; None for an attribute that does not count.

    `offset` is the offset of the first of `attributes` within the device. Raises `ExpressionError` if the condition does
    not compile or reads what changes by itself, other than what a sensor measures.
    """
    if attribute.counts is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    tree, holds = _compile_text(attribute.counts, offsets)
    reads = [offsets[name] for name in attributes_in(tree)]
    if any(read.changes_by_itself and not read.measures for _, read in reads):
        raise ExpressionError("what is counted must not count itself, move or be derived", tree)
    return CompiledCounter(offsets[attribute.name][0], holds, tuple(at for at, _ in reads))


def compile_motion(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> CompiledMotion | None:
    """The motion of an attribute; None for one that does not move. Raises `ExpressionError` like `compile_counter`."""
    if attribute.moves is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    tree, to = _compile_text(attribute.moves.to, offsets)
    if moving := [name for name in attributes_in(tree) if offsets[name][1].changes_by_itself]:
        raise ExpressionError(f"a target that moves is none: '{moving[0]}' changes by itself", tree)
    # From the text of the numbers: 0.1 as a float is not a tenth.
    rate = Fraction(str(attribute.moves.rate)) / Fraction(str(attribute.precision or 1))
    return CompiledMotion(offsets[attribute.name][0], attribute, to, rate)


def compile_derived(attribute: Attribute, attributes: Sequence[Attribute], offset: int = 0) -> CompiledDerived | None:
    """The expression that an attribute equals; None for an attribute that is not derived. Raises `ExpressionError`."""
    if attribute.derived is None:
        return None
    offsets = offsets_by_name(attributes, offset)
    tree, equals = _compile_text(attribute.derived, offsets)
    at = offsets[attribute.name][0]
    names = {name: offsets[name][0] for name in attributes_in(tree)}
    if late := [name for name, place in names.items() if offsets[name][1].derived is not None and place >= at]:
        raise ExpressionError(f"'{late[0]}' is derived later: write it above", tree)
    return CompiledDerived(at, attribute, equals, tree, names)


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


def compile_derived_of_part(attributes: Sequence[Attribute], offset: int = 0) -> tuple[CompiledDerived, ...]:
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
