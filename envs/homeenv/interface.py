"""The interface of a device as data: its attributes, its services and their arguments (HomeFlow A.1).

The `code` of a service is a sequence of assignments to attributes of `self`. Its precondition `requires` and its answer
`returns` are expressions over them. All use the closed grammar of `expressions.py`. Nothing here is executed: `service.py`
compiles the code, and `spec.py` builds device specifications.

Invariants: an attribute that counts seconds is an int from 0; the default of an argument fits its type. The docstrings of
the models are descriptions in docs/schemas.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from envs.homeenv.audit import Refused
from envs.homeenv.types import ValueType
from envs.model import Model


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


# A named argument of a service. `default` is used if it is not given. (A docstring would enter the schemas.)
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
    returns: str | dict[str, str] | None = Field(
        None, description="what the call gives back: an expression over self after the call, or several by name"
    )
    description: str | None = None

    def signature(self) -> str:
        """The signature as agents read it: `set_brightness(brightness: int 1..100 percentage)`."""
        return f"{self.name}({', '.join(f'{a.name}: {a.describe()}' for a in self.arguments)})"
