"""Device specifications: the YAML that a device is made from (HomeFlow A.1).

Invariants: a `DeviceSpec` that loads is executable (its service code and preconditions compile against
its own attributes and arguments); compilation happens once a spec; a spec never changes.
A service's `code` is a sequence of assignments to attributes of `self`; `requires` is an expression
over them. Both use the closed grammar of `expressions.py`.
"""

from __future__ import annotations

import hashlib
import json
import keyword
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import Field, ValidationError, model_validator

from envs.documents import Document, InputError, read_yaml, validate
from envs.explain import Problems
from envs.homeenv.audit import Refused
from envs.homeenv.expressions import ExpressionError
from envs.homeenv.service import CompiledCounter, CompiledService, ServiceError, compile_counter, compile_service
from envs.homeenv.types import Model, ValueType

PART_KINDS = {"light": "light", "heater": "heater", "ac": "air_conditioner", "floor_heating": "heater", "dryer": "dryer"}
SHIPPED = Path(__file__).resolve().parent / "catalogue"
Found = tuple[tuple[str | int, ...], str]  # the key below a model, and what is wrong there
RoomType = Literal[
    "living_room", "bedroom", "kitchen", "dining_room", "bathroom", "closet", "pantry", "study", "hallway",
    "laundry", "balcony", "garage", "leisure", "storage",
]  # fmt: skip


class Attribute(ValueType):
    """A named value of a device. A `read_only` one is measured: no service writes it."""

    name: str
    description: str | None = None
    read_only: bool = False
    counts: str | None = Field(None, description="an expression over self: the value is for how many seconds it has held")

    @model_validator(mode="after")
    def _countable(self) -> Attribute:
        if self.counts is not None and self.type != "int":
            raise ValueError(f"attribute '{self.name}' counts seconds, so its type is int")
        if self.counts is not None and (self.options or self.precision or (self.range and self.range[0] > 0)):
            raise ValueError(f"attribute '{self.name}' counts seconds from 0: no options, no precision, no range above 0")
        return self


class Argument(ValueType):
    name: str
    required: bool = True
    default: Any = None
    description: str | None = None

    @model_validator(mode="after")
    def _default_fits(self) -> Argument:
        if self.default is not None:
            try:
                self.check(self.default, "default")
            except Refused as refused:
                raise ValueError(f"argument '{self.name}': {refused.message}") from None
        return self


class Service(Model):
    """What a device can be told to do."""

    name: str
    arguments: tuple[Argument, ...] = ()
    code: str
    requires: str | None = Field(None, description="an expression over self that must hold before the call")
    description: str | None = None

    def signature(self) -> str:
        """`set_brightness(brightness: int 1..100 percentage)`, as agents read it."""
        return f"{self.name}({', '.join(f'{a.name}: {a.describe()}' for a in self.arguments)})"


class Component(Model):
    """A named part of a device that holds attributes and services (`light.brightness`)."""

    name: str
    attributes: tuple[Attribute, ...] = ()
    services: tuple[Service, ...] = ()
    description: str | None = None

    @model_validator(mode="after")
    def _executable(self) -> Component:
        if found := list(self._problems()):
            raise Problems(found)
        return self

    def compiled(self) -> Iterator[CompiledService]:
        """The part's own services, compiled against its own attributes."""
        return (compile_service(service, self.attributes) for service in self.services)

    def _problems(self) -> Iterator[Found]:
        """What the fields, each for itself, do not show."""
        yield from _unusable(attributes=self.attributes, services=self.services)
        for i, service in enumerate(self.services):
            yield from (((("services", i, *key), what)) for key, what in _unusable(arguments=service.arguments))
            try:
                compile_service(service, self.attributes)
            except ServiceError as error:
                yield ("services", i, error.key), f"service '{service.name}': {error}"
        for i, attribute in enumerate(self.attributes):
            try:
                compile_counter(attribute, self.attributes)
            except ExpressionError as error:
                yield ("attributes", i, "counts"), f"attribute '{attribute.name}': {error}"


class UserData(Model):
    """What is known of a product besides its abilities (SMH-Bench Table 7)."""

    category: str
    spid: str
    brand: str | None = None
    subcategory: str | None = None
    tags: tuple[str, ...] = ()
    rooms: tuple[RoomType, ...] = Field((), description="types of rooms where HomeMaker puts it; its category's if empty")


