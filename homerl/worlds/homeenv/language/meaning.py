"""What is meant, before it is put into words: the same in every language.

A `Meaning` says itself through a `Sayer`, which knows the language. The parts that all families share are here
(devices referred to, acts, comparisons); what one family alone means stands in its own file.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.rooms import Room
from envs.homeenv.types import ValueType
from homerl.language.grammar import Grammar

Operator = Literal["==", "!=", "<", "<=", ">", ">="]


class Sayer(Protocol):
    """Who puts meanings into words (`speaker.Speaker`): frames of a grammar filled, drawn by a generator, about one home."""

    home: Home
    grammar: Grammar
    rng: random.Random

    def say(self, key: str, **slots: str) -> str: ...
    def first(self, *keys: str) -> str: ...
    def act(self, act: Act, target: str | None = None) -> str: ...
    def request(self, acts: Sequence[Act]) -> str: ...
    def room(self, room: Room) -> str: ...
    def name(self, word: str, device: Device | None = None) -> str: ...
    def value(self, value: Any, type: ValueType | None = None) -> str: ...


class Meaning(Protocol):
    """Something to say."""

    def words(self, speaker: Any) -> str: ...


@dataclass(frozen=True)
class Comparison:
    """`attribute` is the last word of a dotted path; `type` gives the unit."""

    attribute: str
    operator: Operator
    value: Any
    type: ValueType


@dataclass(frozen=True)
class Rank:
    """The first `count` by an attribute, from the highest or the lowest."""

    count: int
    attribute: str
    highest: bool


@dataclass(frozen=True)
class Target:
    """Devices as a person refers to them, and which they are.

    By name (one device, `kind` None): "the kitchen wall light". By kind: "all lights in the kitchen", narrowed by
    rooms, a floor, exceptions, a comparison (`where`), a comparison that some device of the room meets (`rooms_where`,
    with that device's kind; with `elsewhere`, in all other rooms), or a rank. `pronoun`: "it", "them". `part` is the
    component meant ("light", or "").
    """

    devices: tuple[Device, ...]
    kind: str | None = None
    rooms: tuple[Room, ...] = ()
    floor: int | None = None
    excluding: tuple[Room, ...] = ()
    where: Comparison | None = None
    rooms_where: tuple[str, Comparison] | None = None
    elsewhere: bool = False
    rank: Rank | None = None
    pronoun: bool = False
    part: str = ""

    @property
    def many(self) -> bool:
        return len(self.devices) > 1 or (self.kind is not None and (self.rank is None or self.rank.count > 1))

    @classmethod
    def of(cls, device: Device, part: str = "") -> Target:
        """One device, by its room and name."""
        return cls((device,), part=part)


@dataclass(frozen=True)
class Act:
    """A service called on a target. `service` is the last word of its path; `value` what is said of its argument."""

    service: str
    target: Target
    value: Any = None
    type: ValueType | None = None

    def words(self, speaker: Sayer) -> str:
        return speaker.act(self)


@dataclass(frozen=True)
class Command:
    """Acts asked for in one request."""

    acts: tuple[Act, ...]

    def words(self, speaker: Sayer) -> str:
        return speaker.request(self.acts)


def spoken_step(low: float, high: float) -> int:
    """The step between the numbers that people say of a range: fine in narrow ones, round in wide ones."""
    span = high - low
    return 1 if span <= 20 else 5 if span <= 120 else 10 ** math.floor(math.log10(span / 10))
