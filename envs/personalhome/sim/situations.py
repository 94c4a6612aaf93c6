"""What goes on in a home: how it starts, what its events tell, and what settles it (`situations.yaml`).

The paper leaves open what makes a plan right (PersonalHomeBench 3.3 has a judge alone). Here a situation is settled when
conditions over the devices' end state hold. Its reference plan says which calls settle it.

Invariants: every situation of `vocabulary.yaml` is described; what it names exists; no condition holds at its start; its
reference plan settles it, and no step of the plan can be left out (tests prove the last two).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from homerl.envs.core.documents import Document, InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.expression_cost import CostBound, bound_of_expression, bound_of_type, tell_too_costly
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import (
    Closure,
    ExpressionError,
    compile_expression,
    parse_expression,
    path_of,
)
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, sensor_kinds
from homerl.envs.personalhome.sim.scene.transcript import Domain
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary

Predicate = Callable[[Mapping[str, Any]], bool]


def compile_predicate(spec: DeviceSpec, text: str) -> Predicate:
    """The condition over a device's values by attribute. Raises `ExpressionError` for one that is none or costs too much.

    It is written in the grammar of device files (`self.brightness <= 20`), and can be asked of any state of its kind.
    """
    bounds = tuple((path, bound_of_type(attribute)) for path, (_, attribute) in spec.attribute_index.items())
    return _compile_condition(bounds, text)


@lru_cache(maxsize=1024)
def _compile_condition(bounds: tuple[tuple[str, CostBound], ...], text: str) -> Predicate:
    attributes, sizes = dict(bounds), dict[ast.expr, CostBound]()

    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if not (isinstance(root, ast.Name) and root.id == "self" and names):
            return None
        path = ".".join(names)
        if path not in attributes:
            raise ExpressionError(f"self has no attribute '{path}'", node)
        sizes[node] = attributes[path]
        return lambda state: state[path]

    tree = parse_expression(text).body
    closure = compile_expression(tree, resolve)
    if much := tell_too_costly(bound_of_expression(tree, sizes.get).steps):
        raise ExpressionError(f"it {much}", tree, "compare less")
    return lambda state: bool(closure(state))


FILE = Path(__file__).resolve().parent / "situations.yaml"
NOTIFIERS = ("speaker", "tv", "smart_display")  # kinds that tell people something
NOTIFICATION = "last_notification"  # their attribute that holds the last message


def _find_spec(kind: str) -> DeviceSpec:
    spec = appliance_kinds().get(kind) or sensor_kinds().get(kind)
    if spec is None:
        raise ValueError(f"'{kind}' is no kind of the catalogue")
    return spec


class SituationPlanStep(Model):
    """A step of a plan: a feature of a kind of appliance, with its arguments."""

    appliance: str
    feature: str
    args: dict[str, Any] = {}

    @model_validator(mode="after")
    def _callable(self) -> SituationPlanStep:
        index = _find_spec(self.appliance).service_index
        if self.feature not in index:
            raise ValueError(f"{self.appliance} has no feature '{self.feature}' (it has {', '.join(index)})")
        try:
            index[self.feature].bind_arguments((), self.args)
        except Refused as refused:
            raise ValueError(refused.message) from None
        return self


class SituationSign(Model):
    """What an event tells: a kind of fact, its `what`, and the bounds of its value."""

    kind: str
    what: str | None = None
    value: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _known(self) -> SituationSign:
        shape = load_vocabulary().facts.get(self.kind)
        if shape is None:
            raise ValueError(f"'{self.kind}' is no kind of fact")
        unknown = shape.what and self.what not in load_vocabulary().group_keys(shape.what)
        if unknown or (self.what is None) != (shape.what is None):
            raise ValueError(f"'{self.kind}' takes as `what` {f'a key of {shape.what}' if shape.what else 'nothing'}")
        return self


class SettlingCondition(Model):
    """What must hold in the end: an expression over devices of a kind, one of `any`, or that somebody was `told`."""

    kind: str | None = None
    holds: str | None = None
    which: Literal["all", "here", "some"] = "all"
    any: tuple[SettlingCondition, ...] = ()
    told: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> SettlingCondition:
        if (self.kind is not None) + bool(self.any) + self.told != 1 or (self.kind is None) != (self.holds is None):
            raise ValueError("a condition has `kind` and `holds`, or `any`, or `told: true`")
        if self.kind is not None and self.holds is not None:
            compile_predicate(_find_spec(self.kind), self.holds)
        return self

    def expand_alternatives(self) -> Iterator[SettlingCondition]:
        """The condition, or its alternatives if it has some."""
        if not self.any:
            yield self
        for part in self.any:
            yield from part.expand_alternatives()

    def holds_in(self, home: Home, room: str | None) -> bool:
        """Whether it holds in a home. `room` is the id of the room where the situation happens."""
        if self.any:
            return any(part.holds_in(home, room) for part in self.any)
        if self.kind is None or self.holds is None:
            told = (device for kind in NOTIFIERS for device in home.find_devices(category=kind))
            return any(home.read_value(device.did, NOTIFICATION) for device in told)
        predicate = compile_predicate(_find_spec(self.kind), self.holds)
        found = [predicate(home.state_of(device.did)) for device in self.counted_devices(home, room)]
        return any(found) if self.which == "some" else bool(found) and all(found)

    def counted_devices(self, home: Home, room: str | None) -> list[Device]:
        """The devices that count: those of the kind in the home, or with `which: here` in the room (if it is given)."""
        return list(home.find_devices(room if self.which == "here" else None, self.kind))


class SituationRecord(Model):
    """A situation as `situations.yaml` describes it."""

    domain: Domain
    needs: tuple[str, ...]
    starts: dict[str, dict[str, Any]]
    events: tuple[SituationSign, ...]
    settled_when: tuple[SettlingCondition, ...]
    plan: tuple[SituationPlanStep, ...]

    @field_validator("needs")
    @classmethod
    def _owned(cls, needs: tuple[str, ...]) -> tuple[str, ...]:
        for kind in needs:
            if kind not in appliance_kinds():
                raise ValueError(f"'{kind}' is no kind of appliance")
        return needs

    @field_validator("starts")
    @classmethod
    def _possible(cls, starts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        checked: dict[str, dict[str, Any]] = {}
        for kind, values in starts.items():
            index = _find_spec(kind).attribute_index
            for name, value in values.items():
                if name not in index:
                    raise ValueError(f"{kind} has no attribute '{name}'")
                try:
                    checked.setdefault(kind, {})[name] = index[name][1].check_value(value, name)
                except Refused as refused:
                    raise ValueError(f"{kind}: {refused.message}") from None
        return checked


class HouseholdSituation(SituationRecord):
    """A situation. `urgency` is higher for what must be settled first; no two have the same."""

    key: str
    category: str
    urgency: int

    @property
    def start_values(self) -> Mapping[str, Mapping[str, Any]]:
        """The values at the start by kind and attribute: `starts`, and that nobody was told anything if that counts."""
        silent = {kind: {NOTIFICATION: ""} for kind in NOTIFIERS} if any(part.told for part in self.parts()) else {}
        return {kind: {**silent.get(kind, {}), **self.starts.get(kind, {})} for kind in {**silent, **self.starts}}

    def parts(self) -> Iterator[SettlingCondition]:
        """The conditions, with alternatives one by one."""
        return (part for condition in self.settled_when for part in condition.expand_alternatives())


@lru_cache(maxsize=1)
def load_situations() -> Mapping[str, HouseholdSituation]:
    """All situations by key, the most urgent first. Raises `InputError` with the line if the file is wrong."""
    return read_situations(read_yaml(FILE))


def read_situations(document: Document) -> Mapping[str, HouseholdSituation]:
    """`situations.yaml` as data. Raises `InputError` unless it describes exactly the situations of the vocabulary."""
    records = validate_document(dict[str, SituationRecord], document)
    known = {key: category for category, keys in load_vocabulary().situations.items() for key in keys}
    for key in [*records.keys() - known.keys(), *known.keys() - records.keys()]:
        what = f"'{key}' is {'no situation of the vocabulary' if key in records else 'not described'}"
        remedy = "describe exactly the situations of vocabulary.yaml"
        raise InputError(what, where=document.locate_key((key,)), remedy=remedy)
    return {
        key: HouseholdSituation(key=key, category=category, urgency=len(known) - at, **dict(records[key]))
        for at, (key, category) in enumerate(known.items())
    }


def condition_verdicts(situation: HouseholdSituation, home: Home, room: str | None = None) -> tuple[bool, ...]:
    """Whether each condition holds, in the order of `settled_when`.

    `room` is the id of the room where it happens. Without it, `which: here` counts the devices of the whole home.
    """
    return tuple(condition.holds_in(home, room) for condition in situation.settled_when)


def is_situation_settled(situation: HouseholdSituation, home: Home, room: str | None = None) -> bool:
    """Whether all conditions hold."""
    return all(condition_verdicts(situation, home, room))


Call = tuple[str, SituationPlanStep]  # the did of an appliance, and what it is told


def settling_calls(situation: HouseholdSituation, home: Home, room: str | None = None) -> tuple[Call, ...]:
    """The calls that settle a situation, in order.

    A step is repeated for every appliance that a condition asks about; if none does, the first is told. `room` is the id of
    the room where it happens.
    """
    calls: list[Call] = []
    for step in situation.plan:
        parts = (part for part in situation.parts() if part.kind == step.appliance and part.which != "some")
        part = next(parts, None)
        # A condition that asks for `some` device needs one call only.
        devices = part.counted_devices(home, room) if part else list(home.find_devices(category=step.appliance))[:1]
        calls += [(device.did, step) for device in devices]
    return tuple(calls)
