"""Device specifications, the catalogue that holds them, and devices in and outside of homes (HomeFlow A.1, A.2).

Invariants:
- A `DeviceSpec` that loads is executable: its service code, preconditions and other expressions compile against its
  attributes and arguments.
- A specification is compiled once and never changes. It is pickled as its text, and compiled once in each process.

The docstrings of the pydantic models are descriptions in docs/schemas.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import random
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from pydantic import Field, ValidationError, model_validator

from homerl.envs.core.documents import Document, InputError, read_yaml, validate_document
from homerl.envs.core.documents.validation import SeveralProblems
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.attributes_and_services import (
    Argument,
    Attribute,
    CompiledService,
    Service,
    ServiceError,
    ServiceScope,
    compile_service,
    find_switch_services,
)
from homerl.envs.homeenv.sim.devices.expression_cost import (
    bounds_by_name,
    bounds_of_names,
    steps_of_call,
    steps_of_expression,
    tell_too_costly,
)
from homerl.envs.homeenv.sim.devices.rooms import ROOM_STATE, Room, RoomType
from homerl.envs.homeenv.sim.devices.self_changing_attributes import (
    UNKNOWN,
    CountingAttribute,
    DerivedAttribute,
    MovingAttribute,
    clockwork_problems,
    compile_counter,
    compile_derived,
    compile_derived_of_part,
    compile_motion,
    compile_part_expression,
    compile_start,
)
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import Closure, ExpressionError, attributes_in, parse_expression

T = TypeVar("T")
MOST_NAMES = 500  # attributes and services of one part
KeyProblem = tuple[tuple[str | int, ...], str]  # (key path within a model, what is wrong there)


class AirEffect(Model):
    """What a part does to the air of its room: of which `kind` it is there, and its settings as expressions over self."""

    kind: Literal["light", "heater", "air_conditioner", "thermostat", "humidifier", "dehumidifier", "curtain"]
    state: str | None = Field(None, description='"on" while it acts; its attribute `state` if it is left out')
    brightness: str | None = Field(None, description="percent of a lamp's full light")
    position: str | None = Field(None, description="percent by which a cover is open")
    mode: str | None = Field(None, description="heat, cool, auto, dry or fan_only")
    power: str | None = Field(None, description="low, medium, auto or high")
    target_temperature: str | None = Field(None, description="where it heats or cools to")
    target_low: str | None = Field(None, description="below which it heats, beside `target_temperature` or alone")
    target_high: str | None = Field(None, description="above which it cools")
    target_humidity: str | None = Field(None, description="percent to which it moistens or dries")

    def given_expressions(self) -> dict[str, str]:
        """The settings that are given, by name."""
        given = self.model_dump(exclude={"kind"})
        return {name: text for name, text in given.items() if text is not None}


class Component(Model):
    """A named part of a device that holds attributes and services (`light.brightness`)."""

    name: str
    attributes: tuple[Attribute, ...] = ()
    services: tuple[Service, ...] = ()
    description: str | None = None
    air: AirEffect | None = Field(None, description="what it does to its room's air; by category and names if left out")

    @model_validator(mode="after")
    def _executable(self) -> Component:
        if problems := list(self._find_problems()) or list(self._find_costly_code()):
            raise SeveralProblems(problems)
        return self

    def compile_services(self) -> Iterator[CompiledService]:
        """The services of this part alone, compiled against its own attributes."""
        return (compile_service(service, self.attributes) for service in self.services)

    @cached_property
    def written_attributes(self) -> frozenset[str]:
        """The names of the attributes that some service writes."""
        return frozenset(attribute.name for compiled in self.compile_services() for _, attribute, _ in compiled.writes)

    def _find_problems(self) -> Iterator[KeyProblem]:
        """Problems that concern several fields, which pydantic's checks of single fields cannot find."""
        if (count := len(self.attributes) + len(self.services)) > MOST_NAMES:
            what = f"'{self.name}' has {count} attributes and services, and may have {MOST_NAMES}: use components"
            yield ("attributes",), what
            return
        yield from _unusable_names(attributes=self.attributes, services=self.services)
        for i, service in enumerate(self.services):
            yield from (((("services", i, *key), what)) for key, what in _unusable_names(arguments=service.arguments))
            try:
                compile_service(service, self.attributes)
            except ServiceError as error:
                yield ("services", i, *error.key), f"service '{service.name}': {error}"
        yield from clockwork_problems(self.attributes)
        for name, text in self.air.given_expressions().items() if self.air else ():
            yield from self._find_expression_problem(("air", name), text, steady=True)

    def _find_costly_code(self) -> Iterator[KeyProblem]:
        """What compiles and may take too many steps."""
        for i, service in enumerate(self.services):
            own, given = bounds_by_name(self.attributes), bounds_by_name(service.arguments)
            steps = steps_of_call(service, self.attributes, own, given)
            if much := tell_too_costly(steps):
                yield ("services", i, "code"), f"service '{service.name}' {much}"
        if much := tell_too_costly(self.steps_of_itself()):
            yield ("attributes",), f"what '{self.name}' works out by itself {much}"

    def steps_of_itself(self) -> int:
        """The most steps of what a part works out besides calls, and the size of what its attributes hold at least."""
        texts = [text for a in self.attributes for text in (a.counts, a.derived, a.starts, a.moves and a.moves.to) if text]
        texts += self.air.given_expressions().values() if self.air else ()
        named = bounds_of_names(bounds_by_name(self.attributes))
        return sum(a.least_units for a in self.attributes) + sum(steps_of_expression(text, named) for text in texts)

    def _find_expression_problem(self, key: tuple[str | int, ...], text: str, steady: bool = False) -> Iterator[KeyProblem]:
        """The problem of an expression over this part. A `steady` one must read no attribute that changes by itself."""
        try:
            compile_part_expression(text, self.attributes)
            read = set(attributes_in(parse_expression(text)))
        except ExpressionError as error:
            yield key, f"{'.'.join(map(str, key))}: {error}"
            return
        moving = [a.name for a in self.attributes if a.name in read and a.changes_by_itself]
        if steady and moving:
            yield key, f"{'.'.join(map(str, key))}: '{moving[0]}' changes by itself; read what it moves to"


