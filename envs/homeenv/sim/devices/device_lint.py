"""Tries what a device can do, to find what cannot work: services that never succeed, and effects on a room that never come.

Invariants:
- A trial is a pure function of the specification, and so is the number of trials: a `Budget` counts steps, and no time.
- A finding is no proof. Values are tried from each attribute's options and bounds and from the constants of the code; all
  combinations if they are few, else `MOST` random ones.

Checks a whole folder of device files. Lists every error and every suspicious place, each with file and line.

Invariants:
- An error prevents a device from loading; a warning never does.
- Every file is checked, even if others have errors.
- The code of a device is checked only after its keys are valid.
"""

from __future__ import annotations

import ast
import itertools
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
from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument, Attribute, Service
from homerl.envs.homeenv.sim.devices.device_spec import Component, DeviceSpec, device_files, load_specs
from homerl.envs.homeenv.sim.devices.expression_cost import CostBound, steps_of_call
from homerl.envs.homeenv.sim.devices.self_changing_attributes import CompiledDerived, compile_derived_of_part
from homerl.envs.homeenv.sim.devices.service_execution import CompiledService, ServiceScope, compile_service
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import parse_statements
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType, count_units

WORD = "word"  # the text that is tried
MOST = 3000  # combinations that are tried
MOST_CONSTANTS = 500  # of a service's code, from which values to try are taken
PLAIN_STEPS = 200  # that a trial takes besides the work of the code
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
        if (seen := _why_never(service, part.attributes, derived, budget)) is not None:
            yield i, f"{service.name} {seen}"


def _why_never(
    service: Service, attributes: tuple[Attribute, ...], derived: Sequence[CompiledDerived], budget: TrialBudget
) -> str | None:
    """That a service was refused in all trials, with the reason of the last one; None if it succeeded in one."""
    compiled = compile_service(service, attributes)
    texts = [service.code, service.requires or "", *(a.derived for a in attributes if a.derived)]
    nodes = [node for text in texts for node in ast.walk(parse_statements(text))]
    distinct = {(type(node.value), node.value): node.value for node in nodes if isinstance(node, ast.Constant)}
    constants = list(distinct.values())[:MOST_CONSTANTS]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    rng = random.Random(service.name)
    varied = [a for a in attributes if a.name in read and a.derived is None]
    choices = [_candidates(a, constants, rng) for a in varied]
    for argument in service.arguments:
        some = _candidates(argument, constants, rng)
        choices.append(some if argument.required else [MISSING] * len(some) + some)
    usual = {a.name: a.sample_value(rng) for a in attributes}
    begin = {name: _widest([value]) for name, value in usual.items()} | {a.name: _widest(c) for a, c in zip(varied, choices)}
    args = {a.name: _widest(c) for a, c in zip(service.arguments, choices[len(varied) :])}
    steps = PLAIN_STEPS + 3 * len(attributes) + steps_of_call(service, attributes, begin, args)
    reason: str | None = None
    combinations, left = _combinations(choices, rng), budget.left
    for _, drawn in zip(budget.spend_on_trials(steps), combinations):
        values = list((usual | dict(zip((a.name for a in varied), drawn))).values())
        given = dict(zip((a.name for a in service.arguments), drawn[len(varied) :]))
        if (reason := _refusal(compiled, derived, values, given)) is None:
            return None
    if next(combinations, None) is not None:
        made = (left - budget.left) // steps
        return f"did not succeed in {made} trials, and more would take too long: a call may take {steps:,} steps"
    return f"was refused in all trials: {reason}"


def _widest(values: Sequence[Any]) -> CostBound:
    """The bound of all of some values."""
    return CostBound(max(len(value) if isinstance(value, tuple) else 0 for value in values), max(map(count_units, values)))


MISSING = object()  # stands for an argument that is left out


def _refusal(
    compiled: CompiledService, derived: Sequence[CompiledDerived], values: list[Any], given: Mapping[str, Any]
) -> str | None:
    """The message of the refusal of a call; None if it succeeds."""
    try:
        for one in derived:
            values[one.offset] = one.derived_value(ServiceScope(values, 0, {}))
        compiled.compute_outcome(
            values, 0, compiled.bind_arguments((), {name: v for name, v in given.items() if v is not MISSING})
        )
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
        tried += [type.sample_value(rng), type.sample_value(rng)] if type.type != "str" else [WORD]
    if type.type == "list" and type.items:
        tried += [(), *((item,) for item in _candidates(type.items[0], constants, rng))]
    found: dict[Any, None] = {}
    for value in tried:
        whole = type.type == "int" and isinstance(value, float) and value.is_integer()
        try:
            checked = type.check_value(int(value) if whole else value)
        except Refused:
            continue
        found.setdefault(checked)
    return list(found) or [type.sample_value(rng)]


