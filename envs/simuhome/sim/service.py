"""What an agent's call does in a home: the checks before commands and attribute writes, and the answers of reading tools.

Invariants:
- The order of checks is: device, the device's own conditions, endpoint, cluster, command, arguments. The cluster's own
  function comes last.
- A call that fails has changed nothing, and a reading tool changes nothing.
- Enumeration members are shown as numbers. Only a device's structure shows their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from homerl.envs.core.documents import read_yaml
from homerl.envs.simuhome.sim.cluster_registry import store_attribute
from homerl.envs.simuhome.sim.clusters import COMMANDS, WRITES
from homerl.envs.simuhome.sim.device_catalogue import CATALOGUE, REQUIRED, Cluster, Struct, enum_member
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.sim.home import (
    ClusterView,
    MatterDevice,
    MatterHome,
    OperationError,
    UnhandledError,
    is_number,
    refuse_unless,
)

RESERVED = {"self", "endpoint_id", "cluster_id", "command_id"}
HEAT_PUMP_RANGES = {
    ("Thermostat", "OccupiedHeatingSetpoint"): (700, 3000),
    ("Thermostat", "OccupiedCoolingSetpoint"): (1600, 3200),
    ("DeviceEnergyManagement", "AbsMinPower"): (1000000, 8000000),
    ("DeviceEnergyManagement", "AbsMaxPower"): (1000000, 8000000),
}
NO_CURRENT = (0, 3)  # PowerSourceStatusEnum: UNSPECIFIED, UNAVAILABLE
_INTEGER = TypeAdapter(int)


def read_endpoint(value: Any) -> int:
    """An endpoint number as the service's schema reads it: "1" and 1.0 are 1. Raises `OperationError`."""
    if type(value) is int:
        return value
    try:
        return _INTEGER.validate_python(value)
    except ValidationError:
        raise OperationError("SCHEMA_ERROR", f"endpoint_id is an integer, not {value!r}") from None


def coerced_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call after the service's schema has coerced them. Raises `OperationError`."""
    for key in ("cluster_id", "command_id", "attribute_id"):
        if not isinstance(args.get(key, ""), str):
            raise OperationError("SCHEMA_ERROR", f"{key} is a text")
    if not isinstance(args.get("args"), (dict, type(None))):
        raise OperationError("SCHEMA_ERROR", "args is an object")
    return {**args, "endpoint_id": read_endpoint(args["endpoint_id"])}


def require_device(home: MatterHome, device_id: Any) -> MatterDevice:
    """The device with this id. Raises `OperationError` if there is none."""
    if (device := home.find_device(device_id)) is None:
        raise OperationError("DEVICE_NOT_FOUND", f"there is no device {device_id!r}")
    return device


def _step_endpoint(given: Any) -> Any:
    """The endpoint that a workflow's step means: 1.0 and true are 1. Other values stay as they are, and are no endpoint."""
    return int(given) if isinstance(given, (int, float)) and given == int(given) else given


def _check_heat_pump_command(home: MatterHome, device: MatterDevice, cluster: str, command: Any) -> None:
    """Raise `OperationError` for a command that a heat pump does not take now.

    Mended mode refuses all commands of a heat pump without current. Strict mode refuses to move a setpoint while the heat
    pump can adjust its power. The released program checks both. But it recognises neither a status nor a capability that
    was loaded from a file, because these are a plain number and a plain object.
    """
    if cluster not in ("DeviceEnergyManagement", "Thermostat"):
        return
    if not home.plan.strict:
        status = home.cluster_view(device.id, "PowerSource")["Status"]
        refuse_unless(status not in NO_CURRENT, "DEPENDENCY_VIOLATION", f"{device.id} has no current")
    elif (cluster, command) == ("Thermostat", "SetpointRaiseLower"):
        capability = home.cluster_view(device.id, "DeviceEnergyManagement")["PowerAdjustmentCapability"]
        refuse_unless(not isinstance(capability, Struct), "DEPENDENCY_VIOLATION", "the heat pump adjusts its power itself")