class UserData(Model):
    """What is known of a product besides its abilities (SMH-Bench Table 7)."""

    category: str
    spid: str
    brand: str | None = None
    subcategory: str | None = None
    tags: tuple[str, ...] = ()
    rooms: tuple[RoomType | Literal["home"], ...] = Field(
        (), description="types of rooms where HomeMaker puts it; its category's if empty; `home` is in no room"
    )


def _unusable_names(**lists: Sequence[Attribute | Service | Argument | Component]) -> Iterator[KeyProblem]:
    """Names that are no Python identifiers, or that two things share. Agents' code refers to the things by these names."""
    seen: set[str] = set()
    for key, things in lists.items():
        for i, thing in enumerate(things):
            kind, name = type(thing).__name__.lower(), thing.name
            # A name that begins with an underscore could hide a part of the object that agents' code gets.
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                yield (key, i, "name"), f"{kind} '{name}': a name is letters, digits and underscores, a letter first"
            if name in seen:
                yield (key, i, "name"), f"{kind} '{name}': its name is used twice"
            seen.add(name)


PART_KINDS = {"light": "light", "heater": "heater", "ac": "air_conditioner", "floor_heating": "heater", "dryer": "dryer"}
SHIPPED = Path(__file__).resolve().parents[1] / "catalogue"
NAMED = {"homeassistant": Path(__file__).resolve().parents[1] / "homeassistant"}  # catalogues that come with homerl as well


