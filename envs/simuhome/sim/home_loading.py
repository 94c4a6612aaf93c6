"""Making a home from its configuration, and adding or removing devices while it runs.

Invariants:
- Loading triggers no command and checks no attribute values, except those of washers. The released program does the
  same.
- The home that `start_home` returns has done pass 0. Every home that an agent sees has done it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.simuhome.sim import air
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.device_catalogue import DeviceType, device_types, enum_member
from homerl.envs.simuhome.sim.episode_file import TICK_INTERVALS, TIME_FORMAT, VARIABLES, HomeConfig, RoomConfig
from homerl.envs.simuhome.sim.home import HomePlan, MatterDevice, MatterHome, MatterRoom, OperationError, refuse_unless
from homerl.envs.simuhome.sim.service import require_device


def start_home(config: HomeConfig | Mapping[str, Any], strict: bool = True) -> MatterHome:
    """The home of a configuration, at tick 0. Raises `InputError` if the configuration cannot be used."""
    home = build_home(config, strict)
    passage.advance_home(home, 0)
    return home


def build_home(config: HomeConfig | Mapping[str, Any], strict: bool = True) -> MatterHome:
    """The home of a configuration before its first pass. Raises `InputError` if the configuration cannot be used."""
    try:
        config = config if isinstance(config, HomeConfig) else HomeConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"not a home: {first['msg']}", where, "see docs/simuhome.md for the format") from None
    rooms: dict[str, MatterRoom] = {}
    devices: dict[str, MatterDevice] = {}
    values: list[Any] = []
    for name, given in config.rooms.items():
        rooms[name], own = _load_room(name, len(values), given, strict)
        values += own
        for one in given.devices:
            if one.device_id in devices:
                raise InputError(f"the device id '{one.device_id}' is given twice", remedy="device ids are unique in a home")
            kind = device_types().get(one.device_type)
            if kind is None:
                raise InputError(f"device {one.device_id}: the type '{one.device_type}' is unknown")
            devices[one.device_id], own = _load_device(one.device_id, kind, name, len(values), one.attributes, strict)
            values += own
    base_time = datetime.strptime(config.base_time, TIME_FORMAT)
    plan = HomePlan(strict, base_time, rooms, devices, config.enable_aggregators, config.max_ticks)
    return MatterHome(plan, values, config.tick_interval)


def _load_room(name: str, base: int, given: RoomConfig, strict: bool) -> tuple[MatterRoom, list[Any]]:
    """A room that starts at slot `base`, with the baseline of its variables, and its initial values.

    In strict mode the loaded values are the baseline. Lights that are on then count twice from the first pass: once in
    the baseline and once by their effect. Mended mode subtracts their light and takes a `baseline` from the
    configuration.
    """
    baseline = loaded = list(given.variable_values())
    if not strict:
        light = 0.0  # of the devices as they are loaded, in lux
        for device in given.devices:
            if (kind := device.device_type) in air.WATCHED["illuminance"]:
                attributes = {**device_types()[kind].initial, **device.attributes}
                pieces = air.device_effect(kind, tuple(attributes[key] for key in air.SIGNATURE[kind]), 0.0, 0.1)
                light += sum(piece.base for piece in pieces)
        unlit = dict(zip(VARIABLES, loaded))
        unlit["illuminance"] = max(0.0, unlit["illuminance"] - light)
        baseline = [given.baseline.get(variable, value) for variable, value in unlit.items()]
    return MatterRoom(name, base, tuple(baseline)), [*loaded, *[None] * len(VARIABLES)]


def _load_device(
    device_id: str, kind: DeviceType, room: str, base: int, attributes: Mapping[str, Any], strict: bool
) -> tuple[MatterDevice, list[Any]]:
    """A device that starts at slot `base`, and its initial values."""
    if kind.rows:
        _check_washer(device_id, attributes)
    values, offsets = list(kind.initial.values()), kind.slot_offsets
    for key, value in attributes.items():
        place, cluster, attribute = (*key.split("."), "", "")[:3]
        clusters = kind.endpoints.get(int(place), {}) if place.isdigit() and key.count(".") == 2 else {}
        if cluster not in clusters or attribute.startswith("#"):
            wrong = f"device {device_id}: a {kind.name} cannot have the attribute '{key}'"
            raise InputError(wrong, remedy="keys are endpoint.Cluster.Attribute")
        if not strict and attribute in clusters[cluster].enums:
            value = enum_member(clusters[cluster].enums[attribute], value)
        if key in offsets:
            values[offsets[key]] = value
        else:
            offsets = {**offsets, key: len(values)}
            values.append(value)
    return MatterDevice(device_id, kind, room, base, offsets), values


def _check_washer(device_id: str, attributes: Mapping[str, Any]) -> None:
    """Check the attributes that the released program checks when it loads a washer. It checks no other device."""
    for key in ("1.OperationalState.OperationalState", "1.LaundryWasherMode.CurrentMode"):
        if type(attributes.get(key, 0)) is not int:
            raise InputError(f"device {device_id}: {key} is not an integer")
    modes = attributes.get("1.LaundryWasherMode.SupportedModes")
    if "1.LaundryWasherMode.SupportedModes" not in attributes:
        return
    if not (isinstance(modes, list) and modes and all(map(_is_mode, modes))):
        raise InputError(f"device {device_id}: SupportedModes is not a list of modes, each with a number and tags")


def _is_mode(entry: Any) -> bool:
    if not isinstance(entry, dict) or type(entry.get("mode")) is not int:
        return False
    tags, label = entry.get("ModeTags"), entry.get("label")
    return isinstance(tags, list) and all(type(tag) is int for tag in tags) and (label is None or isinstance(label, str))


# While a home runs


def add_device(home: MatterHome, room_id: Any, device_type: Any, device_id: Any) -> dict[str, Any]:
    """Add a device, and its room if there is none of that id. Raises `OperationError` for a wrong type or a known id."""
    refuse_unless(
        all(isinstance(text, str) for text in (room_id, device_type, device_id)), "SCHEMA_ERROR", "names are texts"
    )
    kind = device_types().get(device_type)
    if kind is None:
        raise OperationError("VALIDATION_ERROR", f"the type {device_type!r} is unknown")
    refuse_unless(device_id not in home.plan.devices, "DEVICE_ALREADY_EXISTS", f"there is a device {device_id!r}")
    rooms, base, values = dict(home.plan.rooms), len(home.values), list[Any]()
    if room_id not in rooms:
        rooms[room_id], values = _load_room(room_id, base, RoomConfig(), home.plan.strict)
    device, own = _load_device(device_id, kind, room_id, base + len(values), {}, home.plan.strict)
    plan = replace(home.plan, rooms=rooms, devices={**home.plan.devices, device_id: device})
    home.extend_plan(plan, [*values, *own])
    return {"room_id": room_id, "device_id": device_id}


def remove_device(home: MatterHome, device_id: Any) -> dict[str, Any]:
    """Take a device out of the home. Raises `OperationError` if there is none of that id."""
    device = require_device(home, device_id)
    air.forget_device(home, device)
    home.take_out_device(device)
    return {"device_id": device_id}


_NUMBER = TypeAdapter(float)  # made once, since making one is slow


def set_tick_interval(home: MatterHome, tick_interval: Any) -> dict[str, Any]:
    """Change the length of a pass, in virtual seconds. Raises `OperationError` unless it is in `TICK_INTERVALS`.

    Virtual time does not jump, and running countdowns keep the fraction of a second that they have counted.
    """
    try:
        new = _NUMBER.validate_python(tick_interval)  # as the service's schema reads it: "1.0" and true are 1.0
    except ValidationError:
        new = 0.0
    low, high = TICK_INTERVALS.values()
    refuse_unless(low <= new <= high, "SCHEMA_ERROR", f"tick_interval is a number in {low}..{high}")
    seconds, old = home.elapsed_seconds, home.interval
    if new != old:
        air.renew_effect_rates(home)
    home.interval, home.offset = new, seconds - home.tick * new if new != old else home.offset
    counts = {"device_count": len(home.plan.devices), "aggregator_count": len(VARIABLES) * len(home.plan.rooms)}
    return {"tick_interval": new} | counts
