"""Checks a folder of device files, and lists every error and every suspicious place with its file and line.

Trials of a device find what cannot work: services that never succeed, and effects on the room that never come.

Invariants:
- An error prevents a device from loading; a warning never does.
- Every file is checked, even if others have errors. The code of a device is checked only after its keys are valid.
- A trial is a pure function of the specification. So is the number of trials: a `TrialBudget` counts steps, not time.
- A finding is no proof. The values that are tried come from the options and bounds of each attribute and from the constants
  of the code. All combinations are tried if they are at most `MOST`, else `MOST` random ones.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.envs.core.documents import Document, InputError, KeyPath, list_problems, read_yaml
from homerl.envs.homeenv.sim.devices.air_physics import (
    COVERS,
    PLAIN_SHELL,
    AirInputs,
    Outdoors,
    compute_air_inputs,
    steady_air,
)
from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument, Attribute, Service, compile_service
from homerl.envs.homeenv.sim.devices.device_spec import Component, DeviceSpec, device_files, load_specs
from homerl.envs.homeenv.sim.devices.expression_cost import CostBound, steps_of_call
from homerl.envs.homeenv.sim.devices.self_changing_attributes import DerivedAttribute, compile_derived_of_part
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import parse_statements
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType, count_units

MOST = 3000  # combinations that are tried
MOST_CONSTANTS = 500  # of a service's code, from which values to try are taken
PLAIN_STEPS = 200  # that a trial takes besides the work of the code
HEATS = ("air_condition", "heater", "thermostat", "climate", "radiator", "heat_pump")  # in names of what warms rooms
ELSEWHERE = ("water", "oven", "kettle", "dryer", "aquarium", "blanket", "seat")  # in names of what warms something else
MILD = Outdoors(21.0, 50.0, 20000.0)  # the weather of a trial, in which an empty room has nearly 21 celsius


@dataclass
class TrialBudget:
    """The steps that the trials of one check have left. A device of a person takes a thousandth of them."""

    left: int = 50_000_000

    def spend_on_trials(self, steps: int) -> Iterator[int]:
        """As many numbers as there may be trials of so many steps each. No service gets more than a tenth of all steps."""
        for number in range(min(MOST, TrialBudget.left // 10 // steps)):
            if self.left < steps:
                return
            self.left -= steps
            yield number


def find_dead_services(part: Component, budget: TrialBudget) -> Iterator[tuple[int, str]]:
    """The (index, what was seen) pairs of the services for which no state and no arguments were found to succeed."""
    derived = compile_derived_of_part(part.attributes)
    for i, service in enumerate(part.services):
        if (seen := _try_service(service, part.attributes, derived, budget)) is not None:
            yield i, f"{service.name} {seen}"


def _try_service(
    service: Service, attributes: tuple[Attribute, ...], derived: Sequence[DerivedAttribute], budget: TrialBudget
) -> str | None:
    """That a service was refused in all trials, with the reason of the last one; None if it succeeded in one."""
    compiled = compile_service(service, attributes)
    texts = [service.code, service.requires or "", *(a.derived for a in attributes if a.derived)]
    nodes = [node for text in texts for node in ast.walk(parse_statements(text))]
    # By type and value, because 1 == True == 1.0 in Python.
    distinct = {(type(node.value), node.value): node.value for node in nodes if isinstance(node, ast.Constant)}
    constants = list(distinct.values())[:MOST_CONSTANTS]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    rng = random.Random(service.name)
    varied = [a for a in attributes if a.name in read and a.derived is None]
    choices = [_values_to_try(a, constants, rng) for a in varied]
    for argument in service.arguments:
        some = _values_to_try(argument, constants, rng)
        # An argument that may be left out is left out in half of the trials.
        choices.append(some if argument.required else [MISSING] * len(some) + some)
    usual = {a.name: a.sample_value(rng) for a in attributes}
    begin = {name: _bound_of_values([value]) for name, value in usual.items()}
    begin |= {a.name: _bound_of_values(c) for a, c in zip(varied, choices)}
    args = {a.name: _bound_of_values(c) for a, c in zip(service.arguments, choices[len(varied) :])}
    steps = PLAIN_STEPS + 3 * len(attributes) + steps_of_call(service, attributes, begin, args)
    reason: str | None = None
    combinations, left = _combine_choices(choices, rng), budget.left
    for _, drawn in zip(budget.spend_on_trials(steps), combinations):
        values = list((usual | dict(zip((a.name for a in varied), drawn))).values())
        given = {a.name: v for a, v in zip(service.arguments, drawn[len(varied) :]) if v is not MISSING}
        try:
            for one in derived:
                values[one.slot] = one.derived_value(values)
            compiled.compute_outcome(values, 0, compiled.bind_arguments((), given))
        except Refused as refused:
            reason = refused.message
        except (ArithmeticError, TypeError, ValueError) as error:
            reason = str(error)
        else:
            return None
    if next(combinations, None) is not None:
        made = (left - budget.left) // steps
        return f"did not succeed in {made} trials, and more would take too long: a call may take {steps:,} steps"
    return f"was refused in all trials: {reason}"


def _bound_of_values(values: Sequence[Any]) -> CostBound:
    return CostBound(max(len(value) if isinstance(value, tuple) else 0 for value in values), max(map(count_units, values)))


MISSING = object()  # stands for an argument that is left out


def _values_to_try(type: ValueType, constants: Sequence[Any], rng: random.Random) -> list[Any]:
    """Values of a type that are worth a trial: its options or bounds, constants and their neighbours, and some others."""
    tried: list[Any] = [*(type.options or ()), *([None] if type.nullable else ())]
    if type.type == "bool":
        tried += [True, False]
    if type.options is None:
        numbers = [c for c in constants if isinstance(c, (int, float)) and not isinstance(c, bool)]
        step = type.precision or 1
        tried += [*constants, *(number + way for number in numbers for way in (-step, step)), *(type.range or ())]
        tried += [type.sample_value(rng), type.sample_value(rng)] if type.type != "str" else ["word"]
    if type.type == "list" and type.items:
        tried += [(), *((item,) for item in _values_to_try(type.items[0], constants, rng))]
    found: dict[Any, None] = {}
    for value in tried:
        whole = type.type == "int" and isinstance(value, float) and value.is_integer()
        try:
            checked = type.check_value(int(value) if whole else value)
        except Refused:
            continue
        found.setdefault(checked)
    return list(found) or [type.sample_value(rng)]


def _combine_choices(choices: Sequence[Sequence[Any]], rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """All combinations if they are at most `MOST`, else as many random ones."""
    if math.prod(map(len, choices)) <= MOST:
        return iter(itertools.product(*choices))
    return (tuple(rng.choice(some) for some in choices) for _ in range(MOST))


def find_unwired_parts(spec: DeviceSpec, budget: TrialBudget) -> Iterator[tuple[str, str, str]]:
    """The (prefix of a part, what looks physical and is not wired, remedy) triples of a product."""
    calm = steady_air(PLAIN_SHELL, MILD, compute_air_inputs([])).temperature

    def warms_or_cools(done: AirInputs) -> bool:
        return abs(steady_air(PLAIN_SHELL, MILD, done).temperature - calm) > 1

    for prefix, part in spec.parts_by_prefix():
        if not part.attributes:
            continue
        named = {a.name: a for a in part.attributes}
        kind = dict(spec.part_kinds)[prefix]
        level = named.get("brightness")
        lamp = level and not part.air and level.type in NUMBERS and not level.measures and not level.read_only
        if level and lamp and (most := (level.range or (0, 0))[1]) > 100:
            what = f"the room reads 'brightness' as percent, but it goes to {most:g}"
            yield prefix, what, f"add air: {{kind: light, brightness: self.brightness * 100 / {most:g}}}"
        if kind == "light":
            states = {
                prefix + a.name: _values_to_try(a, ("on", "ON"), random.Random(a.name))
                for a in part.attributes
                if not a.changes_by_itself
            }
            if not _some_setting(spec, states, budget, lambda done: done.lux > 0):
                what = "it is a light, but no value of its 'state' lights the room: on, ON, true and 1 do"
                yield prefix, what, """add air: {kind: light, state: '"on" if self.NAME else "off"'}"""
        words = " ".join((prefix or spec.name, kind, spec.category if not prefix else ""))
        targets = {prefix + a.name: _warm_and_cold(a) for a in part.attributes if _is_target(a, part)}
        thermal = any(word in words for word in HEATS) and not any(word in words for word in ELSEWHERE)
        if targets and thermal and not _some_setting(spec, targets, budget, warms_or_cools):
            name = next(iter(targets)).removeprefix(prefix)
            what = f"no value of '{name}' warms or cools the room: a room of 21 celsius stays as it is"
            if "thermostat" in words:
                settings = "thermostat, state: ..., mode: ..."
            elif any(word in words for word in ("heater", "radiator", "heating")) and "cool" not in words:
                settings = "heater, state: ..."
            else:
                settings = "air_conditioner, state: ..., mode: ..."
            yield prefix, what, f"add air: {{kind: {settings}, target_temperature: ...}}"
        if kind in COVERS and not part.air and "position" not in named:
            what = "it covers a window, but the room's light does not follow it"
            yield prefix, what, "add air: {kind: curtain, position: ...}"


def _is_target(attribute: Attribute, part: Component) -> bool:
    """Whether an attribute is a temperature that people set."""
    degrees = attribute.unit in ("celsius", "fahrenheit", "°C", "°F") or "temp" in attribute.name
    return degrees and attribute.unit != "kelvin" and attribute.type in NUMBERS and attribute.name in part.written_attributes


def _warm_and_cold(target: Attribute) -> list[Any]:
    """A warm and a cold value of a target, within its range."""
    low, high = target.range or (10, 30)
    ends = [min(max(value, low), high) for value in ((59, 86) if target.unit == "fahrenheit" else (15, 30))]
    return [int(value) if target.type == "int" else float(value) for value in ends]


def _some_setting(
    spec: DeviceSpec, tried: Mapping[str, list[Any]], budget: TrialBudget, holds: Callable[[AirInputs], bool]
) -> bool:
    """Whether something holds of what a device does in some of its settings; also if too few could be tried."""
    rng, index = random.Random(spec.name), spec.attribute_index
    choices: list[list[Any]] = [
        tried.get(path) or ([*a.options] if a.options else [a.sample_value(rng), a.sample_value(rng)])
        for path, (_, a) in index.items()
    ]
    steps = sum(PLAIN_STEPS + 3 * len(part.attributes) + part.steps_of_itself() for _, part in spec.parts_by_prefix())
    combinations = _combine_choices(choices, rng)
    for _, drawn in zip(budget.spend_on_trials(steps), combinations):
        if holds(compute_air_inputs([(spec, dict(zip(index, drawn)))])):
            return True
    return next(combinations, None) is not None


@dataclass(frozen=True)
class LintFinding:
    """One error, or one warning about something suspicious: where it is (`file:line`), what it is, and how to fix it."""

    where: str
    what: str
    remedy: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {'warning' if self.warning else 'error'}: {self.what}\n    {self.remedy}"


@dataclass(frozen=True)
class LintReport:
    """The result of a check: the devices of the files that load, and the findings of all files."""

    specs: tuple[DeviceSpec, ...]
    findings: tuple[LintFinding, ...]

    @property
    def error_count(self) -> int:
        """The number of findings that prevent a device from loading."""
        return sum(not finding.warning for finding in self.findings)


def lint_device_files(
    folder: Path, known: Collection[str] = (), shipped: Mapping[str, DeviceSpec] | None = None
) -> LintReport:
    """Check every device file of a folder, or one file. Raises `InputError` if there is none.

    `known` are the categories for which HomeMaker has priors; without any, no warning about categories is given.
    `shipped` are the existing products by spid: their spids are taken.
    """
    specs: list[DeviceSpec] = []
    findings: list[LintFinding] = []
    budget = TrialBudget()
    taken = {spid: f"the shipped {spec.name}" for spid, spec in (shipped or {}).items()}
    for path in device_files(folder):
        try:
            document = read_yaml(path)
            errors = list_problems(tuple[DeviceSpec, ...], document) if isinstance(document.data, list) else []
            if not errors:
                load_specs(document)
        except InputError as error:
            findings.append(LintFinding(error.where, error.what, error.remedy))
            continue
        findings += (LintFinding(error.where, error.what, error.remedy) for error in errors)
        right: dict[int, DeviceSpec] = {}  # by place: the devices without errors, also those beside a wrong one
        for place, data in enumerate(document.data if isinstance(document.data, list) else ()):
            with suppress(ValidationError):
                right[place] = DeviceSpec.model_validate(data)
        for place, spec in right.items():
            where = document.locate_key((place, "userdata", "spid"))
            if spec.spid in taken:
                what = f"the spid {spec.spid} belongs to {taken[spec.spid]}"
                findings.append(LintFinding(where, what, "give each product its own spid"))
            taken.setdefault(spec.spid, f"{spec.name} ({where})")
        findings += _warnings_of_file(document, right, known, budget)
        specs += [] if errors else right.values()
    return LintReport(tuple(specs), tuple(findings))


# Warnings: devices that load, but probably not as intended


def _warnings_of_file(
    document: Document, specs: Mapping[int, DeviceSpec], known: Collection[str], budget: TrialBudget
) -> Iterator[LintFinding]:
    for i, spec in specs.items():
        if known and spec.category not in known and not spec.userdata.rooms:
            what = f"the category '{spec.category}' is not known, so it may stand in any room"
            yield _warn(document, (i, "userdata", "category"), what, "add for example rooms: [kitchen] under userdata")
        for key, part in [((i,), spec), *(((i, "components", j), c) for j, c in enumerate(spec.components))]:
            yield from _warnings_of_part(document, key, part, "sensor" in spec.userdata.tags, budget)
        places: dict[str, KeyPath] = {"": (i,)} | {f"{c.name}.": (i, "components", j) for j, c in enumerate(spec.components)}
        for prefix, what, remedy in find_unwired_parts(spec, budget):
            yield _warn(document, places[prefix], what, remedy)


def _warnings_of_part(
    document: Document, key: KeyPath, part: Component, is_sensor: bool, budget: TrialBudget
) -> Iterator[LintFinding]:
    attributes = {attribute.name: attribute for attribute in part.attributes}
    for at, attribute in enumerate(part.attributes):
        place = (*key, "attributes", at)
        written = attribute.name in part.written_attributes
        if not (written or attribute.read_only or attribute.changes_by_itself or is_sensor):
            remedy = "add a service that sets it, or read_only: true, or the tag sensor"
            yield _warn(document, place, f"no service writes '{attribute.name}'", remedy)
        if written and attribute.read_only:
            yield _warn(document, place, f"'{attribute.name}' is read_only, but a service writes it", "leave out read_only")
        if attribute.type not in NUMBERS:
            continue
        if attribute.range is None and attribute.options is None:
            what = f"'{attribute.name}' has no range: homes are made with 0 to 100"
            yield _warn(document, place, what, "add range: [low, high]")
        if "temperature" in attribute.name and attribute.unit is None:
            yield _warn(document, place, f"'{attribute.name}' has no unit", "add unit: celsius (or kelvin, for light)")
    if silent := [service.name for service in part.services if not service.description]:
        what = f"no description of {', '.join(silent)}: agents read the names alone"
        yield _warn(document, (*key, "services"), what, "add description: ... to each service")
    for at, what in find_dead_services(part, budget):
        yield _warn(document, (*key, "services", at), what, "check what it requires, and the bounds of what its code sets")
    for at, service in enumerate(part.services):
        for number, argument in enumerate(service.arguments):
            for name in dict.fromkeys((argument.name, *_attributes_set_to(argument.name, service))):
                target = attributes.get(name)
                if target and target.derived is None and _allows_more(argument, target):
                    held = "the attribute" if name == argument.name else f"'{name}', which it sets,"
                    what = f"{service.name} takes {argument.describe_type()}, but {held} holds {target.describe_type()}"
                    yield _warn(document, (*key, "services", at, "arguments", number), what, "give both the same bounds")


def _attributes_set_to(argument: str, service: Service) -> Iterator[str]:
    """The attributes to which the code assigns an argument as it is."""
    for node in ast.walk(parse_statements(service.code)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == argument:
            yield from (target.attr for target in node.targets if isinstance(target, ast.Attribute))


def _allows_more(argument: Argument, attribute: Attribute) -> bool:
    """Whether the argument accepts values that the attribute would refuse."""
    if argument.options and attribute.options:
        return not set(argument.options) <= set(attribute.options)
    if argument.range and attribute.range:
        return argument.range[0] < attribute.range[0] or argument.range[1] > attribute.range[1]
    return argument.options is None and argument.range is None and bool(attribute.range or attribute.options)


def _warn(document: Document, key: KeyPath, what: str, remedy: str) -> LintFinding:
    return LintFinding(document.locate_key(key), what, remedy, warning=True)
