"""Compiles the code of services and counters to closures over the flat values of a home.

Invariants:
- A service that compiles can be called. A call gives canonical values or raises `Refused`.
- Service code sees the values of its own device, its own earlier writes and its arguments, and nothing else.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from envs.homeenv.audit import Refused
from envs.homeenv.expressions import (
    Closure,
    ExpressionError,
    Resolver,
    attributes_in,
    compile_expression,
    parse_expression,
    parse_statements,
    path_of,
    quoted_source,
)
from envs.homeenv.interface import Attribute, Service
from envs.homeenv.types import shown

Offsets = Mapping[str, tuple[int, Attribute]]  # attribute name -> (offset within the device's slots, attribute)


class Scope(NamedTuple):
    """What service code sees: the flat values of the home, the first slot of its device, and the bound arguments."""

    values: Sequence[Any]
    base: int
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class CompiledCounter:
    """An attribute that counts seconds. `offset` is its offset within the device's slots.

    It grows while `holds` is true. `reads` are the offsets of the attributes that `holds` reads.
    """

    offset: int
    holds: Closure
    reads: tuple[int, ...]


@dataclass(frozen=True)
class CompiledService:
    """A service that is ready to run.

    `writes` are the assignments as (offset, attribute, closure), in the order of the code. `requires` is the precondition,
    and `reads` are the (name, offset) pairs of the attributes that the precondition reads.
    """

    service: Service
    writes: tuple[tuple[int, Attribute, Closure], ...]
    requires: Callable[[Scope], bool] | None = None
    reads: tuple[tuple[str, int], ...] = ()

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical arguments by name, from positional and named ones. Raises `Refused` if they do not fit."""
        declared = self.service.arguments
        if len(args) > len(declared):
            raise Refused("unknown_argument", f"{self.service.signature()} takes {len(declared)} arguments")
        given = dict(zip((a.name for a in declared), args))
        for name, value in kwargs.items():
            if name in given or all(name != a.name for a in declared):
                raise Refused("unknown_argument", f"{self.service.signature()} takes no further argument {shown(name)}")
            given[name] = value
        if missing := [repr(a.name) for a in declared if a.required and a.name not in given]:
            raise Refused("missing_argument", f"{self.service.signature()} needs {' and '.join(missing)}")
        bound = {}
        for argument in declared:
            if argument.name in given:
                bound[argument.name] = argument.check(given[argument.name], argument.name)
            elif argument.default is not None:
                bound[argument.name] = argument.check(argument.default, argument.name)
            else:
                bound[argument.name] = None
        return bound

    def updates(self, values: Sequence[Any], base: int, arguments: Mapping[str, Any]) -> list[tuple[int, Any]]:
        """The (slot, canonical value) pairs of all writes, in order.

        Each write sees those before it. `values` itself is not changed. `base` is the device's first slot. Raises `Refused`
        if the precondition does not hold, or if a value is invalid or cannot be computed.
        """
        written = list(values)
        scope = Scope(written, base, arguments)
        updates = []
        try:
            if self.requires is not None and not self.requires(scope):
                raise Refused("precondition", self._unmet(scope))
            for offset, attribute, closure in self.writes:
                value = written[base + offset] = attribute.check(closure(scope), attribute.name)
                updates.append((base + offset, value))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused("out_of_range", f"{self.service.name} cannot be worked out: {error}") from None
        return updates

    def _unmet(self, scope: Scope) -> str:
        """The message of an unmet precondition: `set_speed needs state == "on"; now state is "off"`."""
        now = [f"{name} is {json.dumps(scope.values[scope.base + offset])}" for name, offset in self.reads]
        needs = f"{self.service.name} needs {(self.service.requires or '').strip().replace('self.', '')}"
        return f"{needs}; now {', '.join(now)}" if now else needs


class ServiceError(ValueError):
    """The `code` or `requires` of a service does not compile. `key` says which of the two."""

    def __init__(self, key: str, error: ExpressionError) -> None:
        self.key = key
        super().__init__(str(error))


def compile_counter(
    attribute: Attribute, attributes: tuple[Attribute, ...], offset: int = 0
) -> tuple[Closure, tuple[int, ...]] | None:
    """The condition under which an attribute counts, and the offsets that the condition reads.

    It is None for an attribute that does not count. `offset` is the offset of the first of `attributes` within the device.
    Raises `ExpressionError` if the condition does not compile or reads a counter.
    """
    if attribute.counts is None:
        return None
    offsets = {a.name: (offset + i, a) for i, a in enumerate(attributes)}
    tree = parse_expression(attribute.counts).body
    counted = compile_expression(tree, _resolver(offsets, frozenset()))
    reads = [offsets[name] for name in attributes_in(tree)]
    if any(read.counts is not None for _, read in reads):
        raise ExpressionError("what is counted must not count itself", tree)
    return counted, tuple(at for at, _ in reads)


def _resolver(offsets: Offsets, arguments: frozenset[str]) -> Resolver:
    """A resolver of the names of arguments and the attributes of `self`. It gives closures over a `Scope`."""

    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if isinstance(node, ast.Name) and node.id in arguments:
            name = node.id
            return lambda scope: scope.arguments[name]
        if isinstance(root, ast.Name) and root.id == "self" and len(names) == 1:
            if names[0] not in offsets:
                raise ExpressionError(f"self has no attribute '{names[0]}'", node)
            at = offsets[names[0]][0]
            return lambda scope: scope.values[scope.base + at]
        return None

    return resolve


def compile_service(service: Service, attributes: tuple[Attribute, ...], offset: int = 0) -> CompiledService:
    """Compile the code and the precondition of a service. Raises `ServiceError` if one of them does not compile.

    `attributes` are those of the part that has the service. `offset` is the offset of the first of them within the device.
    """
    offsets = {a.name: (offset + i, a) for i, a in enumerate(attributes)}
    resolve = _resolver(offsets, frozenset(a.name for a in service.arguments))
    key = "code"
    try:
        tree = parse_statements(service.code)
        writes = tuple(_write(statement, offsets, resolve) for statement in tree.body)
        if not service.requires:
            return CompiledService(service, writes)
        key, condition = "requires", parse_expression(service.requires)
        requires = compile_expression(condition.body, resolve)
    except ExpressionError as error:
        raise ServiceError(key, error) from None
    reads = tuple((name, offsets[name][0]) for name in attributes_in(condition))
    return CompiledService(service, writes, requires, reads)


def _write(statement: ast.stmt, offsets: Offsets, resolve: Resolver) -> tuple[int, Attribute, Closure]:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        raise ExpressionError(f"{quoted_source(statement)} is not an assignment to an attribute of self", statement)
    root, names = path_of(statement.targets[0])
    if not (isinstance(root, ast.Name) and root.id == "self" and len(names) == 1 and names[0] in offsets):
        raise ExpressionError(f"{quoted_source(statement.targets[0])} is not an attribute of self", statement)
    offset, attribute = offsets[names[0]]
    return offset, attribute, compile_expression(statement.value, resolve)