def _require_cluster(device: MatterDevice, endpoint: Any, cluster: Any) -> Cluster:
    if type(endpoint) is not int or endpoint not in device.type.endpoints:
        raise OperationError("ENDPOINT_NOT_FOUND", f"{device.id} has no endpoint {endpoint!r}")
    spec = device.type.endpoints[endpoint].get(cluster)
    if spec is None:
        raise OperationError("CLUSTER_NOT_FOUND", f"endpoint {endpoint} of {device.id} has no cluster {cluster!r}")
    return spec


def _is_on(home: MatterHome, device: MatterDevice) -> bool:
    return ClusterView(home, device, 1, "OnOff")["OnOff"] is True


def execute_command(home: MatterHome, device_id: Any, endpoint_id: Any, cluster_id: Any, command_id: Any, args: Any) -> Any:
    """Run a command and return its data. Raises `OperationError`, and then nothing has changed.

    A Python error from unsuitable values becomes the error of the released program.
    """
    device = require_device(home, device_id)
    if type(endpoint_id) is not int:
        endpoint_id = _step_endpoint(endpoint_id)
    if args:
        refuse_unless(isinstance(args, dict), "COMMAND_INVALID_ARGS", "args is an object")
        if reserved := RESERVED & args.keys():
            raise UnhandledError(f"an argument has a reserved name: {sorted(reserved)}")
    if not isinstance(cluster_id, str):
        raise OperationError("CLUSTER_NOT_FOUND")
    if device.type.name == "heat_pump":
        _check_heat_pump_command(home, device, cluster_id, command_id)
    try:
        parameters = device.type.at_any_time.get((endpoint_id, cluster_id, command_id))
    except TypeError:  # a list cannot be looked up
        parameters = None
    if parameters is None:
        endpoint_id, parameters = _find_command(home, device, endpoint_id, cluster_id, command_id)
    arguments = _bind_arguments(cluster_id, command_id, parameters, args or {}) if args or parameters else parameters
    view = ClusterView(home, device, endpoint_id, cluster_id)
    try:
        return home.run_or_undo(COMMANDS[cluster_id, command_id], view, **arguments)
    except TypeError as error:
        wrong = f"Invalid arguments for command '{command_id}' in cluster '{cluster_id}'"
        raise OperationError("COMMAND_INVALID_ARGS", f"{wrong}: {error}", wrong) from None
    except (ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise OperationError("INTERNAL_ERROR", str(error)) from None


def _find_command(
    home: MatterHome, device: MatterDevice, endpoint: Any, cluster_id: str, command: Any
) -> tuple[int, Mapping[str, Any]]:
    """The endpoint at which a command runs, and its parameters. Raises `OperationError` if the device does not take it."""
    if device.type.power.covers_command(endpoint, cluster_id, command):
        refuse_unless(_is_on(home, device), "DEPENDENCY_VIOLATION", f"{device.id} is off")
        endpoint = endpoint if device.type.power.at else 1
    cluster = _require_cluster(device, endpoint, cluster_id)
    if not isinstance(command, str) or command not in cluster.commands:
        unknown = f"Command '{command}' not found in cluster '{cluster_id}'"
        raise OperationError("COMMAND_NOT_FOUND", unknown, unknown)
    return endpoint, cluster.commands[command]


def _bind_arguments(cluster: str, command: str, parameters: Mapping[str, Any], args: dict[str, Any]) -> Mapping[str, Any]:
    """The command's arguments with their defaults. Raises `OperationError` for unknown or missing ones."""
    bound = {**parameters, **args} if args else parameters
    if len(bound) == len(parameters) and REQUIRED not in bound.values():
        return bound
    wrong = f"Invalid arguments for command '{command}' in cluster '{cluster}'"
    foreign = sorted(str(key) for key in args if key not in parameters)
    missing = sorted(key for key, default in parameters.items() if default == REQUIRED and key not in args)
    refuse_unless(not foreign, "COMMAND_INVALID_ARGS", f"{wrong}: unknown {', '.join(foreign)}", wrong)
    refuse_unless(not missing, "COMMAND_INVALID_ARGS", f"{wrong}: missing {', '.join(missing)}", wrong)
    return bound


def write_attribute(
    home: MatterHome, device_id: Any, endpoint_id: Any, cluster_id: Any, attribute_id: Any, value: Any
) -> Any:
    """Write an attribute and return the data of the result. Raises `OperationError`, and then nothing has changed."""
    device, endpoint_id = require_device(home, device_id), _step_endpoint(endpoint_id)
    refuse_unless(isinstance(cluster_id, str), "CLUSTER_NOT_FOUND")
    refuse_unless(isinstance(attribute_id, str), "ATTRIBUTE_NOT_FOUND")
    if device.type.guarded:  # read-only attributes and power are checked before the cluster is looked up
        spec = device.type.endpoints.get(endpoint_id, {}).get(cluster_id) if type(endpoint_id) is int else None
        if spec and device.type.is_read_only(endpoint_id, spec, attribute_id):
            raise OperationError("READ_ONLY", label=f"{attribute_id} attribute is read-only")
        power = device.type.power
        if attribute_id in power.writes.get(cluster_id, ()) and power.writes_at in (None, endpoint_id):
            refuse_unless(_is_on(home, device), "DEPENDENCY_VIOLATION", f"{device.id} is off")
    if device.type.name == "heat_pump":
        _check_heat_pump_write(cluster_id, attribute_id, value)
    cluster = _require_cluster(device, endpoint_id, cluster_id)
    view = ClusterView(home, device, endpoint_id, cluster_id)
    try:
        return home.run_or_undo(_write_checked, view, cluster, attribute_id, value)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise OperationError("INTERNAL_ERROR", str(error)) from None


def _check_heat_pump_write(cluster: Any, attribute: Any, value: Any) -> None:
    if (cluster, attribute) == ("Thermostat", "SystemMode"):
        known = is_number(value) and value in (0, 1, 3, 4)
        refuse_unless(known, "VALIDATION_ERROR", "SystemMode is one of 0, 1, 3, 4")
    if bounds := HEAT_PUMP_RANGES.get((cluster, attribute)):
        refuse_unless(isinstance(value, (int, float)), "INTERNAL_ERROR", f"{attribute} takes a number")
        refuse_unless(bounds[0] <= value <= bounds[1], "VALIDATION_ERROR", f"{attribute} is not in {bounds[0]}..{bounds[1]}")


def _write_checked(view: ClusterView, cluster: Cluster, attribute: Any, value: Any) -> Any:
    """Write by the cluster's own function if it has one, or else store the value unless the attribute is read-only."""
    own = WRITES.get((cluster.name, attribute))
    if own and (attribute in view or attribute not in cluster.attributes):
        return own(view, attribute, value)
    refuse_unless(attribute in view, "ATTRIBUTE_NOT_FOUND", f"{cluster.name} has no attribute {attribute!r}")
    read_only = view.device.type.is_read_only(view.endpoint, cluster, attribute)
    refuse_unless(not read_only, "READ_ONLY", label=f"Attribute '{attribute}' is read-only")
    if not view.is_strict and attribute in cluster.enums:
        value = enum_member(cluster.enums[attribute], value)
    return store_attribute(view, attribute, value)


def list_rooms(home: MatterHome) -> dict[str, Any]:
    """The rooms by id, with the names to show."""
    return {"rooms": [{"room_id": name, "display_name": name.replace("_", " ").title()} for name in sorted(home.plan.rooms)]}


def _require_room(home: MatterHome, room_id: Any) -> str:
    if not isinstance(room_id, str) or room_id not in home.plan.rooms:
        raise OperationError("ROOM_NOT_FOUND", f"there is no room {room_id!r}")
    return room_id


def room_devices(home: MatterHome, room_id: Any) -> dict[str, Any]:
    """The devices of a room by id, with their types. Raises `OperationError` for an unknown room."""
    return {
        device.id: {"device_type": device.type.name} for device in home.plan.devices_by_room[_require_room(home, room_id)]
    }


def room_states(home: MatterHome, room_id: Any) -> dict[str, float]:
    """A room's variables by name, as in `MatterHome.room_state`. Raises `OperationError` for an unknown room."""
    return home.room_state(_require_room(home, room_id))


def home_state(home: MatterHome) -> dict[str, Any]:
    """The whole home: clock, rooms, and all attributes of all devices."""
    rooms: dict[str, dict[str, Any]] = {name: {"state": home.room_state(name)} for name in home.plan.rooms}
    for device in home.plan.devices.values():
        shown = {"device_id": device.id, "device_type": device.type.name, "attributes": home.shown_attributes(device)}
        rooms[device.room].setdefault("devices", []).append(shown)
    return {
        "tick_interval": home.interval,
        "current_tick": home.tick,
        "current_time": home.clock_text,
        "base_time": home.plan.base_time.strftime(TIME_FORMAT),
        "rooms": rooms,
    }


def all_attributes(home: MatterHome, device_id: Any) -> dict[str, Any]:
    """All attributes of a device, by flat key. Raises `OperationError` for an unknown device."""
    return home.shown_attributes(require_device(home, device_id))


def read_attribute(home: MatterHome, device_id: Any, endpoint_id: Any, cluster_id: Any, attribute_id: Any) -> Any:
    """The value of one attribute. If it does not exist, strict mode gives None and mended mode raises `OperationError`."""
    device = require_device(home, device_id)
    key = f"{read_endpoint(str(endpoint_id))}.{cluster_id}.{attribute_id}"
    if key not in device.offsets or ".#" in key:
        refuse_unless(home.plan.strict, "ATTRIBUTE_NOT_FOUND", f"{device_id} has no attribute {key}")
        return None
    value = home.values[device.base + device.offsets[key]]
    if home.plan.strict and (cluster_id, attribute_id) == ("OperationalState", "CurrentPhase"):
        phases = home.cluster_view(device_id, cluster_id)["PhaseList"]
        return phases[value] if phases and isinstance(value, int) and 0 <= value < len(phases) else value
    return value


def device_structure(home: MatterHome, device_id: Any) -> dict[str, Any]:
    """A device's endpoints, clusters, typed attributes and commands. Raises `OperationError` for an unknown device."""
    device = require_device(home, device_id)
    endpoints: dict[str, dict[str, Any]] = {str(endpoint): {"clusters": {}} for endpoint in device.type.endpoints}
    for endpoint, cluster in device.type.cluster_places:
        prefix, attributes = f"{endpoint}.{cluster.name}.", {}
        for key, slot in device.shown_slots():
            if key.startswith(prefix):
                name, value = key.removeprefix(prefix), home.values[slot]
                kind = value.kind if isinstance(value, Struct) else type(value).__name__
                typed = {"value": _with_enum_names(value), "type": "enum" if isinstance(value, IntEnum) else kind}
                if isinstance(value, IntEnum):
                    typed |= {"enum_name": kind, "enum_values": {member.name: int(member) for member in type(value)}}
                attributes[name] = typed | {"readonly": device.type.is_read_only(endpoint, cluster, name)}
        part = {"cluster_id": cluster.name, "attributes": attributes, "commands": list(cluster.commands)}
        endpoints[str(endpoint)]["clusters"][cluster.name] = part
    return {"device_id": device.id, "device_type": device.type.name, "endpoints": endpoints}


def _with_enum_names(value: Any) -> Any:
    """A value with every enumeration member in it replaced by its name."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, Mapping):
        return {key: _with_enum_names(part) for key, part in value.items()}
    return [_with_enum_names(part) for part in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=1)
def _rules_by_variable() -> dict[str, list[dict[str, Any]]]:
    rules: dict[str, list[dict[str, Any]]] = read_yaml(CATALOGUE / "rules.yaml").data
    return rules


def control_rules(home: MatterHome, state: Any) -> dict[str, Any]:
    """Which devices move a room variable, and how. Raises `OperationError` for an unknown variable.

    In strict mode PM10 is known only by the name `air_quality`.
    """
    name = "air_quality" if state == "pm10" and not home.plan.strict else state
    rules = _rules_by_variable().get(name) if isinstance(name, str) else None
    if rules is None:
        raise OperationError("VALIDATION_ERROR", f"state is one of {', '.join(_rules_by_variable())}")
    return {"state": state, "control_rules": json.dumps(rules)}
