"""Device specifications: the YAML that a device is made from (HomeFlow A.1).

Invariants: a `DeviceSpec` that loads is executable (its service code and preconditions compile against
its own attributes and arguments); compilation happens once a spec; a spec never changes.
A service's `code` is a sequence of assignments to attributes of `self`; `requires` is an expression
over them. Both use the closed grammar of `expressions.py`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from pydantic import Field, ValidationError, model_validator

from envs.documents import Document, InputError, read_yaml, validate
from envs.explain import Problems
from envs.homeenv.audit import Refused
from envs.homeenv.expressions import Closure, ExpressionError, attributes_in, compile_expression, parse, path_of
from envs.homeenv.types import Model, ValueType, shown

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
        return (_compile_service(service, self.attributes) for service in self.services)

    def _problems(self) -> Iterator[Found]:
        """What the fields, each for itself, do not show."""
        yield from _unusable(attributes=self.attributes, services=self.services)
        for i, service in enumerate(self.services):
            yield from (((("services", i, *key), what)) for key, what in _unusable(arguments=service.arguments))
            try:
                _compile_service(service, self.attributes)
            except ServiceError as error:
                yield ("services", i, error.key), f"service '{service.name}': {error}"
        for i, attribute in enumerate(self.attributes):
            try:
                _compile_counter(attribute, self.attributes)
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
                index[prefix + service.name] = _compile_service(service, part.attributes, offset)
            offset += len(part.attributes)
        return index

    @cached_property
    def counter_index(self) -> dict[str, CompiledCounter]:
        """Dotted path of each counting attribute -> the compiled counter."""
        index: dict[str, CompiledCounter] = {}
        offset = 0
        for prefix, part in self.parts():
            for at, attribute in enumerate(part.attributes):
                if (counted := _compile_counter(attribute, part.attributes, offset)) is not None:
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


class Scope(NamedTuple):
    """What service code sees: the flat values, where the device's part begins, the bound arguments."""

    values: list
    base: int
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class CompiledCounter:
    """An attribute that counts, at its offset: what must hold for it to grow, and the offsets that this looks at."""

    offset: int
    holds: Closure
    reads: tuple[int, ...]


@dataclass(frozen=True)
class CompiledService:
    """A service ready to run. `writes` are (offset, attribute, closure) in the order of the code, `reads` the
    (name, offset) of the attributes that the precondition looks at."""

    service: Service
    writes: tuple[tuple[int, Attribute, Closure], ...]
    requires: Callable[[Scope], bool] | None = None
    reads: tuple[tuple[str, int], ...] = ()

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Canonical arguments by name, or `Refused`."""
        declared = self.service.arguments
        if len(args) > len(declared):
            raise Refused("unknown_argument", f"{self.service.signature()} takes {len(declared)} arguments")
        given = dict(zip((a.name for a in declared), args))
        for name, value in kwargs.items():
            if name in given or all(name != a.name for a in declared):
                raise Refused("unknown_argument", f"{self.service.signature()} takes no further argument {shown(name)}")
            given[name] = value
        if missing := [repr(a.name) for a in declared if a.required and a.name not in given]:
            raise Refused("missing_argument", f"{self.service.signature()} needs {' and '.join(missing)}")
        bound = {}
        for argument in declared:
            if argument.name in given:
                bound[argument.name] = argument.check(given[argument.name], argument.name)
            elif argument.default is not None:
                bound[argument.name] = argument.check(argument.default, argument.name)
            else:
                bound[argument.name] = None
        return bound

    def updates(self, values: list, base: int, arguments: Mapping[str, Any]) -> list[tuple[int, Any]]:
        """(slot, canonical value) for every write, in order; each sees those before it, and `values` sees none."""
        scope = Scope(values.copy(), base, arguments)
        updates = []
        try:
            if self.requires is not None and not self.requires(scope):
                raise Refused("precondition", self._unmet(scope))
            for offset, attribute, closure in self.writes:
                value = scope.values[base + offset] = attribute.check(closure(scope), attribute.name)
                updates.append((base + offset, value))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused("out_of_range", f"{self.service.name} cannot be worked out: {error}") from None
        return updates

    def _unmet(self, scope: Scope) -> str:
        """What the precondition needs and what is the case: `set_speed needs state == "on"; now state is "off"`."""
        now = [f"{name} is {json.dumps(scope.values[scope.base + offset])}" for name, offset in self.reads]
        needs = f"{self.service.name} needs {self.service.requires.strip().replace('self.', '')}"
        return f"{needs}; now {', '.join(now)}" if now else needs


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


class ServiceError(ValueError):
    """A service's `code` or `requires` (the `key`) that does not compile."""

    def __init__(self, key: str, error: ExpressionError) -> None:
        self.key = key
        super().__init__(str(error))


def _compile_counter(
    attribute: Attribute, attributes: tuple[Attribute, ...], offset: int = 0
) -> tuple[Closure, tuple[int, ...]] | None:
    """What an attribute counts, if it counts, and the offsets that it reads; or `ExpressionError`."""
    if attribute.counts is None:
        return None
    offsets = {a.name: (offset + i, a) for i, a in enumerate(attributes)}
    tree = parse(attribute.counts).body
    counted = compile_expression(tree, _resolver(offsets, frozenset()))
    reads = [offsets[name] for name in attributes_in(tree)]
    if any(read.counts is not None for _, read in reads):
        raise ExpressionError("what is counted must not count itself", tree)
    return counted, tuple(at for at, _ in reads)


def _resolver(offsets: Mapping[str, tuple[int, Attribute]], arguments: frozenset[str]) -> Callable:
    """Names of arguments and attributes of `self`, as closures over a `Scope`."""

    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if isinstance(node, ast.Name) and node.id in arguments:
            return lambda scope, name=node.id: scope.arguments[name]
        if isinstance(root, ast.Name) and root.id == "self" and len(names) == 1:
            if names[0] not in offsets:
                raise ExpressionError(f"self has no attribute '{names[0]}'", node)
            return lambda scope, at=offsets[names[0]][0]: scope.values[scope.base + at]
        return None

    return resolve


def _compile_service(service: Service, attributes: tuple[Attribute, ...], offset: int = 0) -> CompiledService:
    """Compile code and precondition, or raise `ServiceError`."""
    offsets = {a.name: (offset + i, a) for i, a in enumerate(attributes)}
    resolve = _resolver(offsets, frozenset(a.name for a in service.arguments))
    key = "code"
    try:
        tree = parse(service.code, "exec")
        writes = tuple(_write(statement, offsets, resolve) for statement in tree.body)
        if not service.requires:
            return CompiledService(service, writes)
        key, condition = "requires", parse(service.requires)
        requires = compile_expression(condition.body, resolve)
    except ExpressionError as error:
        raise ServiceError(key, error) from None
    reads = tuple((name, offsets[name][0]) for name in attributes_in(condition))
    return CompiledService(service, writes, requires, reads)


def _write(statement: ast.stmt, offsets: Mapping, resolve: Callable) -> tuple[int, Attribute, Closure]:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        raise ExpressionError(f"'{ast.unparse(statement)}' is not an assignment to an attribute of self", statement)
    root, names = path_of(statement.targets[0])
    if not (isinstance(root, ast.Name) and root.id == "self" and len(names) == 1 and names[0] in offsets):
        raise ExpressionError(f"'{ast.unparse(statement.targets[0])}' is not an attribute of self", statement)
    return (*offsets[names[0]], compile_expression(statement.value, resolve))


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
