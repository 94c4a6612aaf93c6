"""The appliances and sensors of PersonalHome: the products of `catalogue/` (PersonalHomeBench Table 16).

An appliance's kind is its `userdata.category`, by the name that the paper prints (`air-purifier`). Each kind has one
product.

Invariants: every kind has a method, every sensor has none; the rooms where a kind may stand are those of its product.

The ordinary state of appliances and sensors, before a situation changes it (`usual.yaml`).

Invariants: a state has a canonical value for every attribute of its product; the same random numbers give the same state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import Document, InputError, KeyPath, read_yaml
from homerl.envs.homeenv.sim.devices.attribute_limits_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import HOME, RoomType
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType

FOLDER = Path(__file__).resolve().parent / "catalogue"
SENSOR = "sensor"  # the tag of products that only measure


@lru_cache(maxsize=1)
def load_appliance_catalogue() -> Mapping[str, DeviceSpec]:
    """All products by spid. Raises `InputError` if a device file is wrong."""
    return Catalogue.load_folders(FOLDER)


@lru_cache(maxsize=1)
def appliance_kinds() -> Mapping[str, DeviceSpec]:
    """The appliances by kind, in the order of the spids: the paper's 31 kinds, then ours."""
    return {spec.category: spec for _, spec in sorted(load_appliance_catalogue().items()) if not is_sensor(spec)}


@lru_cache(maxsize=1)
def sensor_kinds() -> Mapping[str, DeviceSpec]:
    """The sensors by kind, in the order of the spids."""
    return {spec.category: spec for _, spec in sorted(load_appliance_catalogue().items()) if is_sensor(spec)}


def is_sensor(spec: DeviceSpec) -> bool:
    """Whether a product only measures."""
    return SENSOR in spec.userdata.tags


def rooms_for_kind(kind: str) -> tuple[RoomType, ...]:
    """The types of rooms where an appliance or a sensor of a kind may stand. Raises `KeyError` for an unknown kind."""
    spec = appliance_kinds().get(kind) or sensor_kinds()[kind]
    return tuple(room for room in spec.userdata.rooms if room != HOME)


FILE = Path(__file__).resolve().parent / "usual.yaml"
Usual = Mapping[str, Mapping[str, ValueType | tuple[Any, ...]]]  # kind -> attribute -> what a value is drawn from


def usual_state(spec: DeviceSpec, rng: random.Random) -> dict[str, Any]:
    """An ordinary state of a product: canonical values by attribute. It may be changed."""
    choices = load_usual_values()[spec.category]
    return {a.name: _drawn(choices.get(a.name, a), rng) for a in spec.attributes}


def _drawn(choice: ValueType | tuple[Any, ...], rng: random.Random) -> Any:
    return choice.sample_value(rng) if isinstance(choice, ValueType) else rng.choice(choice)


@lru_cache(maxsize=1)
def load_usual_values() -> Usual:
    """What the values of each kind are drawn from. Raises `InputError` with the line if the file is wrong."""
    return read_usual_values(read_yaml(FILE))


def read_usual_values(document: Document) -> Usual:
    """`usual.yaml` as data. Raises `InputError` unless it lists every kind, and values that the attributes can have."""
    specs = {**appliance_kinds(), **sensor_kinds()}
    listed = document.data if isinstance(document.data, Mapping) else {}
    for kind in [*listed.keys() - specs.keys(), *specs.keys() - listed.keys()]:
        what = f"{kind} is {'no kind of the catalogue' if kind in listed else 'not listed'}"
        raise InputError(what, where=document.locate_key((kind,)), remedy="list exactly the kinds of the catalogue")
    return {kind: _choices(document, specs[kind], listed[kind]) for kind in specs}


def _choices(document: Document, spec: DeviceSpec, listed: Mapping[str, Any]) -> dict[str, ValueType | tuple[Any, ...]]:
    choices = {}
    for name, given in listed.items():
        key: KeyPath = (spec.category, name)
        if name not in spec.attribute_index:
            known = ", ".join(spec.attribute_index)
            raise InputError(f"{spec.category} has no '{name}'", where=document.locate_key(key), remedy=f"it has {known}")
        try:
            choices[name] = _choice(spec.attribute_index[name][1], given)
        except (Refused, ValueError) as error:
            raise InputError(
                f"{spec.category}: {error}", where=document.locate_key(key), remedy="correct the value"
            ) from None
    return choices


def _choice(attribute: Attribute, given: Any) -> ValueType | tuple[Any, ...]:
    """What a value is drawn from: bounds, or canonical values. Raises `Refused` or `ValueError`."""
    if attribute.type in NUMBERS and isinstance(given, (list, tuple)):
        low, high = (attribute.check_value(bound, attribute.name) for bound in given)
        return ValueType(type=attribute.type, range=(low, high), precision=attribute.precision)
    values = given if isinstance(given, (list, tuple)) else [given]
    return tuple(attribute.check_value(value, attribute.name) for value in values)