class DeviceSpec(Component):
    """A device type: attributes and services of its own, or in components, or both."""

    userdata: UserData
    components: tuple[Component, ...] = ()

    def _problems(self) -> Iterator[Found]:
        yield from super()._problems()
        own = {thing.name for thing in (*self.attributes, *self.services)}
        yield from _unusable(components=self.components)
        for i, component in enumerate(self.components):
            if component.name in own:
                yield ("components", i, "name"), f"component '{component.name}': its name is used twice"

    @property
    def spid(self) -> str:
        return self.userdata.spid

    @property
    def category(self) -> str:
        return self.userdata.category

    def parts(self) -> Iterator[tuple[str, Component]]:
        """(prefix, part) for the device itself ("") and each component ("light.")."""
        yield "", self
        for component in self.components:
            yield component.name + ".", component

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """(prefix, kind) of every part that holds attributes: what it does, by its name or the device's category."""
        return tuple(
            (prefix, PART_KINDS.get(prefix[:-1], self.category)) for prefix, part in self.parts() if part.attributes
        )

    @cached_property
    def attribute_index(self) -> dict[str, tuple[int, Attribute]]:
        """Dotted attribute path -> (offset within the device's slots, attribute)."""
        pairs = ((prefix + a.name, a) for prefix, part in self.parts() for a in part.attributes)
        return {path: (offset, attribute) for offset, (path, attribute) in enumerate(pairs)}

    @cached_property
    def service_index(self) -> dict[str, CompiledService]:
        """Dotted service path -> the compiled service."""
        index: dict[str, CompiledService] = {}
        offset = 0
        for prefix, part in self.parts():
            for service in part.services:
                index[prefix + service.name] = compile_service(service, part.attributes, offset)
            offset += len(part.attributes)
        return index

    @cached_property
    def counter_index(self) -> dict[str, CompiledCounter]:
        """Dotted path of each counting attribute -> the compiled counter."""
        index: dict[str, CompiledCounter] = {}
        offset = 0
        for prefix, part in self.parts():
            for at, attribute in enumerate(part.attributes):
                if (counted := compile_counter(attribute, part.attributes, offset)) is not None:
                    index[prefix + attribute.name] = CompiledCounter(offset + at, *counted)
            offset += len(part.attributes)
        return index

    @cached_property
    def digest(self) -> str:
        """A hash of the whole specification, the same in every process."""
        return hashlib.blake2b(self.model_dump_json(exclude_defaults=True).encode(), digest_size=8).hexdigest()

    def rand(self, seed: int | None = None):
        """A free-standing device with random attributes, as in HomeFlow A.2."""
        from envs.homeenv.home import lone_device

        return lone_device(self, seed)


def _unusable(**lists: tuple[Attribute | Argument | Service | Component, ...]) -> Iterator[Found]:
    """Names that agents' code cannot say, or that would mean two things."""
    seen: set[str] = set()
    for key, things in lists.items():
        for i, thing in enumerate(things):
            kind, name = type(thing).__name__.lower(), thing.name
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                yield (key, i, "name"), f"{kind} '{name}': a name is letters, digits and underscores, a letter first"
            if name in seen:
                yield (key, i, "name"), f"{kind} '{name}': its name is used twice"
            seen.add(name)


class Entity:
    """The paper's name for the loader of specifications (HomeFlow A.2)."""

    @staticmethod
    def load(source: str | Path | TextIO) -> list[DeviceSpec]:
        """All specifications of one YAML file (a list of devices), or `InputError` naming file and line."""
        return load_specs(read_yaml(source))


def load_specs(document: Document) -> list[DeviceSpec]:
    """Validate a document that holds a list of specifications."""
    if not isinstance(document.data, list) or not document.data:
        raise InputError("a device file is a list of devices", where=f"{document.path}:1", remedy="begin with '- name: ...'")
    return list(validate(tuple[DeviceSpec, ...], document))


def device_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, of which there must be one."""
    found = sorted(path for path in Path(folder).glob("*.y*ml") if path.suffix in (".yaml", ".yml"))
    if not found:
        raise InputError("no device files found", where=str(folder), remedy="name a folder with *.yaml files")
    return found


class Catalogue(Mapping[str, DeviceSpec]):
    """Specifications by spid, from every YAML file of a folder."""

    def __init__(self, specs: dict[str, DeviceSpec]) -> None:
        self._specs = specs

    @classmethod
    def load(cls, *folders: Path) -> Catalogue:
        specs: dict[str, DeviceSpec] = {}
        for path in (path for folder in folders for path in device_files(folder)):
            document = read_yaml(path)
            for i, spec in enumerate(load_specs(document)):
                if spec.spid in specs:
                    raise InputError(
                        f"spid {spec.spid} is used by {specs[spec.spid].name} and {spec.name}",
                        where=document.where((i, "userdata", "spid")), remedy="give each product its own spid",
                    )  # fmt: skip
                specs[spec.spid] = spec
        return cls(specs)

    @classmethod
    def shipped(cls) -> Catalogue:
        """The catalogue that comes with homerl."""
        global _SHIPPED
        if _SHIPPED is None:
            _SHIPPED = cls.load(SHIPPED)
        return _SHIPPED

    @classmethod
    def beside(cls, folder: Path) -> Mapping[str, DeviceSpec]:
        """What a folder of devices would be added to: the shipped catalogue, or nothing if it is that itself."""
        return {} if Path(folder).resolve() == SHIPPED else cls.shipped()

    def __getitem__(self, spid: str) -> DeviceSpec:
        return self._specs[spid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


_SHIPPED: Catalogue | None = None


def spec_from_json(data: Mapping[str, Any]) -> DeviceSpec:
    """A specification embedded in a home file."""
    try:
        return DeviceSpec.model_validate(json.loads(json.dumps(data)))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"spec {data.get('name')}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
