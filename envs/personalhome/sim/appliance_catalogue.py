"""The appliances and sensors of PersonalHome, and what their methods are good for.

The products are the files of `catalogue/` (PersonalHomeBench Table 16). An appliance's kind is its `userdata.category`, by
the name that the paper prints (`air-purifier`). `usual.yaml` says in which state it ordinarily is, before a situation
changes it. `features.yaml` says what a method is good for, and for whom. The paper asks a language model which features are
relevant (App. I.2). Here a feature says by which needs it is wanted, and its relevance follows.

Invariants:
- Each kind has one product. Every kind has a method, every sensor has none.
- The rooms where a kind may stand are those of its product.
- An ordinary state has a canonical value for every attribute, and the same random numbers give the same state.
- Every method has one feature. What it is wanted for is a key of `vocabulary.yaml`, or `pets`, `children` or `elders`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from homerl.envs.core.documents import Document, InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import HOME, RoomType
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary

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


USUAL_FILE = Path(__file__).resolve().parent / "usual.yaml"
Usual = Mapping[str, Mapping[str, ValueType | tuple[Any, ...]]]  # kind -> attribute -> what a value is drawn from


def usual_state(spec: DeviceSpec, rng: random.Random) -> dict[str, Any]:
    """An ordinary state of a product: canonical values by attribute. It may be changed."""
    choices, state = load_usual_values()[spec.category], dict[str, Any]()
    for attribute in spec.attributes:
        choice = choices.get(attribute.name, attribute)
        state[attribute.name] = choice.sample_value(rng) if isinstance(choice, ValueType) else rng.choice(choice)
    return state


@lru_cache(maxsize=1)
def load_usual_values() -> Usual:
    """What the values of each kind are drawn from. Raises `InputError` with the line if the file is wrong."""
    return read_usual_values(read_yaml(USUAL_FILE))


def read_usual_values(document: Document) -> Usual:
    """`usual.yaml` as data. Raises `InputError` unless it lists every kind, and values that the attributes can have."""
    specs = {**appliance_kinds(), **sensor_kinds()}
    listed = document.data if isinstance(document.data, Mapping) else {}
    for kind in [*listed.keys() - specs.keys(), *specs.keys() - listed.keys()]:
        what = f"{kind} is {'no kind of the catalogue' if kind in listed else 'not listed'}"
        raise InputError(what, where=document.locate_key((kind,)), remedy="list exactly the kinds of the catalogue")
    return {kind: _read_choices(document, specs[kind], listed[kind]) for kind in specs}


def _read_choices(document: Document, spec: DeviceSpec, listed: Mapping[str, Any]) -> dict[str, ValueType | tuple[Any, ...]]:
    """What the values of a kind are drawn from, by attribute: bounds, or canonical values."""
    choices: dict[str, ValueType | tuple[Any, ...]] = {}
    for name, given in listed.items():
        where = document.locate_key((spec.category, name))
        if name not in spec.attribute_index:
            known = ", ".join(spec.attribute_index)
            raise InputError(f"{spec.category} has no '{name}'", where=where, remedy=f"it has {known}")
        attribute = spec.attribute_index[name][1]
        try:
            if attribute.type in NUMBERS and isinstance(given, (list, tuple)):
                low, high = (attribute.check_value(bound, name) for bound in given)
                choices[name] = ValueType(type=attribute.type, range=(low, high), precision=attribute.precision)
            else:
                values = given if isinstance(given, (list, tuple)) else [given]
                choices[name] = tuple(attribute.check_value(value, name) for value in values)
        except (Refused, ValueError) as error:
            raise InputError(f"{spec.category}: {error}", where=where, remedy="correct the value") from None
    return choices


FEATURES_FILE = Path(__file__).resolve().parent / "features.yaml"
GROUPS = ("situations", "tastes", "traits", "activities", "hobbies")  # of keys that make a feature relevant
COMPANY = ("pets", "children", "elders")  # who else does
Attention = Literal["none", "visual", "audio"]


class FeatureTitle(Model):
    """What people call a feature, by language."""

    en: str
    zh: str


class FeatureRecord(Model):
    """A feature as `features.yaml` describes it."""

    title: FeatureTitle
    wanted_when: tuple[str, ...] = Field(min_length=1)
    attention: Attention

    @field_validator("wanted_when")
    @classmethod
    def _known(cls, wanted: tuple[str, ...]) -> tuple[str, ...]:
        for key in wanted:
            if key not in feature_need_keys():
                raise ValueError(f"'{key}' is no key of {', '.join(GROUPS)}, nor {', '.join(COMPANY)}")
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"wanted_when {list(wanted)}: a key is given twice")
        return wanted


class Feature(FeatureRecord):
    """A method of a kind of appliance, as people know it. `attention` is the sense of people that it takes."""

    kind: str
    method: str

    @property
    def name(self) -> str:
        """The key of the feature: `kind.method`."""
        return f"{self.kind}.{self.method}"


@lru_cache(maxsize=1)
def feature_need_keys() -> frozenset[str]:
    """All keys that a feature can be wanted for."""
    return frozenset(key for group in GROUPS for key in load_vocabulary().group_keys(group)) | frozenset(COMPANY)


@lru_cache(maxsize=1)
def load_features() -> Mapping[str, Feature]:
    """All features by `kind.method`, in the order of the catalogue. Raises `InputError` if the file is wrong."""
    return read_features(read_yaml(FEATURES_FILE))


def read_features(document: Document) -> Mapping[str, Feature]:
    """`features.yaml` as data. Raises `InputError` unless it describes exactly the methods of the catalogue."""
    records = validate_document(dict[str, FeatureRecord], document)
    methods = [(kind, service.name) for kind, spec in appliance_kinds().items() for service in spec.services]
    known = {f"{kind}.{method}": (kind, method) for kind, method in methods}
    for key in [*sorted(records.keys() - known.keys()), *sorted(known.keys() - records.keys())]:
        what = f"'{key}' is {'no method of the catalogue' if key in records else 'not described'}"
        raise InputError(what, where=document.locate_key((key,)), remedy="describe exactly the methods of the catalogue")
    return {key: Feature(kind=kind, method=method, **dict(records[key])) for key, (kind, method) in known.items()}


def rank_features(needs: Mapping[str, float]) -> list[tuple[Feature, float]]:
    """All features with their relevance for a household, the most relevant first, equal ones in the order of the catalogue.

    `needs` are the weights of what the household needs, by key. The relevance of a feature is the sum of those of its keys.
    """
    rated = [(one, sum(needs.get(key, 0.0) for key in one.wanted_when)) for one in load_features().values()]
    return sorted(rated, key=lambda pair: -pair[1])
