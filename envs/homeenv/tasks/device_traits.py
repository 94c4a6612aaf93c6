"""What can be asked about a home: kinds of devices, their traits, and what sensors measure in rooms.

Invariants: the devices that `match_devices` returns are unambiguous. If the result depended on what counts as the kind
(is the light of a ceiling fan a light? are the two halves of a lamp one?), or on a value that is null, it returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import value_means_word

Read = tuple[str, str]  # did, attribute path
ALIKE = {"ceiling_fan": "fan", "range_hood": "fan", "ac_gateway": "air_conditioner", "thermostat": "heater"}


@dataclass(frozen=True)
class Trait:
    """A property that a device or a part may have: a test of its first existing attribute among `attributes`.

    `value` is the bound or option that the sentence names.
    """

    name: str
    attributes: tuple[str, ...]
    test: Callable[[Any], bool]
    value: Any = None  # the bound or option that the sentence names

    def is_met_by(self, value: Any) -> bool:
        """Whether a value has the property. Null has none."""
        return value is not None and self.test(value)

    def attribute_path(self, device: Device, part: str) -> str | None:
        """The dotted path of the tested attribute, or None if the device or part has none of them."""
        paths = (f"{part}.{name}" if part else name for name in self.attributes)
        return next((path for path in paths if path in device.spec.attribute_index), None)


def _state_trait(state: str) -> Trait:
    return Trait(state, ("state",), lambda now: value_means_word(now, state))


ON, OFF, LOCKED, UNLOCKED = map(_state_trait, ("on", "off", "locked", "unlocked"))
OPEN = Trait("open", ("position", "state"), lambda now: value_means_word(now, "open") if isinstance(now, str) else now > 0)
CLOSED = Trait("closed", ("position", "state"), lambda now: value_means_word(now, "closed") or now == 0)
PLAYING = Trait("playing", ("playing", "work_state"), lambda now: now in (True, "playing"))
TRAITS: dict[str, tuple[Trait, ...]] = {
    **dict.fromkeys(
        ("light", "fan", "air_conditioner", "heater", "tv", "plug", "humidifier", "dehumidifier", "air_purifier", "camera"),
        (ON, OFF),
    ),
    "curtain": (OPEN, CLOSED),
    "speaker": (PLAYING,),
    "lock": (LOCKED, UNLOCKED),
}
OPPOSITES = {"on": "off", "off": "on", "open": "closed", "closed": "open", "locked": "unlocked", "unlocked": "locked"}
LEVELS = {  # attributes that people compare, with the bounds that they name
    "light": ("brightness", (20, 30, 50, 70, 80)),
    "air_conditioner": ("target_temperature", (20, 22, 24, 26)),
    "heater": ("target_temperature", (18, 20, 22, 24)),
    "curtain": ("position", (20, 50, 80)),
}
NARROW = {"curtain": ("curtain",), "tv": ("tv",)}  # kinds that include only some subcategories of their category


def above_trait(attribute: str, bound: float) -> Trait:
    """The trait that a numeric attribute is above a bound."""
    return Trait(f"above.{attribute}", (attribute,), lambda now: now > bound, bound)


def device_kind(device: Device, part: str = "") -> str:
    """The short everyday name of a device or of its part."""
    kind = dict(device.spec.part_kinds).get(f"{part}." if part else "", device.spec.category)
    kind = part if part in ("fan", "light") and kind == device.spec.category else kind
    return ALIKE.get(kind, kind)


def members_of_kind(home: Home, kind: str, room: Room | None = None) -> list[tuple[Device, str]]:
    """The (device, part) pairs of this kind."""
    return [
        (device, prefix[:-1])
        for device in home.plan.devices
        if room in (None, device.room)
        for prefix, _ in device.spec.part_kinds
        if device_kind(device, prefix[:-1]) == kind
    ]


@dataclass(frozen=True)
class DeviceMatches:
    """The devices of a kind, in a room or the whole home, that have all traits.

    `reads` are the (did, attribute path) pairs that one must read to know them.
    """

    kind: str
    traits: tuple[Trait, ...]
    room: Room | None
    met: tuple[Device, ...]
    reads: tuple[Read, ...]


def match_devices(home: Home, kind: str, traits: tuple[Trait, ...], room: Room | None = None) -> DeviceMatches | None:
    """The devices of a kind that have all traits.

    None if the result depends on how the kind is understood, or on a value that is null.
    """
    strict = [device for device in home.plan.devices if _is_called(device, kind) and room in (None, device.room)]
    reads: dict[Read, None] = {}
    holding: list[Device] = []
    lacking: set[str] = set()
    for device, part in _possible_parts(home, kind, strict, room):
        paths = [trait.attribute_path(device, part) for trait in traits]
        known = [path for path in paths if path]
        if len(known) == len(paths):
            reads |= {(device.did, path): None for path in known}
            values = [home.read_value(device.did, path) for path in known]
            if None in values and not _known_to_lack(home, device, part, traits, values):
                return None
            holds = all(trait.is_met_by(value) for trait, value in zip(traits, values, strict=True))
            holding += [device] if holds else []
            lacking |= set() if holds else {device.did}
    met = tuple(device for device in strict if device in holding)
    mixed = any(device.did in lacking for device in met)
    return None if mixed or len(holding) != len(met) else DeviceMatches(kind, traits, room, met, tuple(reads))


def _known_to_lack(home: Home, device: Device, part: str, traits: Sequence[Trait], values: Sequence[Any]) -> bool:
    """Whether a part lacks one of the traits whatever the null values may be: by a known value, or because it is off."""
    known = (trait for trait, value in zip(traits, values, strict=True) if value is not None and not trait.is_met_by(value))
    path = OFF.attribute_path(device, part)
    return next(known, None) is not None or (path is not None and OFF.is_met_by(home.read_value(device.did, path)))


def _possible_parts(home: Home, kind: str, strict: list[Device], room: Room | None) -> list[tuple[Device, str]]:
    """The (device, part) pairs that somebody might count as the kind."""
    wide = [device for device in home.find_devices(category=kind) if room in (None, device.room)]
    parts = [(device, prefix[:-1]) for device in dict.fromkeys([*strict, *wide]) for prefix, _ in device.spec.part_kinds]
    return list(dict.fromkeys([*members_of_kind(home, kind, room), *parts]))


def possible_members(home: Home, kind: str) -> list[Device]:
    """Every device of the home that somebody might count as the kind."""
    return list(dict.fromkeys(device for device, _ in _possible_parts(home, kind, [], None)))


def _is_called(device: Device, kind: str) -> bool:
    """Whether people would call the device by this kind."""
    subcategory = device.spec.userdata.subcategory or device.spec.category
    return device.spec.category == kind and (kind not in NARROW or subcategory in NARROW[kind])


def room_thermometers(home: Home, quantity: str = "temperature") -> dict[Room, Read]:
    """For each room with a sensor of its temperature (or humidity), the attribute to read.

    A sensor counts only if it shows the value of the room; null shows nothing.
    """
    reads: dict[Room, Read] = {}
    for device in home.plan.devices:
        for name in (quantity, f"current_{quantity}"):
            _, attribute = device.spec.attribute_index.get(name, (None, None))
            if attribute is not None and attribute.read_only:
                shown = home.read_value(device.did, name)
                if shown is not None and shown == home.read_value(device.room.id, quantity):
                    reads.setdefault(device.room, (device.did, name))
    return reads