class DeviceSpec(Component):
    """A device type: attributes and services of its own, or in components, or both."""

    userdata: UserData
    components: tuple[Component, ...] = ()
    available: str | None = Field(None, description="an expression over self: false while it cannot be reached")

    def _find_problems(self) -> Iterator[KeyProblem]:
        yield from super()._find_problems()
        if self.available is not None:
            yield from self._find_expression_problem(("available",), self.available)
        own = {a.name for a in self.attributes} | {service.name for service in self.services}
        yield from _unusable_names(components=self.components)
        for i, component in enumerate(self.components):
            if component.name in own:
                yield ("components", i, "name"), f"component '{component.name}': its name is used twice"

    def steps_of_itself(self) -> int:
        """The most steps of what the device itself works out besides calls, and of whether it can be reached."""
        named = bounds_of_names(bounds_by_name(self.attributes))
        return super().steps_of_itself() + (steps_of_expression(self.available, named) if self.available else 0)

    @property
    def spid(self) -> str:
        """The id of the product in the catalogue, such as `100001`."""
        return self.userdata.spid

    @property
    def category(self) -> str:
        """The category of the product, such as `light`."""
        return self.userdata.category

    def parts_by_prefix(self) -> Iterator[tuple[str, Component]]:
        """The (prefix, part) pairs: ("", the device itself), then for example ("light.", the component `light`)."""
        yield "", self
        for component in self.components:
            yield component.name + ".", component

    @cached_property
    def boolean_paths(self) -> tuple[str, ...]:
        """The dotted paths of all boolean attributes."""
        return tuple(path for path, (_, attribute) in self.attribute_index.items() if attribute.type == "bool")

    @cached_property
    def fahrenheit_paths(self) -> frozenset[str]:
        """The dotted paths of the attributes in fahrenheit."""
        return frozenset(path for path, (_, a) in self.attribute_index.items() if a.unit == "fahrenheit")

    @cached_property
    def part_kinds(self) -> tuple[tuple[str, str], ...]:
        """The (prefix, kind) pairs of all parts that hold attributes.

        The kind says what a part does. A component whose name is in `PART_KINDS` has the kind given there, and every
        other part has the category of the device. Example: the `light` of a bath heater is a light.
        """
        return tuple(
            (prefix, part.air.kind if part.air else PART_KINDS.get(prefix[:-1], self.category))
            for prefix, part in self.parts_by_prefix()
            if part.attributes
        )

    @cached_property
    def attribute_index(self) -> dict[str, tuple[int, Attribute]]:
        """Maps each dotted attribute path to (offset within the device's slots, attribute)."""
        pairs = ((prefix + a.name, a) for prefix, part in self.parts_by_prefix() for a in part.attributes)
        return {path: (offset, attribute) for offset, (path, attribute) in enumerate(pairs)}

    @cached_property
    def readable_attributes(self) -> dict[str, Attribute]:
        """The attributes that agents are told of, by dotted path: all but the internal ones."""
        return {path: attribute for path, (_, attribute) in self.attribute_index.items() if not attribute.internal}

    @cached_property
    def service_index(self) -> dict[str, CompiledService]:
        """Maps each dotted service path to the compiled service."""
        index: dict[str, CompiledService] = {}
        for prefix, part, offset in self._parts_with_offsets():
            follow = tuple((d.slot, d.attribute, d.expression) for d in compile_derived_of_part(part.attributes, offset))
            for service in part.services:
                index[prefix + service.name] = compile_service(
                    service, part.attributes, offset, self._compiled_availability, follow
                )
        return index

    @cached_property
    def switch_services(self) -> dict[str, tuple[str, Any]]:
        """The services that do what people call `turn_on`, `close` and the like, where no service has that name."""
        return find_switch_services(self.service_index, self.attribute_index)

    def _parts_with_offsets(self) -> Iterator[tuple[str, Component, int]]:
        """The (prefix, part, offset of its first attribute) triples of all parts."""
        offset = 0
        for prefix, part in self.parts_by_prefix():
            yield prefix, part, offset
            offset += len(part.attributes)

    def _compile_attributes(
        self, compiler: Callable[[Attribute, Sequence[Attribute], int], T | None]
    ) -> Iterator[tuple[str, T]]:
        """The (dotted path, what the compiler makes of it) pairs of the attributes of which it makes something."""
        for prefix, part, offset in self._parts_with_offsets():
            for attribute in part.attributes:
                if (compiled := compiler(attribute, part.attributes, offset)) is not None:
                    yield prefix + attribute.name, compiled

    @cached_property
    def compiled_counters(self) -> tuple[CountingAttribute, ...]:
        """The attributes that count seconds."""
        return tuple(counter for _, counter in self._compile_attributes(compile_counter))

    @cached_property
    def compiled_motions(self) -> tuple[MovingAttribute, ...]:
        """The attributes that move to a target while time passes."""
        return tuple(motion for _, motion in self._compile_attributes(compile_motion))

    @cached_property
    def compiled_derived(self) -> tuple[DerivedAttribute, ...]:
        """The derived attributes, each after those that it reads."""
        return tuple(derived for _, derived in self._compile_attributes(compile_derived))

    @cached_property
    def air_effects(self) -> Mapping[str, Mapping[str, Closure]]:
        """By the prefix of each part with `air`: its settings there, compiled."""
        return {
            prefix: {
                name: compile_part_expression(text, part.attributes, offset)
                for name, text in part.air.given_expressions().items()
            }
            for prefix, part, offset in self._parts_with_offsets()
            if part.air
        }

    @cached_property
    def start_values(self) -> dict[str, Any]:
        """The values of the attributes that start at a constant, by path: those of a new device."""
        scope, values = ServiceScope([None] * len(self.attribute_index), 0, {}), {}
        for path, start in self._compiled_starts.items():
            attribute = self.attribute_index[path][1]
            if not attributes_in(parse_expression(attribute.starts or "")):
                values[path] = attribute.check_value(start(scope), path)
        return values

    @cached_property
    def _compiled_starts(self) -> Mapping[str, Closure]:
        """The compiled `starts` of the attributes, by dotted path."""
        return dict(self._compile_attributes(compile_start))

    @cached_property
    def _compiled_availability(self) -> Closure | None:
        return None if self.available is None else compile_part_expression(self.available, self.attributes)

    def can_be_reached(self, values: Mapping[str, Any]) -> bool:
        """Whether services can be called at these values, which are those of all attributes by path."""
        if self._compiled_availability is None:
            return True
        try:
            return bool(self._compiled_availability(ServiceScope(list(values.values()), 0, {})))
        except UNKNOWN:
            return False

    @cached_property
    def needs_completion(self) -> bool:
        """Whether some values follow from others: derived ones, and those that a home file may leave out."""
        return any(attribute.derived or attribute.starts for _, attribute in self.attribute_index.values())

    def complete_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all attributes by path, from those given: others as they start, and the derived ones as they follow.

        A value that is neither given nor starts is left out. A derived one that cannot be computed is as given. Raises
        `Refused` for another value that is invalid, and `ValueError` for one that cannot be computed.
        """
        given = {**self.start_values, **given}
        index = self.attribute_index
        values = [a.check_value(given[path], path) if path in given else None for path, (_, a) in index.items()]
        scope, paths = ServiceScope(values, 0, {}), list(index)
        known = {path for path in paths if path in given}
        try:
            for path, start in self._compiled_starts.items():
                if path not in given:
                    at, attribute = index[path]
                    values[at] = attribute.check_value(start(scope), attribute.name)
                    known.add(path)
            for derived in self.compiled_derived:
                with suppress(*(UNKNOWN if paths[derived.slot] in given else ())):
                    values[derived.slot] = derived.derived_value(values)
                known.add(paths[derived.slot])
        except (ArithmeticError, TypeError) as error:
            raise ValueError(f"{self.name}: a value cannot be worked out: {error}") from None
        return {path: value for path, value in zip(paths, values) if path in known}

    @cached_property
    def json_text(self) -> str:
        """The whole specification as JSON."""
        return self.model_dump_json(exclude_defaults=True)

    @cached_property
    def content_digest(self) -> str:
        """A 64-bit hash of the whole specification, in hex. It is the same in every process."""
        return hashlib.blake2b(self.json_text.encode(), digest_size=8).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        # As text: what is compiled are closures, which cannot be pickled, and another process may have compiled it already.
        return _load_spec, (self.json_text, type(self))

    def rand(self, seed: int | None = None) -> LoneDevice:
        """A device outside any home with random values (HomeFlow A.2). The same seed gives the same device."""
        rng = random.Random(seed)
        for quantity in ROOM_STATE.values():  # unused draws, kept so that a seed goes on giving the same device
            quantity.sample_value(rng)
        drawn = {path: attribute.sample_value(rng) for path, (_, attribute) in self.attribute_index.items()}
        return LoneDevice(self, list(self.complete_values(drawn).values()))


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
            return lambda *args, **kwargs: self._call_service(path, args, kwargs)
        if any(component.name == path for component in spec.components):
            return LoneDevice(spec, self._values, path + ".")
        raise AttributeError(f"{spec.name} has no attribute or service '{path}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise Refused("read_only", f"'{name}' cannot be assigned; call a service instead")
        super().__setattr__(name, value)

    def _call_service(self, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        service = self._spec.service_index[path]
        outcome = service.compute_outcome(self._values, 0, service.bind_arguments(args, kwargs))
        for slot, value in outcome.updates:
            self._values[slot] = value
        return outcome.returned


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
    return list(validate_document(tuple[DeviceSpec, ...], document))


def device_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, sorted by name, or the one file that is named. `InputError` if there are none."""
    place = Path(folder)
    if place.is_file():
        return [place]
    files = sorted(path for path in place.glob("*.y*ml") if path.suffix in (".yaml", ".yml"))
    if not files:
        what = "no device files found" if place.is_dir() else "there is no such folder"
        raise InputError(what, where=str(folder), remedy="name a folder with *.yaml files")
    return files


