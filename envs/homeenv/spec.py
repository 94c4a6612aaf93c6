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
from typing import Any, TextIO

from pydantic import Field, ValidationError, model_validator

from envs.documents import Document, InputError, read_yaml, validate
from envs.homeenv.audit import Refused
from envs.homeenv.expressions import Closure, ExpressionError, compile_expression, parse, path_of
from envs.homeenv.types import Model, ValueType, shown


class Attribute(ValueType):
    """A named value of a device. `relevance`, if given, says when the value means something."""

    name: str
    description: str | None = None


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
    def _unique(self) -> Component:
        _refuse_unusable((*self.attributes, *self.services))
        for service in self.services:
            _refuse_unusable(service.arguments)
            _compile_service(service, self.attributes)
        return self


class UserData(Model):
    """What is known of a product besides its abilities (SMH-Bench Table 4)."""

    category: str
    spid: str
    brand: str | None = None
    subcategory: str | None = None
    tags: tuple[str, ...] = ()


class DeviceSpec(Component):
    """A device type: attributes and services of its own, or in components, or both."""

    userdata: UserData
    components: tuple[Component, ...] = ()

    @model_validator(mode="after")
    def _unique_components(self) -> DeviceSpec:
        _refuse_unusable((*self.attributes, *self.services, *self.components))
        return self

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
    def digest(self) -> str:
        """A hash of the whole specification, the same in every process."""
        return hashlib.blake2b(self.model_dump_json(exclude_defaults=True).encode(), digest_size=8).hexdigest()

    def rand(self, seed: int | None = None):
        """A free-standing device with random attributes, as in HomeFlow A.2."""
        from envs.homeenv.home import lone_device

        return lone_device(self, seed)


@dataclass(frozen=True)
class Scope:
    """What service code sees: the flat values, where the device's part begins, the bound arguments."""

    values: list
    base: int
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class CompiledService:
    """A service ready to run. `writes` are (offset, attribute, closure) in the order of the code."""

    service: Service
    writes: tuple[tuple[int, Attribute, Closure], ...]
    requires: Callable[[Scope], bool] | None

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
        bound = {}
        for argument in declared:
            if argument.name in given:
                bound[argument.name] = argument.check(given[argument.name], argument.name)
            elif argument.required:
                raise Refused("missing_argument", f"{self.service.signature()} needs '{argument.name}'")
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
                raise Refused("precondition", f"{self.service.name} needs {self.service.requires.strip()}")
            for offset, attribute, closure in self.writes:
                value = scope.values[base + offset] = attribute.check(closure(scope), attribute.name)
                updates.append((base + offset, value))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused("out_of_range", f"{self.service.name} cannot be worked out: {error}") from None
        return updates


def _refuse_unusable(things: tuple[Attribute | Argument | Service | Component, ...]) -> None:
    """Names that agents' code cannot say, or that would mean two things."""
    names = [thing.name for thing in things]
    for thing, name in zip(things, names):
        kind = type(thing).__name__.lower()
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise ValueError(f"{kind} '{name}': a name is letters, digits and underscores, a letter first")
        if names.count(name) > 1:
            raise ValueError(f"{kind} '{name}': its name is used twice")


def _compile_service(service: Service, attributes: tuple[Attribute, ...], offset: int = 0) -> CompiledService:
    """Compile code and precondition, or raise `ValueError` that names the service."""
    offsets = {a.name: (offset + i, a) for i, a in enumerate(attributes)}
    arguments = {a.name for a in service.arguments}

    def resolve(node: ast.expr) -> Closure | None:
        root, names = path_of(node)
        if isinstance(node, ast.Name) and node.id in arguments:
            return lambda scope, name=node.id: scope.arguments[name]
        if isinstance(root, ast.Name) and root.id == "self" and len(names) == 1:
            if names[0] not in offsets:
                raise ExpressionError(f"self has no attribute '{names[0]}'", node)
            return lambda scope, at=offsets[names[0]][0]: scope.values[scope.base + at]
        return None

    try:
        tree = parse(service.code, "exec")
        writes = tuple(_write(statement, offsets, resolve) for statement in tree.body)
        requires = service.requires and compile_expression(parse(service.requires).body, resolve)
    except ExpressionError as error:
        raise ValueError(f"service '{service.name}': {error}") from None
    return CompiledService(service, writes, requires or None)


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


class Catalogue(Mapping[str, DeviceSpec]):
    """Specifications by spid, from every YAML file of a folder."""

    def __init__(self, specs: dict[str, DeviceSpec]) -> None:
        self._specs = specs

    @classmethod
    def load(cls, *folders: Path) -> Catalogue:
        specs: dict[str, DeviceSpec] = {}
        for path in sorted(path for folder in folders for path in Path(folder).glob("*.y*ml")):
            for spec in load_specs(read_yaml(path)):
                if spec.spid in specs:
                    raise InputError(
                        f"spid {spec.spid} is used by {specs[spec.spid].name} and {spec.name}",
                        where=str(path), remedy="give each product its own spid",
                    )  # fmt: skip
                specs[spec.spid] = spec
        if not specs:
            raise InputError("no device files found", where=", ".join(map(str, folders)), remedy="add *.yaml files")
        return cls(specs)

    @classmethod
    def shipped(cls) -> Catalogue:
        """The catalogue that comes with homerl."""
        global _SHIPPED
        if _SHIPPED is None:
            _SHIPPED = cls.load(Path(__file__).parent / "catalogue")
        return _SHIPPED

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
