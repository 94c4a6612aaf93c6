"""The interface of a device as data: its attributes with their limits, its services and their arguments (HomeFlow A.1).

The `code` of a service is a sequence of assignments to attributes of `self`. Its precondition `requires` and its answer
`returns` are expressions over them. All use the closed grammar of `expressions.py`. Nothing here is executed:
`service_execution.py` compiles the code, and `device_spec.py` builds device specifications.

An attribute is a `ValueType`, whose `range` and `options` limit it. The position of a blind is limited by `range: [0, 100]`
at the attribute `position` in its device file. `service_execution.py` checks each value that a call writes.

Invariants:
- An attribute that counts seconds is an int from 0.
- One that moves has whole steps.
- At most one of `counts`, `moves`, `derived` and `measures` says how an attribute changes by itself.
- What moves stands still while it is null, and what measures is null until it is next measured.
- The default of an argument fits its type. The docstrings of the models are descriptions in docs/schemas.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType


class Motion(Model):
    """How an attribute moves while time passes: towards `to`, by `rate` a second. It stands still while `to` is None."""

    to: str = Field(description="an expression over self, over attributes that services alone change")
    rate: float = Field(gt=0, le=1e6, description="by how much the value changes in a second")


class Attribute(ValueType):
    """A named value of a device. A `read_only` one is measured: no service writes it."""

    name: str
    description: str | None = None
    read_only: bool = False
    counts: str | None = Field(None, description="an expression over self: the value is for how many seconds it has held")

    moves: Motion | None = Field(None, description="the value moves to a target while time passes")
    derived: str | None = Field(None, description="an expression over self that the value always equals")
    measures: Literal["temperature", "humidity", "brightness"] | None = Field(
        None, description="the quantity of its room's air that the value shows"
    )
    internal: bool = Field(False, description="whether agents are not told of it: the device's own memory")
    starts: str | None = Field(None, description="an expression over self: the value where a home file gives none")

    @property
    def changes_by_itself(self) -> bool:
        """Whether the value changes by itself, and not by services alone."""
        return bool(self.counts or self.moves or self.derived or self.measures)

    @model_validator(mode="after")
    def _check_way_of_change(self) -> Attribute:
        ways = [way for way in ("counts", "moves", "derived", "measures") if getattr(self, way) is not None]
        if len(ways) > 1:
            raise ValueError(f"attribute '{self.name}' has {' and '.join(ways)}, and may have one of them")
        if (self.moves or self.measures) and (self.type not in NUMBERS or self.options):
            raise ValueError(f"attribute '{self.name}' {ways[0]}, so it is an int or a float, without options")
        if self.moves and self.type == "float" and not self.precision:
            raise ValueError(f"attribute '{self.name}' moves in steps, so a float needs a precision")
        if self.counts is not None and (self.type != "int" or self.nullable):
            raise ValueError(f"attribute '{self.name}' counts seconds, so its type is int, and it is never null")
        if self.counts is not None and (self.options or self.precision or (self.range and self.range[0] > 0)):
            raise ValueError(f"attribute '{self.name}' counts seconds from 0: no options, no precision, no range above 0")
        return self


# A named argument of a service. `default` is used if it is not given. (A docstring would enter the schemas.)
class Argument(ValueType):
    name: str
    required: bool = True
    default: Any = None
    description: str | None = None
    rooms: bool = Field(  # home files are older than this key
        False, exclude_if=lambda rooms: not rooms, description="each text is a room by id or name; the code gets its id"
    )

    @model_validator(mode="after")
    def _check_rooms_and_default(self) -> Argument:
        texts = self.items or () if self.type == "list" else (self,)
        if self.rooms and any(text.type != "str" for text in texts):
            raise ValueError(f"argument '{self.name}' names rooms, so its type is str, or list of str")
        if self.default is not None:
            try:
                self.check_value(self.default, "default")
            except Refused as refused:
                raise ValueError(f"argument '{self.name}': {refused.message}") from None
        return self


class Service(Model):
    """What a device can be told to do."""

    name: str
    arguments: tuple[Argument, ...] = ()
    code: str
    requires: str | None = Field(None, description="an expression over self that must hold before the call")
    returns: str | dict[str, str] | None = Field(
        None, description="what the call gives back: an expression over self after the call, or several by name"
    )
    description: str | None = None

    def signature_text(self) -> str:
        """The signature as agents read it: `set_brightness(brightness: int 1..100 percentage)`; `a?` may be left out."""
        named = (f"{a.name}{'' if a.required else '?'}: {a.describe_type()}" for a in self.arguments)
        return f"{self.name}({', '.join(named)})"
