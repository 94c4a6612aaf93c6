"""Meanings, before they are put into words. They are the same in every language.

A `Meaning` puts itself into words through a `Sayer`, which knows the language. This module has the parts that all intent
families share: references to devices, acts and comparisons. A family keeps its own meanings in its own file.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.play.words.grammar import Grammar

Operator = Literal["==", "!=", "<", "<=", ">", ">="]


class Sayer(Protocol):
    """The interface of `speaker.Speaker` that meanings use: it draws frames of a grammar about one home."""

    home: Home
    grammar: Grammar
    rng: random.Random

    def say(self, key: str, **slots: str) -> str:
        """A frame of the key with its slots filled."""

    def first(self, *keys: str) -> str:
        """The first of the keys that the grammar has."""

    def act(self, act: Act, target: str | None = None) -> str:
        """A clause for an act."""

    def request(self, acts: Sequence[Act]) -> str:
        """A sentence for acts."""

    def room(self, room: Room) -> str:
        """A room by its name."""

    def say_thing_name(self, thing: Device | Room) -> str:
        """The name or alias of a device or a room."""

    def name(self, word: str, device: Device | None = None) -> str:
        """An attribute, service, component or category in words."""

    def value(self, value: Any, type: ValueType | None = None) -> str:
        """A value in words, with its unit."""


class Meaning(Protocol):
    """Anything that can be put into words."""

    def words(self, speaker: Any) -> str:
        """The words for this meaning."""


@dataclass(frozen=True)
class AttributeComparison:
    """A comparison of an attribute with a value.

    `attribute` is the name without its component, and `type` gives the unit.
    """

    attribute: str
    operator: Operator
    value: Any
    type: ValueType


@dataclass(frozen=True)
class AttributeRank:
    """The `count` devices with the highest or the lowest values of an attribute."""

    count: int
    attribute: str
    highest: bool


@dataclass(frozen=True)
class Target:
    """A reference to devices, as a person makes it, and the devices that it denotes.

    A reference by name has `kind` None and one device: "the kitchen wall light". A reference by kind, such as "all lights
    in the kitchen", may be restricted by `rooms`, a `floor`, `excluding`, a comparison (`where`) or a `rank`. It may also
    be restricted to rooms in which some device meets a comparison: `rooms_where` is (kind of that device, comparison), and
    `elsewhere` means all other rooms. With `pronoun`, the reference is "it" or "them". `part` is the component that is
    meant ("light"), or "".
    """

    devices: tuple[Device, ...]
    kind: str | None = None
    rooms: tuple[Room, ...] = ()
    floor: int | None = None
    excluding: tuple[Room, ...] = ()
    where: AttributeComparison | None = None
    rooms_where: tuple[str, AttributeComparison] | None = None
    elsewhere: bool = False
    rank: AttributeRank | None = None
    pronoun: bool = False
    part: str = ""

    @property
    def required_kind(self) -> str:
        """The kind. Only a reference by kind has one."""
        assert self.kind is not None
        return self.kind

    @property
    def required_rank(self) -> AttributeRank:
        """The rank. Only a reference to the first few has one."""
        assert self.rank is not None
        return self.rank

    @property
    def is_plural(self) -> bool:
        """Whether the reference is plural."""
        return len(self.devices) > 1 or (self.kind is not None and (self.rank is None or self.rank.count > 1))

    @classmethod
    def of_device(cls, device: Device, part: str = "") -> Target:
        """A reference to one device by its room and name."""
        return cls((device,), part=part)


@dataclass(frozen=True)
class Act:
    """A service call on a target. `service` is the name without its component, and `value` the spoken argument."""

    service: str
    target: Target
    value: Any = None
    type: ValueType | None = None

    def words(self, speaker: Sayer) -> str:
        """A clause."""
        return speaker.act(self)


@dataclass(frozen=True)
class SpokenCommand:
    """Several acts in one request."""

    acts: tuple[Act, ...]

    def words(self, speaker: Sayer) -> str:
        """A sentence."""
        return speaker.request(self.acts)


def spoken_step(low: float, high: float) -> int:
    """The step between the numbers that people say in a range: 1 in narrow ranges, 5 or a power of ten in wide ones."""
    span = high - low
    return 1 if span <= 20 else 5 if span <= 120 else 10 ** math.floor(math.log10(span / 10))
