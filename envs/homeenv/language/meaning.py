"""Meanings, before they are put into words, and the devices that they denote. They are the same in every language.

A `Meaning` puts itself into words through a `Speaker`, which knows the language. This module has the parts that all intent
families share: references to devices, acts and comparisons. A family keeps its own meanings in its own file.

In people's own homes two things may share a name; in a made home no two do. A device is of a kind if one of its components
is (`spec.kinds`): a fan with a lamp is a fan and a light.

Invariants:
- No sentence refers to a thing by a name or alias that another thing has too.
- In a task, a thing is always called the same.
- `denoted_devices` uses the meaning of the words alone, never `Target.devices`. If the words are ambiguous (equal values at
  the cut of a rank), it returns no device.
"""

from __future__ import annotations

import ast
import math
import random
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.expressions import COMPARISONS
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, ValueType, value_means_word
from homerl.play.words.grammar import UnclearSentence

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
OPERATORS = {  # as in conditions: null is neither less nor greater than anything
    "==": COMPARISONS[ast.Eq],
    "!=": COMPARISONS[ast.NotEq],
    "<": COMPARISONS[ast.Lt],
    "<=": COMPARISONS[ast.LtE],
    ">": COMPARISONS[ast.Gt],
    ">=": COMPARISONS[ast.GtE],
}
# Categories that only some people would count as the kind.
NEAR = {
    "fan": ("range_hood", "bath_heater"),
    "heater": ("water_heater", "thermostat"),
    "light": ("wall_switch",),
    "speaker": ("smart_screen", "tv"),
    "air_conditioner": ("thermostat",),
}
BROADER = {"fan": ("fan", "ceiling_fan")}  # nouns that cover several kinds


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

    def words(self, speaker: Any) -> str:
        """A clause."""
        clause: str = speaker.act(self)
        return clause


@dataclass(frozen=True)
class SpokenCommand:
    """Several acts in one request."""

    acts: tuple[Act, ...]

    def words(self, speaker: Any) -> str:
        """A sentence."""
        sentence: str = speaker.request(self.acts)
        return sentence


@dataclass(frozen=True)
class SpokenValue:
    """A value with its unit."""

    value: Any
    type: ValueType | None

    def words(self, speaker: Any) -> str:
        """The value, as the speaker says it."""
        said: str = speaker.value(self.value, self.type)
        return said


@dataclass(frozen=True)
class SpokenName:
    """What an attribute is called."""

    name: str

    def words(self, speaker: Any) -> str:
        """The name, in the speaker's language."""
        said: str = speaker.name(self.name)
        return said


def spoken_step(low: float, high: float) -> int:
    """The step between the numbers that people say in a range: 1 in narrow ranges, 5 or a power of ten in wide ones."""
    span = high - low
    return 1 if span <= 20 else 5 if span <= 120 else 10 ** math.floor(math.log10(span / 10))


# What is denoted


def refuse_shared_room(room: Room, home: Home) -> None:
    """Raise `UnclearSentence` if another room has the same name."""
    name = room.name.casefold()
    if any(other.name.casefold() == name and other.id != room.id for other in home.plan.rooms):
        raise UnclearSentence


def refuse_shared_device(device: Device, home: Home) -> None:
    """Raise `UnclearSentence` if another device, in this room or in one of the same name, has the same name.

    Of a device in no room, people say the name alone, so nothing else may have it, no room either.
    """
    name, room = device.name.casefold(), device.room.name.casefold()
    if device.room.id == HOME and any(other.name.casefold() == name for other in home.plan.rooms):
        raise UnclearSentence
    alike = (other for other in home.plan.devices if other.name.casefold() == name and other.did != device.did)
    if any(device.room.id == HOME or other.room.name.casefold() == room for other in alike):
        raise UnclearSentence


def spoken_name_of(thing: Device | Room, home: Home, by_alias: float) -> str:
    """What people call a device or a room: its name or, for a share of the things of a task, an alias of its own."""
    if not by_alias or not (aliases := aliases_of(thing, home)):
        return thing.name
    rng = random.Random(f"called {home.clock} {_thing_key(thing)}")  # homes of other tasks have other clocks
    things: tuple[Device | Room, ...] = (*home.plan.rooms, *home.plan.devices)
    others = [one for one in things if _thing_key(one) != _thing_key(thing)]
    taken = {name.casefold() for one in others for name in (one.name, *aliases_of(one, home))}
    free = [alias for alias in aliases if alias.casefold() not in taken]
    return rng.choice(free) if free and rng.random() < by_alias else thing.name


