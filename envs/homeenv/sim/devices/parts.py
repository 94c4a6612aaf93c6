"""The parts of which a device is made: attributes and services under a name, and what is known of the product besides.

Invariant: a part that loads is executable: its service code, preconditions and expressions compile against its attributes.

The docstrings of the pydantic models are descriptions in docs/schemas.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, Protocol

from pydantic import Field, model_validator

from homerl.envs.core.documents.explain import SeveralProblems
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.clockwork import clockwork_problems, compile_part_expression
from homerl.envs.homeenv.sim.devices.cost import (
    bounds_by_name,
    bounds_of_names,
    steps_of_call,
    steps_of_expression,
    tell_too_costly,
)
from homerl.envs.homeenv.sim.devices.interface import Attribute, Service
from homerl.envs.homeenv.sim.devices.rooms import RoomType
from homerl.envs.homeenv.sim.devices.service import CompiledService, ServiceError, compile_service
from homerl.envs.homeenv.sim.values.expressions import ExpressionError, attributes_in, parse_expression

MOST_NAMES = 500  # attributes and services of one part
KeyProblem = tuple[tuple[str | int, ...], str]  # (key path within a model, what is wrong there)


class HasName(Protocol):
    """A part of a specification that agents' code refers to by name."""

    @property
    def name(self) -> str:
        """The name that agents' code uses."""


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
        if problems := list(self._problems()) or list(self._costly()):
            raise SeveralProblems(problems)
        return self

    def compile_services(self) -> Iterator[CompiledService]:
        """The services of this part alone, compiled against its own attributes."""
        return (compile_service(service, self.attributes) for service in self.services)

    @cached_property
    def written_attributes(self) -> frozenset[str]:
        """The names of the attributes that some service writes."""
        return frozenset(attribute.name for compiled in self.compile_services() for _, attribute, _ in compiled.writes)

    def _problems(self) -> Iterator[KeyProblem]:
        """Problems that concern several fields, which pydantic's checks of single fields cannot find."""
        if (count := len(self.attributes) + len(self.services)) > MOST_NAMES:
            yield (
                ("attributes",),
                f"'{self.name}' has {count} attributes and services, and may have {MOST_NAMES}: use components",
            )
            return
        yield from unusable_names(attributes=self.attributes, services=self.services)
        for i, service in enumerate(self.services):
            yield from (((("services", i, *key), what)) for key, what in unusable_names(arguments=service.arguments))
            try:
                compile_service(service, self.attributes)
            except ServiceError as error:
                yield ("services", i, *error.key), f"service '{service.name}': {error}"
        yield from clockwork_problems(self.attributes)
        for name, text in self.air.given_expressions().items() if self.air else ():
            yield from self._problem_of(("air", name), text, steady=True)

    def _costly(self) -> Iterator[KeyProblem]:
        """What compiles and may take too many steps."""
        for i, service in enumerate(self.services):
            steps = steps_of_call(
                service, self.attributes, bounds_by_name(self.attributes), bounds_by_name(service.arguments)
            )
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

    def _problem_of(self, key: tuple[str | int, ...], text: str, steady: bool = False) -> Iterator[KeyProblem]:
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


def unusable_names(**lists: Sequence[HasName]) -> Iterator[KeyProblem]:
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
