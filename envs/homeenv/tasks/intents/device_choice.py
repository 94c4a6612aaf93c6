"""Which devices to ask about, and which to ask for.

People ask about kinds of devices, their traits, and what sensors measure in rooms. They ask for devices by scopes,
comparisons, ranks and conditions on rooms that a home offers, which are drawn at random.

Invariants:
- The devices that `match_devices` returns are unambiguous. If the result depended on what counts as the kind (is the light
  of a ceiling fan a light? are the two halves of a lamp one?), or on a value that is null, it returns None.
- A proposal selects its devices unambiguously. A comparison or rank that a person could read in two ways is not proposed: of
  a lamp that is off but set to bright, for example, or of products that measure differently.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.homeenv.language.meaning import (
    AttributeComparison,
    AttributeRank,
    Target,
    attribute_values_of,
    denoted_devices,
    devices_of_kind,
    floors_of,
    is_comparison_met,
    is_met_by_value,
    parts_of_kind,
)
from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, value_means_word
from homerl.envs.homeenv.tasks.actions import SPOKEN_TYPES, draw_spoken_value

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


# Which to ask for


KINDS = (
    "light", "curtain", "air_conditioner", "fan", "ceiling_fan", "heater", "thermostat", "humidifier", "dehumidifier",
    "air_purifier", "speaker", "smart_screen", "tv", "plug", "wall_switch", "lock", "opener", "camera",
)  # fmt: skip
NUMBERS = ("int", "float")
MEASURED = ("current_temperature", "pm25")  # measured attributes by which people rank devices
# What distinguishes rooms: kind, attribute, and its value (None: `room_signs` chooses it).
ROOM_SIGNS: tuple[tuple[str, str, Any], ...] = (
    *((kind, "state", "on") for kind in ("air_conditioner", "heater", "fan", "light", "tv", "humidifier", "air_purifier")),
    ("motion_sensor", "motion", True),
    ("motion_sensor", "motion", False),
    ("motion_sensor", "human_detected", "yes"),
    ("motion_sensor", "human_detected", "no"),
    ("contact_sensor", "contact", "open"),
    ("curtain", "position", 0),
    ("opener", "position", None),
    ("curtain", "position", None),
    ("speaker", "playing", True),
    ("speaker", "work_state", "playing"),
    ("temperature_humidity_sensor", "temperature", None),
    ("temperature_humidity_sensor", "current_temperature", None),
)

TRIVIAL = ("none", "idle", "")  # values by which nobody describes a device
# Attributes by which nobody describes a device.
OBSCURE = ("channel", "hold_time", "tilt", "page", "breathing_light_enabled", "countdown", "angle", "off_delay", "effect",
           "hs_color", "color", "auto_lock_delay", "exit_volume")  # fmt: skip
FLICKER = ("light", "speed")  # the speed of a light effect: nobody calls a light slow
RANKED = ("brightness", "position", "volume", "volume_level", "speed", "target_temperature", "target_humidity",
          "screen_brightness", "color_temperature")  # fmt: skip


def resolve_target(target: Target, home: Home) -> Target:
    """The target with the devices that its description denotes."""
    return replace(target, devices=denoted_devices(target, home))


def draw_scope(home: Home, kind: str, rng: random.Random, floors: bool) -> Target:
    """A random target of all devices of a kind in the home, a floor, one or several rooms, or all but some rooms.

    With `floors`, it may be a floor.
    """
    rooms = list(dict.fromkeys(device.room for device in devices_of_kind(home, kind)))
    few = rng.sample(rooms, min(len(rooms), rng.choice((2, 2, 3))))
    whole = Target((), kind)
    scopes = [whole, *(replace(whole, rooms=(room,)) for room in rng.sample(rooms, min(len(rooms), 2)))]
    if len(few) > 1:
        scopes.append(replace(whole, rooms=tuple(few)))
        if len(alike := tuple(room for room in home.plan.rooms if room.type == few[0].type)) > 1:
            scopes.append(replace(whole, rooms=alike))
    if len(rooms) > 2:
        scopes += [replace(whole, excluding=(few[0],)), replace(whole, excluding=tuple(few[:2]))]
    if floors and len(floors_of(home)) > 1:
        floor = rng.choice(floors_of(home))
        scopes += [replace(whole, floor=floor)] * 2
        scopes += [replace(whole, floor=floor, excluding=(room,)) for room in few[:1] if room.floor == floor]
    return rng.choice(scopes)


def attributes_of_kind(home: Home, devices: Sequence[Device], kind: str) -> dict[str, list[Attribute]]:
    """The attributes of the kind's parts by name, one entry for each part that has the attribute."""
    by_name: dict[str, list[Attribute]] = {}
    for device in devices:
        for prefix in parts_of_kind(device, kind):
            for path, attribute in device.spec.readable_attributes.items():
                own = path.startswith(prefix) and "." not in path.removeprefix(prefix)
                if own and (kind, attribute.name) != FLICKER:
                    by_name.setdefault(attribute.name, []).append(attribute)
    return by_name