def _combinations(choices: Sequence[Sequence[Any]], rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """All combinations if they are at most `MOST`, else as many random ones."""
    count = 1
    for some in choices:
        count *= len(some)
    if count <= MOST:
        return iter(itertools.product(*choices))
    return (tuple(rng.choice(some) for some in choices) for _ in range(MOST))


def find_unwired_parts(spec: DeviceSpec, budget: TrialBudget) -> Iterator[tuple[str, str, str]]:
    """The (prefix of a part, what looks physical and is not wired, remedy) triples of a product."""
    for prefix, part in spec.parts_by_prefix():
        if not part.attributes:
            continue
        named = {a.name: a for a in part.attributes}
        kind = dict(spec.part_kinds)[prefix]
        level = named.get("brightness")
        if level is not None and not part.air and _reads_as_percent(level):
            assert level.range
            yield (
                prefix,
                f"the room reads 'brightness' as percent, but it goes to {level.range[1]:g}",
                f"add air: {{kind: light, brightness: self.brightness * 100 / {level.range[1]:g}}}",
            )
        if kind == "light" and not _some(spec, _states(part, prefix), budget, lambda done: done.lux > 0):
            what = "it is a light, but no value of its 'state' lights the room: on, ON, true and 1 do"
            yield prefix, what, """add air: {kind: light, state: '"on" if self.NAME else "off"'}"""
        words = " ".join((prefix or spec.name, kind, spec.category if not prefix else ""))
        targets = [a for a in part.attributes if _is_target(a, part)]
        thermal = any(word in words for word in HEATS) and not any(word in words for word in ELSEWHERE)
        if targets and thermal and not _moves_air(spec, prefix, targets, budget):
            yield (
                prefix,
                f"no value of '{targets[0].name}' warms or cools the room: a room of 21 celsius stays as it is",
                f"add air: {{kind: {_thermal_kind(words)}, target_temperature: ...}}",
            )
        if kind in COVERS and not part.air and "position" not in named:
            yield (
                prefix,
                "it covers a window, but the room's light does not follow it",
                "add air: {kind: curtain, position: ...}",
            )


def _thermal_kind(words: str) -> str:
    """What a product does to the air of its room, by its words."""
    if "thermostat" in words:
        return "thermostat, state: ..., mode: ..."
    heats = any(word in words for word in ("heater", "radiator", "heating")) and "cool" not in words
    return "heater, state: ..." if heats else "air_conditioner, state: ..., mode: ..."


def _states(part: Component, prefix: str) -> dict[str, list[Any]]:
    """The values of a part's state that are tried."""
    return {
        prefix + a.name: _candidates(a, ("on", "ON"), random.Random(a.name))
        for a in part.attributes
        if not a.changes_by_itself
    }


def _reads_as_percent(level: Attribute) -> bool:
    return level.type in NUMBERS and level.measures is None and not level.read_only and (level.range or (0, 0))[1] > 100


def _is_target(attribute: Attribute, part: Component) -> bool:
    """Whether an attribute is a temperature that people set."""
    degrees = attribute.unit in ("celsius", "fahrenheit", "°C", "°F") or "temp" in attribute.name
    return degrees and attribute.unit != "kelvin" and attribute.type in NUMBERS and attribute.name in part.written_attributes


def _moves_air(spec: DeviceSpec, prefix: str, targets: Sequence[Attribute], budget: TrialBudget) -> bool:
    """Whether some setting of a device moves a room of 21 celsius by more than a degree; also if too few could be tried."""
    calm = steady_air(PLAIN_SHELL, MILD, compute_air_inputs([])).temperature
    ends: dict[str, list[Any]] = {prefix + a.name: [*_ends(a)] for a in targets}
    return _some(spec, ends, budget, lambda done: abs(steady_air(PLAIN_SHELL, MILD, done).temperature - calm) > 1)


def _some(spec: DeviceSpec, ends: Mapping[str, list[Any]], budget: TrialBudget, holds: Callable[[AirInputs], bool]) -> bool:
    """Whether something holds of what a device does in some of its settings; also if too few could be tried."""
    rng, index = random.Random(spec.name), spec.attribute_index
    choices: list[list[Any]] = [
        ends.get(path) or ([*a.options] if a.options else [a.sample_value(rng), a.sample_value(rng)])
        for path, (_, a) in index.items()
    ]
    steps = sum(PLAIN_STEPS + 3 * len(part.attributes) + part.steps_of_itself() for _, part in spec.parts_by_prefix())
    combinations = _combinations(choices, rng)
    for _, drawn in zip(budget.spend_on_trials(steps), combinations):
        if holds(compute_air_inputs([(spec, dict(zip(index, drawn)))])):
            return True
    return next(combinations, None) is not None


def _ends(target: Attribute) -> list[float]:
    """A warm and a cold value of a target, within its range."""
    low, high = target.range or (10, 30)
    ends = [min(max(value, low), high) for value in ((59, 86) if target.unit == "fahrenheit" else (15, 30))]
    return [int(value) if target.type == "int" else float(value) for value in ends]


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
        document, wrong = _read(path)
        findings += wrong
        if document is None:
            continue
        right = dict(_right(document))
        findings += [*_spids_taken(document, right, taken), *_suspicious(document, right, known, budget)]
        specs += [] if wrong else right.values()
    return LintReport(tuple(specs), tuple(findings))


def _read(path: Path) -> tuple[Document | None, list[LintFinding]]:
    """The document of a file (None if it cannot be read), and the errors that keep it from being a list of devices."""
    try:
        document = read_yaml(path)
        errors = list_problems(tuple[DeviceSpec, ...], document) if isinstance(document.data, list) else []
        if not errors:
            load_specs(document)
    except InputError as error:
        return None, [LintFinding(error.where, error.what, error.remedy)]
    return document, [LintFinding(error.where, error.what, error.remedy) for error in errors]


def _right(document: Document) -> Iterator[tuple[int, DeviceSpec]]:
    """The devices of a document that have no errors, each with its place; those beside a wrong one among them."""
    for place, data in enumerate(document.data if isinstance(document.data, list) else ()):
        with suppress(ValidationError):
            yield place, DeviceSpec.model_validate(data)


def _spids_taken(document: Document, specs: Mapping[int, DeviceSpec], taken: dict[str, str]) -> Iterator[LintFinding]:
    for i, spec in specs.items():
        where = document.locate_key((i, "userdata", "spid"))
        if spec.spid in taken:
            yield LintFinding(where, f"the spid {spec.spid} belongs to {taken[spec.spid]}", "give each product its own spid")
        taken.setdefault(spec.spid, f"{spec.name} ({where})")


# Warnings: devices that load, but probably not as intended


def _suspicious(
    document: Document, specs: Mapping[int, DeviceSpec], known: Collection[str], budget: TrialBudget
) -> Iterator[LintFinding]:
    for i, spec in specs.items():
        if known and spec.category not in known and not spec.userdata.rooms:
            what = f"the category '{spec.category}' is not known, so it may stand in any room"
            yield _warn(document, (i, "userdata", "category"), what, "add for example rooms: [kitchen] under userdata")
        for key, part in [((i,), spec), *(((i, "components", j), c) for j, c in enumerate(spec.components))]:
            yield from _of_part(document, key, part, "sensor" in spec.userdata.tags, budget)
        places: dict[str, KeyPath] = {"": (i,)} | {f"{c.name}.": (i, "components", j) for j, c in enumerate(spec.components)}
        for prefix, what, remedy in find_unwired_parts(spec, budget):
            yield _warn(document, places[prefix], what, remedy)


def _of_part(
    document: Document, key: KeyPath, part: Component, is_sensor: bool, budget: TrialBudget
) -> Iterator[LintFinding]:
    attributes = {attribute.name: attribute for attribute in part.attributes}
    for at, attribute in enumerate(part.attributes):
        place = (*key, "attributes", at)
        if not (
            attribute.name in part.written_attributes or attribute.read_only or attribute.changes_by_itself or is_sensor
        ):
            remedy = "add a service that sets it, or read_only: true, or the tag sensor"
            yield _warn(document, place, f"no service writes '{attribute.name}'", remedy)
        if attribute.name in part.written_attributes and attribute.read_only:
            yield _warn(document, place, f"'{attribute.name}' is read_only, but a service writes it", "leave out read_only")
        yield from _of_number(document, place, attribute)
    if silent := [service.name for service in part.services if not service.description]:
        what = f"no description of {', '.join(silent)}: agents read the names alone"
        yield _warn(document, (*key, "services"), what, "add description: ... to each service")
    for at, what in find_dead_services(part, budget):
        yield _warn(document, (*key, "services", at), what, "check what it requires, and the bounds of what its code sets")
    for at, service in enumerate(part.services):
        for number, argument in enumerate(service.arguments):
            target = attributes.get(argument.name)
            if target and target.derived is None and _allows_more(argument, target):
                what = f"{service.name} takes {argument.describe_type()}, but the attribute holds {target.describe_type()}"
                yield _warn(document, (*key, "services", at, "arguments", number), what, "give both the same bounds")


def _of_number(document: Document, place: KeyPath, attribute: Attribute) -> Iterator[LintFinding]:
    if attribute.type not in NUMBERS:
        return
    if attribute.range is None and attribute.options is None:
        remedy = "add range: [low, high]"
        yield _warn(document, place, f"'{attribute.name}' has no range: homes are made with 0 to 100", remedy)
    if "temperature" in attribute.name and attribute.unit is None:
        yield _warn(document, place, f"'{attribute.name}' has no unit", "add unit: celsius (or kelvin, for light)")


def _allows_more(argument: Argument, attribute: Attribute) -> bool:
    """Whether the argument accepts values that the attribute of the same name would refuse."""
    if argument.options and attribute.options:
        return not set(argument.options) <= set(attribute.options)
    if argument.range and attribute.range:
        return argument.range[0] < attribute.range[0] or argument.range[1] > attribute.range[1]
    return argument.options is None and argument.range is None and bool(attribute.range or attribute.options)


def _warn(document: Document, key: KeyPath, what: str, remedy: str) -> LintFinding:
    return LintFinding(document.locate_key(key), what, remedy, warning=True)
