"""Which devices to ask for: scopes, comparisons, ranks and conditions on rooms that a home offers, drawn at random.

Invariants: a proposal selects its devices unambiguously. A comparison or rank that a person could read in two ways is
not proposed: of a lamp that is off but set to bright, for example, or of products that measure differently.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from homerl.envs.homeenv.language.meaning import AttributeComparison, AttributeRank, Target
from homerl.envs.homeenv.language.noun_phrases import (
    attribute_values_of,
    denoted_devices,
    devices_of_kind,
    floors_of,
    is_comparison_met,
    is_met_by_value,
    is_room_in_place,
    parts_of_kind,
)
from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE
from homerl.envs.homeenv.tasks.actions import SPOKEN_TYPES, draw_spoken_value

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

# Categories that only some people would count as the kind.
NEAR = {
    "fan": ("range_hood", "bath_heater"),
    "heater": ("water_heater", "thermostat"),
    "light": ("wall_switch",),
    "speaker": ("smart_screen", "tv"),
    "air_conditioner": ("thermostat",),
}
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


def is_muddled(home: Home, target: Target) -> bool:
    """Whether the place has devices of another kind that some people would count as the kind."""
    near = [one for one in home.plan.devices if one.spec.category in NEAR.get(target.kind or "", ())]
    others = (device for device in near if not parts_of_kind(device, target.required_kind))
    return any(is_room_in_place(target, one.room, home) for one in others)


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