def find_comparisons(home: Home, within: Target, rng: random.Random) -> Iterator[AttributeComparison]:
    """Unambiguous comparisons that some devices of a scope meet and others do not."""
    devices = denoted_devices(within, home)
    known = list(attributes_of_kind(home, devices, within.required_kind).items())
    rng.shuffle(known)
    known.sort(key=lambda item: item[0] != "state" or rng.random() < 0.6)  # people mostly describe devices as on or off
    for name, alike in known:
        untold = name in OBSCURE or any(a.read_only or a.type not in SPOKEN_TYPES for a in alike)
        if untold or not _are_commensurable(alike):
            continue
        for comparison in _draw_comparisons(name, alike, rng):
            met = [device for device in devices if is_comparison_met(home, device, within.required_kind, comparison)]
            if 0 < len(met) < len(devices) and is_clear_comparison(home, devices, within.required_kind, comparison):
                yield comparison


def _draw_comparisons(name: str, alike: Sequence[Attribute], rng: random.Random) -> list[AttributeComparison]:
    """Comparisons of one attribute with values that people name, in random order."""
    type = rng.choice(alike)
    if name == STATE and type.state_words:
        told = dict.fromkeys(type.word_of_value(value) for value in type.options or type.state_words.values())
        candidates = [AttributeComparison(name, "==", word, type) for word in told if word not in TRIVIAL]
    elif type.type in NUMBERS and not type.options:
        thresholds = draw_spoken_value(type, rng), draw_spoken_value(type, rng)
        candidates = [AttributeComparison(name, rng.choice((">", "<")), value, type) for value in thresholds]
        if name == "position":
            candidates += [AttributeComparison(name, ">", 0, type), AttributeComparison(name, "==", 0, type)]
    elif type.type == "bool":
        candidates = [AttributeComparison(name, "==", True, type)]
    else:
        candidates = [AttributeComparison(name, "==", value, type) for value in type.options or () if value not in TRIVIAL]
    rng.shuffle(candidates)
    return candidates


def _are_commensurable(alike: Sequence[Attribute]) -> bool:
    """Whether values mean the same for all of them: a speed of 3 is fast for one fan and slow for another."""
    first = alike[0]
    if any(a.unit != first.unit for a in alike):
        return False
    return bool(first.unit) or all(a.type == first.type and a.range == first.range for a in alike)


def is_clear_comparison(home: Home, devices: Sequence[Device], kind: str, comparison: AttributeComparison) -> bool:
    """Whether people would read the comparison in one way.

    The parts of a device must agree, and a device that is off must not meet the comparison by another attribute than
    its state. A part whose attribute is null counts as one without the attribute.
    """
    for device in devices:
        verdicts = set()
        for prefix in parts_of_kind(device, kind):
            state = part_state(home, device, prefix)
            path = prefix + comparison.attribute
            value = home.read_value(device.did, path) if path in device.spec.attribute_index else None
            if value is not None:
                met = is_met_by_value(value, comparison)
                if met and comparison.attribute != STATE and state == "off":
                    return False
                verdicts.add(met)
            elif comparison.type.type in NUMBERS and state not in ("off", None):
                return False
        if len(verdicts) > 1:
            return False
    return True


