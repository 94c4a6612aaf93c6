"""Checks a whole folder of device files. Lists every error and every suspicious place, each with file and line.

Invariants:
- An error prevents a device from loading; a warning never does.
- Every file is checked, even if others have errors.
- The code of a device is checked only after its keys are valid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from homerl.envs.core.documents import Document, InputError, KeyPath, list_problems, read_yaml
from homerl.envs.homeenv.sim.devices.interface import Argument, Attribute
from homerl.envs.homeenv.sim.devices.spec import Component, DeviceSpec, device_files, load_specs
from homerl.envs.homeenv.sim.devices.trials import TrialBudget, find_dead_services, find_unwired_parts
from homerl.envs.homeenv.sim.values.types import NUMBERS


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
