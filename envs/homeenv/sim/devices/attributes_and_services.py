"""The interface of a device: its attributes with their limits, its services and their arguments (HomeFlow A.1).

The `code` of a service is a sequence of assignments to attributes of `self`. Its precondition `requires` and its answer
`returns` are expressions over them. All use the closed grammar of `expressions.py`. They are compiled to closures over the
flat values of a home. `device_spec.py` builds device specifications.

An attribute is a `ValueType`, whose `range` and `options` limit it. The position of a blind is limited by `range: [0, 100]`
at the attribute `position` in its device file. A call that would write a position outside of it is refused.

Invariants:
- An attribute that counts seconds is an int from 0.
- One that moves has whole steps.
- At most one of `counts`, `moves`, `derived` and `measures` says how an attribute changes by itself.
- What moves stands still while it is null, and what measures is null until it is next measured.
- The default of an argument fits its type.
- A service that compiles can be called. A call gives canonical values and plain data, or raises `Refused`.
- Service code sees the values of its own device, its own earlier writes and its arguments, and nothing else.

The docstrings of the models are descriptions in docs/schemas.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import (
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
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, STATE, ValueType, quote_value


class Motion(Model):
    """How an attribute moves while time passes: towards `to`, by `rate` a second. It stands still while `to` is None."""

    to: str = Field(description="an expression over self, over attributes that services alone change")
    rate: float = Field(gt=0, le=1e6, description="by how much the value changes in a second")


class Attribute(ValueType):
    """A named value of a device. A `read_only` one is measured: no service writes it."""

    name: str
    description: str | None = None
    read_only: bool = False
    counts: str | None = Field(None, description="an expression over self: the value is for how many seconds it has held")

    moves: Motion | None = Field(None, description="the value moves to a target while time passes")
    derived: str | None = Field(None, description="an expression over self that the value always equals")
    measures: Literal["temperature", "humidity", "brightness"] | None = Field(
        None, description="the quantity of its room's air that the value shows"
    )
    internal: bool = Field(False, description="whether agents are not told of it: the device's own memory")
    starts: str | None = Field(None, description="an expression over self: the value where a home file gives none")

    @property
    def changes_by_itself(self) -> bool:
        """Whether the value changes by itself, and not by services alone."""
        return bool(self.counts or self.moves or self.derived or self.measures)

    @model_validator(mode="after")
    def _check_way_of_change(self) -> Attribute:
        ways = [way for way in ("counts", "moves", "derived", "measures") if getattr(self, way) is not None]
        if len(ways) > 1:
            raise ValueError(f"attribute '{self.name}' has {' and '.join(ways)}, and may have one of them")
        if (self.moves or self.measures) and (self.type not in NUMBERS or self.options):
            raise ValueError(f"attribute '{self.name}' {ways[0]}, so it is an int or a float, without options")
        if self.moves and self.type == "float" and not self.precision:
            raise ValueError(f"attribute '{self.name}' moves in steps, so a float needs a precision")
        if self.counts is not None and (self.type != "int" or self.nullable):
            raise ValueError(f"attribute '{self.name}' counts seconds, so its type is int, and it is never null")
        if self.counts is not None and (self.options or self.precision or (self.range and self.range[0] > 0)):
            raise ValueError(f"attribute '{self.name}' counts seconds from 0: no options, no precision, no range above 0")
        return self


# A named argument of a service. `default` is used if it is not given. (A docstring would enter the schemas.)
class Argument(ValueType):
    name: str
    required: bool = True
    default: Any = None
    description: str | None = None
    rooms: bool = Field(  # home files are older than this key
        False, exclude_if=lambda rooms: not rooms, description="each text is a room by id or name; the code gets its id"
    )

    @model_validator(mode="after")
    def _check_rooms_and_default(self) -> Argument:
        texts = self.items or () if self.type == "list" else (self,)
        if self.rooms and any(text.type != "str" for text in texts):
            raise ValueError(f"argument '{self.name}' names rooms, so its type is str, or list of str")
        if self.default is not None:
            try:
                self.check_value(self.default, "default")
            except Refused as refused:
                raise ValueError(f"argument '{self.name}': {refused.message}") from None
        return self


class Service(Model):
    """What a device can be told to do."""

    name: str
    arguments: tuple[Argument, ...] = ()
    code: str
    requires: str | None = Field(None, description="an expression over self that must hold before the call")
    returns: str | dict[str, str] | None = Field(
        None, description="what the call gives back: an expression over self after the call, or several by name"
    )
    description: str | None = None

    def signature_text(self) -> str:
        """The signature as agents read it: `set_brightness(brightness: int 1..100 percentage)`; `a?` may be left out."""
        named = (f"{a.name}{'' if a.required else '?'}: {a.describe_type()}" for a in self.arguments)
        return f"{self.name}({', '.join(named)})"


# The code of services, compiled and run

# What people call the service that sets a state. A product whose services have these names, as all shipped ones, needs none.
DONE_BY = {"on": "turn_on", "off": "turn_off", "locked": "lock", "unlocked": "unlock", "open": "open", "closed": "close"}
Offsets = Mapping[str, tuple[int, Attribute]]  # attribute name -> (offset within the device's slots, attribute)


class ServiceScope(NamedTuple):
    """What service code sees: the flat values of the home, the first slot of its device, and the bound arguments."""

    values: Sequence[Any]
    base: int
    arguments: Mapping[str, Any]


class ServiceOutcome(NamedTuple):
    """What a call comes to: the (slot, canonical value) pairs of its writes in order, and the plain data that it returns."""

    updates: list[tuple[int, Any]]
    returned: Any


@dataclass(frozen=True)
class CompiledService:
    """A service that is ready to run.

    `writes` are the assignments as (offset, attribute, closure), in the order of the code. `requires` is the precondition,
    and `reads` are the (name, offset) pairs of the attributes that the precondition reads. `returns` gives the answer.
    `available` says whether the device can be reached. `follow` are the derived attributes of the part, in order.
    """

    service: Service
    writes: tuple[tuple[int, Attribute, Closure], ...]
    requires: Callable[[ServiceScope], bool] | None = None
    reads: tuple[tuple[str, int], ...] = ()
    returns: Closure | None = None
    available: Closure | None = None
    follow: tuple[tuple[int, Attribute, Closure], ...] = ()

    def bind_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical arguments by name, from positional and named ones. Raises `Refused` if they do not fit.

        None for an argument that may be left out leaves it out, so that a later one can be given by position.
        """
        declared = self.service.arguments
        if len(args) > len(declared):
            raise Refused("unknown_argument", f"{self.service.signature_text()} takes {len(declared)} arguments")
        given = dict(zip((a.name for a in declared), args))
        for name, value in kwargs.items():
            if name in given or all(name != a.name for a in declared):
                raise Refused(
                    "unknown_argument", f"{self.service.signature_text()} takes no further argument {quote_value(name)}"
                )
            given[name] = value
        if missing := [repr(a.name) for a in declared if a.required and a.name not in given]:
            raise Refused("missing_argument", f"{self.service.signature_text()} needs {' and '.join(missing)}")
        bound = {}
        for argument in declared:
            if argument.name in given and (argument.required or given[argument.name] is not None):
                bound[argument.name] = argument.check_value(given[argument.name], argument.name)
            elif argument.default is not None:
                bound[argument.name] = argument.check_value(argument.default, argument.name)
            else:
                bound[argument.name] = None
        return bound

    def compute_outcome(self, values: Sequence[Any], base: int, arguments: Mapping[str, Any]) -> ServiceOutcome:
        """What a call with these arguments writes and returns.

        Each write sees those before it, and the answer sees them all. `values` itself is not changed. `base` is the device's
        first slot. Raises `Refused` if the device cannot be reached, if the precondition does not hold, or if a value is
        invalid or cannot be computed.
        """
        written = list(values)  # a copy: a write that is refused later must leave no trace
        scope = ServiceScope(written, base, arguments)
        updates = []
        try:
            if self.available is not None and not self.available(scope):
                raise Refused("unavailable", f"{self.service.name}: the device cannot be reached now")
            if self.requires is not None and not self.requires(scope):
                now = [f"{name} is {json.dumps(values[base + offset])}" for name, offset in self.reads]
                needs = f"{self.service.name} needs {(self.service.requires or '').strip().replace('self.', '')}"
                raise Refused("precondition", f"{needs}; now {', '.join(now)}" if now else needs)
            for write in self.writes:
                # What is derived is computed anew after each write, so the next write reads it.
                for offset, attribute, closure in (write, *self.follow):
                    value = written[base + offset] = attribute.check_value(closure(scope), attribute.name)
                    updates.append((base + offset, value))
            returned = None if self.returns is None else _plain_data(self.returns(scope))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused("out_of_range", f"{self.service.name} cannot be worked out: {error}") from None
        return ServiceOutcome(updates, returned)


