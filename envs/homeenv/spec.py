"""Device specifications, the catalogue that holds them, and devices outside any home (HomeFlow A.1, A.2).

Invariants:
- A `DeviceSpec` that loads is executable: its service code and preconditions compile against its attributes and arguments.
- A specification is compiled once and never changes.

The docstrings of the pydantic models are descriptions in docs/schemas.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, TextIO

from pydantic import Field, ValidationError, model_validator

from envs.documents import Document, InputError, read_yaml, validate
from envs.documents.explain import Problems
from envs.homeenv.audit import Refused
from envs.homeenv.expressions import ExpressionError
from envs.homeenv.interface import Attribute, Service
from envs.homeenv.rooms import ROOM_STATE, RoomType
from envs.homeenv.service import CompiledCounter, CompiledService, ServiceError, compile_counter, compile_service
from envs.model import Model

PART_KINDS = {"light": "light", "heater": "heater", "ac": "air_conditioner", "floor_heating": "heater", "dryer": "dryer"}
SHIPPED = Path(__file__).resolve().parent / "catalogue"
KeyProblem = tuple[tuple[str | int, ...], str]  # (key path within a model, what is wrong there)


class HasName(Protocol):
    """A part of a specification that agents' code refers to by name."""

    @property
    def name(self) -> str:
        """The name that agents' code uses."""


class Component(Model):
    """A named part of a device that holds attributes and services (`light.brightness`)."""

    name: str
    attributes: tuple[Attribute, ...] = ()
    services: tuple[Service, ...] = ()
    description: str | None = None

    @model_validator(mode="after")
    def _executable(self) -> Component:
        if problems := list(self._problems()):
            raise Problems(problems)
        return self

    def compiled(self) -> Iterator[CompiledService]:
        """The services of this part alone, compiled against its own attributes."""
        return (compile_service(service, self.attributes) for service in self.services)

    def _problems(self) -> Iterator[KeyProblem]:
        """Problems that concern several fields, which pydantic's checks of single fields cannot find."""
        yield from _unusable(attributes=self.attributes, services=self.services)
        for i, service in enumerate(self.services):
            yield from (((("services", i, *key), what)) for key, what in _unusable(arguments=service.arguments))
            try:
                compile_service(service, self.attributes)
            except ServiceError as error:
                yield ("services", i, *error.key), f"service '{service.name}': {error}"
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

    def _problems(self) -> Iterator[KeyProblem]:
        yield from super()._problems()
        own = {a.name for a in self.attributes} | {service.name for service in self.services}
        yield from _unusable(components=self.components)
        for i, component in enumerate(self.components):
            if component.name in own:
                yield ("components", i, "name"), f"component '{component.name}': its name is used twice"

    @property
    def spid(self) -> str:
        """The id of the product in the catalogue, such as `100001`."""
        return self.userdata.spid

    @property
    def category(self) -> str:
        """The category of the product, such as `light`."""
        return self.userdata.category

    def parts(self) -> Iterator[tuple[str, Component]]:
        """The (prefix, part) pairs: ("", the device itself), then for example ("light.", the component `light`)."""
        yield "", self
        for component in self.components:
            yield component.name + ".", component

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The dotted paths of all boolean attributes."""
        return tuple(path for path, (_, attribute) in self.attribute_index.items() if attribute.type == "bool")

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The (prefix, kind) pairs of all parts that hold attributes.

        The kind says what a part does. A component whose name is in `PART_KINDS` has the kind given there, and every
        other part has the category of the device. Example: the `light` of a bath heater is a light.
        """
        return tuple(
            (prefix, PART_KINDS.get(prefix[:-1], self.category)) for prefix, part in self.parts() if part.attributes
        )

    @cached_property
    def attribute_index(self) -> dict[str, tuple[int, Attribute]]:
        """Maps each dotted attribute path to (offset within the device's slots, attribute)."""
        pairs = ((prefix + a.name, a) for prefix, part in self.parts() for a in part.attributes)
        return {path: (offset, attribute) for offset, (path, attribute) in enumerate(pairs)}

    @cached_property
    def service_index(self) -> dict[str, CompiledService]:
        """Maps each dotted service path to the compiled service."""
        index: dict[str, CompiledService] = {}
        offset = 0
        for prefix, part in self.parts():
            for service in part.services:
                index[prefix + service.name] = compile_service(service, part.attributes, offset)
            offset += len(part.attributes)
        return index

    @cached_property
    def counter_index(self) -> dict[str, CompiledCounter]:
        """Maps the dotted path of each attribute that counts seconds to the compiled counter."""
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
        """A 64-bit hash of the whole specification, in hex. It is the same in every process."""
        return hashlib.blake2b(self.model_dump_json(exclude_defaults=True).encode(), digest_size=8).hexdigest()

    def rand(self, seed: int | None = None) -> LoneDevice:
        """A device outside any home with random values (HomeFlow A.2). The same seed gives the same device."""
        rng = random.Random(seed)
        for quantity in ROOM_STATE.values():  # unused draws, kept so that a seed goes on giving the same device
            quantity.sample(rng)
        return LoneDevice(self, [attribute.sample(rng) for _, attribute in self.attribute_index.values()])