def part_state(home: Home, device: Device, prefix: str) -> Any:
    """The state of a part in a word such as "on", or None if the part has none."""
    path = prefix + STATE
    if path not in device.spec.attribute_index:
        return None
    return device.spec.attribute_index[path][1].word_of_value(home.read_value(device.did, path))


def rank_targets(home: Home, within: Target, rng: random.Random) -> Iterator[Target]:
    """Targets that are the first few of a scope by a number.

    Some are restricted to the devices that are on.
    """
    devices = denoted_devices(within, home)
    kind = within.required_kind
    known = attributes_of_kind(home, devices, kind)
    for name, alike in rng.sample(list(known.items()), len(known)):
        numeric = name in (*RANKED, *MEASURED) and all(a.type in NUMBERS and not a.options for a in alike)
        if not numeric or not _are_commensurable(alike):
            continue
        # A device without a number must be off, or people might expect it in the ranking. Each other has one number.
        having = [d for d in devices if any(prefix + name in d.spec.attribute_index for prefix in parts_of_kind(d, kind))]
        unranked = [device for device in devices if not attribute_values_of(home, device, kind, name)]
        if len(alike) == len(having) and all(is_kind_off(home, device, kind) for device in unranked):
            for highest in rng.sample((True, False), 2):
                target = _rank_target(home, within, devices, name, highest, rng)
                if target.devices:
                    yield target


def is_kind_off(home: Home, device: Device, kind: str) -> bool:
    """Whether the device has parts of the kind with a state, and all of these are off."""
    states = {part_state(home, device, prefix) for prefix in parts_of_kind(device, kind)}
    return "off" in states and states <= {"off", None}


def _rank_target(
    home: Home, within: Target, devices: Sequence[Device], name: str, highest: bool, rng: random.Random
) -> Target:
    rank = AttributeRank(rng.choice((1, 1, 2, 2, 3)), name, highest)
    plain = resolve_target(replace(within, rank=rank), home)
    off = [device for device in devices if is_kind_off(home, device, within.required_kind)]
    if name in MEASURED or not off:
        return plain
    (state,) = {a.name: a for a in attributes_of_kind(home, off[:1], within.required_kind)["state"]}.values()
    on = resolve_target(replace(plain, where=AttributeComparison("state", "==", "on", state)), home)
    return plain if on.devices == plain.devices and highest and rng.random() < 0.7 else on


def room_signs(home: Home, rng: random.Random) -> Iterator[tuple[str, AttributeComparison]]:
    """Conditions on a kind of device that hold in some rooms and not in others.

    Within a room, all devices of the kind agree, and of each the value is known.
    """
    for kind, name, value in rng.sample(ROOM_SIGNS, len(ROOM_SIGNS)):
        devices = devices_of_kind(home, kind)
        alike = attributes_of_kind(home, devices, kind).get(name, [])
        if not devices or not all(attribute_values_of(home, device, kind, name) for device in devices):
            continue
        if value is not None:
            comparison = AttributeComparison(name, "==", value, alike[0])
        elif name == "position":
            comparison = AttributeComparison(name, ">", 0, alike[0])
        else:
            comparison = AttributeComparison(name, rng.choice((">", "<")), rng.randint(17, 28), alike[0])
        by_room: dict[str, set[bool]] = {}
        for device in devices:
            by_room.setdefault(device.room.id, set()).add(is_comparison_met(home, device, kind, comparison))
        held = [room for room, verdicts in by_room.items() if verdicts == {True}]
        if held and len(held) < len(home.plan.rooms) and all(len(verdicts) == 1 for verdicts in by_room.values()):
            yield kind, comparison