class ServiceError(ValueError):
    """A part of a service does not compile. `key` is its path: ("code",), or ("returns", "level") for a named answer."""

    def __init__(self, key: tuple[str, ...], error: ExpressionError) -> None:
        self.key = key
        super().__init__(str(error))


def make_name_resolver(offsets: Offsets, arguments: frozenset[str]) -> Resolver:
    """A resolver of the names of arguments and the attributes of `self`. It gives closures over a `ServiceScope`."""

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


def compile_service(
    service: Service,
    attributes: tuple[Attribute, ...],
    offset: int = 0,
    available: Closure | None = None,
    follow: tuple[tuple[int, Attribute, Closure], ...] = (),
) -> CompiledService:
    """Compile the code, the precondition and the answer of a service. Raises `ServiceError` if one does not compile.

    `attributes` are those of the part that has the service. `offset` is the offset of the first of them within the device.
    `available` and `follow` are those of `CompiledService`.
    """
    offsets = offsets_by_name(attributes, offset)
    resolve = make_name_resolver(offsets, frozenset(a.name for a in service.arguments))
    with _errors_under("code"):
        tree = parse_statements(service.code)
        writes = tuple(_compile_write(statement, offsets, resolve) for statement in tree.body)
    returns = _compile_answer(service.returns, resolve)
    requires: Closure | None = None
    reads: tuple[tuple[str, int], ...] = ()
    if service.requires:
        with _errors_under("requires"):
            condition = parse_expression(service.requires)
            requires = compile_expression(condition.body, resolve)
        reads = tuple((name, offsets[name][0]) for name in attributes_in(condition))
    return CompiledService(service, writes, requires, reads, returns, available, follow)