class Catalogue(Mapping[str, DeviceSpec]):
    """A read-only mapping from spid to specification."""

    def __init__(self, specs: dict[str, DeviceSpec]) -> None:
        self._specs = specs

    @classmethod
    def load_folders(cls, *folders: Path) -> Catalogue:
        """The products of all device files of some folders. Raises `InputError` if a file is wrong or a spid repeats.

        A folder may be a key of `NAMED`.
        """
        specs: dict[str, DeviceSpec] = {}
        for path in chain.from_iterable(device_files(NAMED.get(str(folder), folder)) for folder in folders):
            document = read_yaml(path)
            for i, spec in enumerate(load_specs(document)):
                if spec.spid in specs:
                    raise InputError(
                        f"spid {spec.spid} is used by {specs[spec.spid].name} and {spec.name}",
                        where=document.locate_key((i, "userdata", "spid")),
                        remedy="give each product its own spid",
                    )
                specs[spec.spid] = spec
        return cls(specs)

    @staticmethod
    @lru_cache(maxsize=1)
    def load_shipped() -> Catalogue:
        """The catalogue that comes with homerl. It is read once per process."""
        return Catalogue.load_folders(SHIPPED)

    @classmethod
    def products_beside(cls, folder: Path) -> Mapping[str, DeviceSpec]:
        """The products that the devices of a folder must not clash with.

        They are the shipped products. For the shipped folder itself, and its files, there are none.
        """
        place = Path(folder).resolve()
        return {} if SHIPPED in (place, place.parent) else cls.load_shipped()

    def __getitem__(self, spid: str) -> DeviceSpec:
        return self._specs[spid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def own_products(folders: Iterable[str]) -> tuple[DeviceSpec, ...]:
    """The products of these files and folders of devices, without those of the catalogues in `NAMED`."""
    return tuple(Catalogue.load_folders(*(Path(folder) for folder in folders if folder not in NAMED)).values())


def spec_from_json(data: Mapping[str, Any]) -> DeviceSpec:
    """A specification from the JSON that a home file holds. Raises `ValueError` if it is invalid."""
    try:
        return _load_spec(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"spec {data.get('name')}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@lru_cache(maxsize=1024)  # homes of one catalogue repeat its products, and a specification takes milliseconds to compile
def _load_spec(text: str, kind: type[DeviceSpec] = DeviceSpec) -> DeviceSpec:
    return kind.model_validate(json.loads(text))


@dataclass(frozen=True)
class Device:
    """A device in a room. `did` is its id in the home. `name` is what people call it, unique within its room."""

    did: str
    name: str
    room: Room
    spec: DeviceSpec

    @property
    def slug_name(self) -> str:
        """The room's and the device's name as one word: `kitchen_wall_light`."""
        return slug_of_words(f"{self.room.name} {self.name}")


def slug_of_words(words: str) -> str:
    """Words as one: `kitchen_wall_light`."""
    return re.sub(r"\W+", "_", words).strip("_")


def unused_id(id: str, taken: Container[str]) -> str:
    """The id, or the first of `id_2`, `id_3` ... that is not taken."""
    return next(name for name in chain([id], (f"{id}_{number}" for number in count(2))) if name not in taken)