class LoneDevice:
    """A device outside any home, with attributes to read and services to call (HomeFlow A.2).

    `values` holds the values of all attributes, in the order of `DeviceSpec.attribute_index`. `prefix` is "" for the
    device itself and, for example, "light." for its component `light`. Components share the list of their device.
    """

    def __init__(self, spec: DeviceSpec, values: list[Any], prefix: str = "") -> None:
        self._spec, self._values, self._prefix = spec, values, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        spec, path = self._spec, self._prefix + name
        if path in spec.attribute_index:
            return self._values[spec.attribute_index[path][0]]
        if path in spec.service_index:
            return lambda *args, **kwargs: self._call(path, args, kwargs)
        if any(component.name == path for component in spec.components):
            return LoneDevice(spec, self._values, path + ".")
        raise AttributeError(f"{spec.name} has no attribute or service '{path}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise Refused("read_only", f"'{name}' cannot be assigned; call a service instead")
        super().__setattr__(name, value)

    def _call(self, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        service = self._spec.service_index[path]
        outcome = service.outcome(self._values, 0, service.bind(args, kwargs))
        for slot, value in outcome.updates:
            self._values[slot] = value
        return outcome.returned


def _unusable(**lists: Sequence[HasName]) -> Iterator[KeyProblem]:
    """Names that are no Python identifiers, or that two things share."""
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
    """The loader of specifications, under the name that HomeFlow A.2 gives it."""

    @staticmethod
    def load(source: str | Path | TextIO) -> list[DeviceSpec]:
        """All specifications of a YAML file that holds a list of devices. Raises `InputError` with file and line."""
        return load_specs(read_yaml(source))


def load_specs(document: Document) -> list[DeviceSpec]:
    """The specifications of a document that holds a list of them. Raises `InputError` with file and line."""
    if not isinstance(document.data, list) or not document.data:
        raise InputError("a device file is a list of devices", where=f"{document.path}:1", remedy="begin with '- name: ...'")
    return list(validate(tuple[DeviceSpec, ...], document))


def device_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, sorted by name. Raises `InputError` if there are none."""
    files = sorted(path for path in Path(folder).glob("*.y*ml") if path.suffix in (".yaml", ".yml"))
    if not files:
        raise InputError("no device files found", where=str(folder), remedy="name a folder with *.yaml files")
    return files


class Catalogue(Mapping[str, DeviceSpec]):
    """A read-only mapping from spid to specification."""

    def __init__(self, specs: dict[str, DeviceSpec]) -> None:
        self._specs = specs

    @classmethod
    def load(cls, *folders: Path) -> Catalogue:
        """The products of all device files of some folders. Raises `InputError` if a file is wrong or a spid repeats."""
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

    @staticmethod
    @lru_cache(maxsize=1)
    def shipped() -> Catalogue:
        """The catalogue that comes with homerl. It is read once per process."""
        return Catalogue.load(SHIPPED)

    @classmethod
    def beside(cls, folder: Path) -> Mapping[str, DeviceSpec]:
        """The products that the devices of a folder must not clash with.

        They are the shipped products. For the shipped folder itself there are none.
        """
        return {} if Path(folder).resolve() == SHIPPED else cls.shipped()

    def __getitem__(self, spid: str) -> DeviceSpec:
        return self._specs[spid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def spec_from_json(data: Mapping[str, Any]) -> DeviceSpec:
    """A specification from the JSON that a home file holds. Raises `ValueError` if it is invalid."""
    try:
        return _spec_of(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"spec {data.get('name')}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@lru_cache(maxsize=1024)  # homes of one catalogue repeat its products, and a specification takes milliseconds to compile
def _spec_of(text: str) -> DeviceSpec:
    return DeviceSpec.model_validate(json.loads(text))