def offsets_by_name(attributes: Sequence[Attribute], offset: int) -> Offsets:
    """The attributes of a part by name. `offset` is the offset of the first of them within the device."""
    return {a.name: (offset + i, a) for i, a in enumerate(attributes)}


@contextmanager
def _errors_under(*key: str) -> Iterator[None]:
    """Says in which part of a service an expression does not compile."""
    try:
        yield
    except ExpressionError as error:
        raise ServiceError(key, error) from None


def _compile_answer(returns: str | Mapping[str, str] | None, resolve: Resolver) -> Closure | None:
    """The closure of `returns`: its value, or a dict of values by name. None if the service returns nothing."""
    if returns is None:
        return None
    if isinstance(returns, str):
        with _errors_under("returns"):
            return compile_expression(parse_expression(returns).body, resolve)
    named: dict[str, Closure] = {}
    for name, text in returns.items():
        with _errors_under("returns", name):
            named[name] = compile_expression(parse_expression(text).body, resolve)
    return lambda scope: {name: closure(scope) for name, closure in named.items()}


def _plain_data(value: Any) -> Any:
    """The value as JSON holds it, with lists in place of tuples. Raises `ValueError` for an infinity or a NaN."""
    if isinstance(value, dict):
        return {name: _plain_data(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain_data(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _compile_write(statement: ast.stmt, offsets: Offsets, resolve: Resolver) -> tuple[int, Attribute, Closure]:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        raise ExpressionError(f"{quoted_source(statement)} is not an assignment to an attribute of self", statement)
    root, names = path_of(statement.targets[0])
    if not (isinstance(root, ast.Name) and root.id == "self" and len(names) == 1 and names[0] in offsets):
        raise ExpressionError(f"{quoted_source(statement.targets[0])} is not an attribute of self", statement)
    offset, attribute = offsets[names[0]]
    if attribute.derived is not None:
        raise ExpressionError(f"'{attribute.name}' is derived: set what it is derived from", statement)
    return offset, attribute, compile_expression(statement.value, resolve)


def find_switch_services(
    services: Mapping[str, CompiledService], attributes: Mapping[str, tuple[int, Attribute]]
) -> dict[str, tuple[str, Any]]:
    """The services that do what people call `turn_on`, where no service has that name: (path, argument) by such a path.

    They are the services whose only argument sets the state of their part.
    """
    found: dict[str, tuple[str, Any]] = {}
    for path, compiled in services.items():
        prefix = path.removesuffix(path.rpartition(".")[2])
        arguments = compiled.service.arguments
        if len(arguments) != 1 or not arguments[0].required or prefix + STATE not in attributes:
            continue
        slot, state = attributes[prefix + STATE]
        for word, value in arguments[0].state_words.items() if slot in {offset for offset, *_ in compiled.writes} else ():
            if word in state.state_words and (name := prefix + DONE_BY[word]) not in services:
                found.setdefault(name, (path, value))
    return found
