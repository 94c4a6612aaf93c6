"""Tries what a device can do, to find what cannot work: services that never succeed, and effects on a room that never come.

Invariants:
- A trial is a pure function of the specification.
- A finding is no proof. Values are tried from each attribute's options and bounds and from the constants of the code; all
  combinations if they are few, else `MOST` random ones.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.clockwork import CompiledDerived, derived_of
from envs.homeenv.expressions import parse_statements
from envs.homeenv.interface import Attribute, Service
from envs.homeenv.parts import Component
from envs.homeenv.physics import COVERS, PLAIN_SHELL, Outdoors, inputs, steady
from envs.homeenv.service import CompiledService, Scope, compile_service
from envs.homeenv.spec import DeviceSpec
from envs.homeenv.types import NUMBERS, ValueType

WORD = "word"  # the text that is tried
MOST = 3000  # combinations that are tried
HEATS = (
    "air_condition",
    "heater",
    "thermostat",
    "climate",
    "radiator",
    "heat_pump",
)  # in names of what warms or cools rooms
ELSEWHERE = ("water", "oven", "kettle", "dryer", "aquarium", "blanket", "seat")  # what warms something else
MILD = Outdoors(21.0, 50.0, 20000.0)  # the weather of a trial, in which an empty room has nearly 21 celsius


def dead_services(part: Component) -> Iterator[tuple[int, str]]:
    """The (index, reason) pairs of the services of a part for which no state and no arguments were found to succeed."""
    for i, service in enumerate(part.services):
        if (reason := _why_never(service, part.attributes)) is not None:
            yield i, reason


def _why_never(service: Service, attributes: Sequence[Attribute]) -> str | None:
    """Why a service was refused in the last of all trials; None if it succeeded in one."""
    compiled, derived = compile_service(service, tuple(attributes)), derived_of(attributes)
    texts = [service.code, service.requires or "", *(a.derived for a in attributes if a.derived)]
    nodes = [node for text in texts for node in ast.walk(parse_statements(text))]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    rng = random.Random(service.name)
    varied = [a for a in attributes if a.name in read and a.derived is None]
    choices = [_candidates(a, constants, rng) for a in varied]
    for argument in service.arguments:
        some = _candidates(argument, constants, rng)
        choices.append(some if argument.required else [MISSING] * len(some) + some)
    usual = {a.name: a.sample(rng) for a in attributes}
    reason = None
    for drawn in _combinations(choices, rng):
        values = list((usual | dict(zip((a.name for a in varied), drawn))).values())
        given = dict(zip((a.name for a in service.arguments), drawn[len(varied) :]))
        if (reason := _refusal(compiled, derived, values, given)) is None:
            return None
    return reason


MISSING = object()  # stands for an argument that is left out


def _refusal(
    compiled: CompiledService, derived: Sequence[CompiledDerived], values: list[Any], given: Mapping[str, Any]
) -> str | None:
    """The message of the refusal of a call; None if it succeeds."""
    try:
        for one in derived:
            values[one.offset] = one.value(Scope(values, 0, {}))
        compiled.outcome(values, 0, compiled.bind((), {name: v for name, v in given.items() if v is not MISSING}))
    except Refused as refused:
        return refused.message
    except (ArithmeticError, TypeError, ValueError) as error:
        return str(error)
    return None


def _candidates(type: ValueType, constants: Sequence[Any], rng: random.Random) -> list[Any]:
    """Values of a type that are worth a trial: its options or bounds, constants and their neighbours, and some others."""
    tried: list[Any] = [*(type.options or ()), *([None] if type.nullable else ())]
    if type.type == "bool":
        tried += [True, False]
    if type.options is None:
        numbers = [c for c in constants if isinstance(c, (int, float)) and not isinstance(c, bool)]
        step = type.precision or 1
        tried += [*constants, *(number + way for number in numbers for way in (-step, step)), *(type.range or ())]
        tried += [type.sample(rng), type.sample(rng)] if type.type != "str" else [WORD]
    if type.type == "list" and type.items:
        tried += [(), *((item,) for item in _candidates(type.items[0], constants, rng))]
    found: list[Any] = []
    for value in tried:
        whole = type.type == "int" and isinstance(value, float) and value.is_integer()
        try:
            checked = type.check(int(value) if whole else value)
        except Refused:
            continue
        if checked not in found:
            found.append(checked)
    return found or [type.sample(rng)]


def _combinations(choices: Sequence[Sequence[Any]], rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """All combinations if they are at most `MOST`, else as many random ones."""
    count = 1
    for some in choices:
        count *= len(some)
    if count <= MOST:
        return itertools.product(*choices)
    return (tuple(rng.choice(some) for some in choices) for _ in range(MOST))


def unwired(spec: DeviceSpec) -> Iterator[tuple[str, str, str]]:
    """The (prefix of a part, what looks physical and is not wired, remedy) triples of a product."""
    for prefix, part in spec.parts():
        if not part.attributes:
            continue
        named = {a.name: a for a in part.attributes}
        kind = dict(spec.kinds)[prefix]
        level = named.get("brightness")
        if level is not None and not part.air and _reads_as_percent(level):
            assert level.range
            yield (
                prefix, f"the room reads 'brightness' as percent, but it goes to {level.range[1]:g}",
                f"add air: {{kind: light, brightness: self.brightness * 100 / {level.range[1]:g}}}",
            )  # fmt: skip
        words = " ".join((prefix or spec.name, kind, spec.category if not prefix else ""))
        targets = [a for a in part.attributes if _is_target(a, part)]
        thermal = any(word in words for word in HEATS) and not any(word in words for word in ELSEWHERE)
        if targets and thermal and not _moves_air(spec, prefix, targets):
            yield (
                    prefix, f"no value of '{targets[0].name}' warms or cools the room: a room of 21 celsius stays as it is",
                    "add air: {kind: air_conditioner, state: ..., mode: ..., target_temperature: ...}",
                )  # fmt: skip
        if kind in COVERS and not part.air and "position" not in named:
            yield (
                prefix,
                "it covers a window, but the room's light does not follow it",
                "add air: {kind: curtain, position: ...}",
            )


def _reads_as_percent(level: Attribute) -> bool:
    return level.type in NUMBERS and level.measures is None and not level.read_only and (level.range or (0, 0))[1] > 100


def _is_target(attribute: Attribute, part: Component) -> bool:
    """Whether an attribute is a temperature that people set."""
    written = {a.name for compiled in part.compiled() for _, a, _ in compiled.writes}
    degrees = attribute.unit in ("celsius", "fahrenheit", "°C", "°F") or "temp" in attribute.name
    return degrees and attribute.unit != "kelvin" and attribute.type in NUMBERS and attribute.name in written


def _moves_air(spec: DeviceSpec, prefix: str, targets: Sequence[Attribute]) -> bool:
    """Whether some setting of a device moves a room of 21 celsius by more than a degree."""
    rng = random.Random(spec.name)
    calm = steady(PLAIN_SHELL, MILD, inputs([])).temperature
    index = spec.attribute_index
    ends: dict[str, list[Any]] = {prefix + a.name: [*_ends(a)] for a in targets}
    choices: list[list[Any]] = [
        ends.get(path) or ([*a.options] if a.options else [a.sample(rng), a.sample(rng)]) for path, (_, a) in index.items()
    ]
    for drawn in _combinations(choices, rng):
        air = steady(PLAIN_SHELL, MILD, inputs([(spec, dict(zip(index, drawn)))]))
        if abs(air.temperature - calm) > 1:
            return True
    return False


def _ends(target: Attribute) -> list[float]:
    """A warm and a cold value of a target, within its range."""
    low, high = target.range or (10, 30)
    ends = [min(max(value, low), high) for value in ((59, 86) if target.unit == "fahrenheit" else (15, 30))]
    return [int(value) if target.type == "int" else float(value) for value in ends]
