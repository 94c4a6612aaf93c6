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
from homerl.envs.simuhome.sim.home import HomePlan, MatterDevice, MatterHome, MatterRoom
from homerl.envs.simuhome.sim.operation_results import OperationError, refuse_unless
from homerl.envs.simuhome.sim.service import require_device

ILLUMINANCE_INDEX = tuple(VARIABLES).index("illuminance")


def start_home(config: HomeConfig | Mapping[str, Any], strict: bool = True) -> MatterHome:
    """The home of a configuration, at tick 0. Raises `InputError` if the configuration cannot be used."""
    home = build_home(config, strict)
    passage.advance_home(home, 0)
    return home


def build_home(config: HomeConfig | Mapping[str, Any], strict: bool = True) -> MatterHome:
    """The home of a configuration before its first pass. Raises `InputError` if the configuration cannot be used."""
    config = config if isinstance(config, HomeConfig) else _validated(config)
    rooms: dict[str, MatterRoom] = {}
    devices: dict[str, MatterDevice] = {}
    values: list[Any] = []
    for name, given in config.rooms.items():
        rooms[name] = _room(name, len(values), given, strict)
        values += [*given.variable_values(), *[None] * len(VARIABLES)]
        for one in given.devices:
            if one.device_id in devices:
                raise InputError(f"the device id '{one.device_id}' is given twice", remedy="device ids are unique in a home")
            kind = device_types().get(one.device_type)
            if kind is None:
                raise InputError(f"device {one.device_id}: the type '{one.device_type}' is unknown")
            devices[one.device_id], own = _device(one.device_id, kind, name, len(values), one.attributes, strict)
            values += own
    base_time = datetime.strptime(config.base_time, TIME_FORMAT)
    plan = HomePlan(strict, base_time, rooms, devices, config.enable_aggregators, config.max_ticks)
    return MatterHome(plan, values, config.tick_interval)


def _validated(config: Mapping[str, Any]) -> HomeConfig:
    try:
        return HomeConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"not a home: {first['msg']}", where, "see docs/simuhome.md for the format") from None


def _room(name: str, base: int, given: RoomConfig, strict: bool) -> MatterRoom:
    """A room with the baseline of its variables.

    In strict mode the loaded values are the baseline. Lights that are on then count twice from the first pass: once in
    the baseline and once by their effect. Mended mode subtracts their light and takes a `baseline` from the
    configuration.
    """
    loaded = list(given.variable_values())
    if not strict:
        loaded[ILLUMINANCE_INDEX] = max(
            0.0, loaded[ILLUMINANCE_INDEX] - sum(_initial_light(one.device_type, one.attributes) for one in given.devices)
        )
        loaded = [given.baseline.get(variable, value) for variable, value in zip(VARIABLES, loaded)]
    return MatterRoom(name, base, tuple(loaded))


def _initial_light(kind: str, attributes: Mapping[str, Any]) -> float:
    """The light of a device as it is loaded, in lux."""
    if kind not in air.WATCHED["illuminance"]:
        return 0.0
    state = {**device_types()[kind].initial, **attributes}
    pieces = air.device_effect(kind, tuple(state[key] for key in air.SIGNATURE[kind]), 0.0, 0.1)
    return sum(piece.base for piece in pieces)


def _device(
    device_id: str, kind: DeviceType, room: str, base: int, attributes: Mapping[str, Any], strict: bool
) -> tuple[MatterDevice, list[Any]]:
    """A device that starts at slot `base`, and its initial values."""
    if kind.rows:
        _check_washer(device_id, attributes)
    values, offsets = list(kind.initial.values()), kind.slot_offsets
    for key, value in attributes.items():
        endpoint, cluster = _parse_key(device_id, kind, key)
        attribute = key.rsplit(".", 1)[1]
        if not strict and attribute in kind.endpoints[endpoint][cluster].enums:
            value = enum_member(kind.endpoints[endpoint][cluster].enums[attribute], value)
        if key in offsets:
            values[offsets[key]] = value
        else:
            offsets = {**offsets, key: len(values)}
            values.append(value)
    return MatterDevice(device_id, kind, room, base, offsets), values


def _parse_key(device_id: str, kind: DeviceType, key: str) -> tuple[int, str]:
    """Endpoint and cluster of a flat key. Raises `InputError` if the device type has no such place."""
    parts = key.split(".")
    endpoint = int(parts[0]) if len(parts) == 3 and parts[0].isdigit() else None
    if endpoint is None or parts[1] not in kind.endpoints.get(endpoint, ()) or parts[2].startswith("#"):
        raise InputError(
            f"device {device_id}: a {kind.name} cannot have the attribute '{key}'",
            remedy="keys are endpoint.Cluster.Attribute",
        )
    return endpoint, parts[1]


def _check_washer(device_id: str, attributes: Mapping[str, Any]) -> None:
    """Check the attributes that the released program checks when it loads a washer. It checks no other device."""
    for key in ("1.OperationalState.OperationalState", "1.LaundryWasherMode.CurrentMode"):
        if type(attributes.get(key, 0)) is not int:
            raise InputError(f"device {device_id}: {key} is not an integer")
    modes = attributes.get("1.LaundryWasherMode.SupportedModes")
    if "1.LaundryWasherMode.SupportedModes" in attributes and not (
        isinstance(modes, list) and modes and all(map(_is_mode, modes))
    ):
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
    rooms, values, base = dict(home.plan.rooms), [], len(home.values)
    if room_id not in rooms:
        given = RoomConfig()
        rooms[room_id] = _room(room_id, base, given, home.plan.strict)
        values += [*given.variable_values(), *[None] * len(VARIABLES)]
    device, own = _device(device_id, kind, room_id, base + len(values), {}, home.plan.strict)
    plan = replace(home.plan, rooms=rooms, devices={**home.plan.devices, device_id: device})
    home.extend_plan(plan, [*values, *own])
    return {"room_id": room_id, "device_id": device_id}


def remove_device(home: MatterHome, device_id: Any) -> dict[str, Any]:
    """Take a device out of the home. Raises `OperationError` if there is none of that id."""
    device = require_device(home, device_id)
    air.forget_device(home, device)
    home.take_out_device(device)
    return {"device_id": device_id}


_NUMBER = TypeAdapter(float)


def _read_interval(value: Any) -> float:
    """The length of a pass as the service's schema reads it: "1.0" and true are 1.0. Raises `OperationError`."""
    try:
        interval = _NUMBER.validate_python(value)
    except ValidationError:
        interval = 0.0
    low, high = TICK_INTERVALS.values()
    refuse_unless(low <= interval <= high, "SCHEMA_ERROR", f"tick_interval is a number in {low}..{high}")
    return interval


def set_tick_interval(home: MatterHome, tick_interval: Any) -> dict[str, Any]:
    """Change the length of a pass, in virtual seconds. Raises `OperationError` unless it is in `TICK_INTERVALS`.

    Virtual time does not jump, and running countdowns keep the fraction of a second that they have counted.
    """
    new = _read_interval(tick_interval)
    seconds, old = home.elapsed_seconds, home.interval
    if new != old:
        air.renew_effect_rates(home)
    home.interval, home.offset = new, seconds - home.tick * new if new != old else home.offset
    counts = {"device_count": len(home.plan.devices), "aggregator_count": len(VARIABLES) * len(home.plan.rooms)}
    return {"tick_interval": new} | counts