def aliases_of(thing: Device | Room, home: Home) -> tuple[str, ...]:
    """The further names of a device or a room."""
    if (origin := home.plan.origin) is None:
        return ()
    return origin.rooms.get(thing.id, ()) if isinstance(thing, Room) else origin.link_of_device(thing.did).aliases


def _thing_key(thing: Device | Room) -> tuple[str, str]:
    return ("room", thing.id) if isinstance(thing, Room) else ("device", thing.did)


def parts_of_kind(device: Device, kind: str) -> list[str]:
    """The path prefixes of the device's components of this kind, such as "light."; "" is the device itself."""
    return [prefix for prefix, own_kind in device.spec.part_kinds if own_kind in BROADER.get(kind, (kind,))]


def devices_of_kind(home: Home, kind: str) -> list[Device]:
    """The devices that have a component of this kind."""
    return [device for device in home.plan.devices if parts_of_kind(device, kind)]


def attribute_values_of(home: Home, device: Device, kind: str, attribute: str) -> list[Any]:
    """The attribute's values in the device's components of this kind, without null."""
    paths = (prefix + attribute for prefix in parts_of_kind(device, kind))
    values = (home.read_value(device.did, path) for path in paths if path in device.spec.attribute_index)
    return [value for value in values if value is not None]


def is_comparison_met(home: Home, device: Device, kind: str, comparison: AttributeComparison) -> bool:
    """Whether the comparison holds for a component of this kind."""
    return any(is_met_by_value(value, comparison) for value in attribute_values_of(home, device, kind, comparison.attribute))


def is_met_by_value(value: Any, comparison: AttributeComparison) -> bool:
    """Whether a comparison holds for a value. A state is compared by what it says, however it is spelled."""
    if comparison.attribute == STATE and comparison.operator == "==":
        return value_means_word(value, comparison.value)
    return OPERATORS[comparison.operator](value, comparison.value)


def denoted_devices(target: Target, home: Home) -> tuple[Device, ...]:
    """The devices that the target's words denote, in the home's order."""
    if target.kind is None:
        return target.devices
    matching = [device for device in devices_of_kind(home, target.kind) if is_room_in_place(target, device.room, home)]
    if target.where is not None:
        matching = [device for device in matching if is_comparison_met(home, device, target.kind, target.where)]
    if (rank := target.rank) is None:
        return tuple(matching)
    values = {d.did: max(attribute_values_of(home, d, target.kind, rank.attribute), default=None) for d in matching}
    ranked = sorted((value for value in values.values() if value is not None), reverse=rank.highest)
    if len(ranked) <= rank.count or ranked[rank.count - 1] == ranked[rank.count]:
        return ()
    return tuple(device for device in matching if values[device.did] in ranked[: rank.count])


def is_room_in_place(target: Target, room: Room, home: Home) -> bool:
    """Whether the target's place includes this room."""
    if room in target.excluding or (target.rooms and room not in target.rooms):
        return False
    if target.floor is not None and room.floor != target.floor:
        return False
    if target.rooms_where is None:
        return True
    kind, comparison = target.rooms_where
    here = [device for device in devices_of_kind(home, kind) if device.room == room]
    return any(is_comparison_met(home, device, kind, comparison) for device in here) != target.elsewhere


def has_lookalikes(home: Home, target: Target) -> bool:
    """Whether the place has devices of another kind that some people would count as the kind."""
    near = [one for one in home.plan.devices if one.spec.category in NEAR.get(target.kind or "", ())]
    others = (device for device in near if not parts_of_kind(device, target.required_kind))
    return any(is_room_in_place(target, one.room, home) for one in others)


def is_only_of_kind(device: Device, home: Home) -> bool:
    """Whether a device is the only one of its kind in its room, and nothing there could be taken for one."""
    there = Target((), device.spec.category, rooms=(device.room,))
    return device.room.id != HOME and denoted_devices(there, home) == (device,) and not has_lookalikes(home, there)


def floors_of(home: Home) -> list[int]:
    """The home's floors, from the lowest up."""
    return sorted({room.floor for room in home.plan.rooms})
