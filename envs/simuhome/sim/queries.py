"""The answers of the agent's reading tools. No function here changes a home.

Invariant: enumeration members are shown as numbers. Only a device's structure shows their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.simuhome.sim.config import TIME_FORMAT
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.sim.results import OperationError, refuse_unless
from homerl.envs.simuhome.sim.service import read_endpoint, require_device
from homerl.envs.simuhome.sim.spec import CATALOGUE, Struct

AIR_QUALITY = {"pm10": "air_quality"}  # the name of PM10 in the catalogue's control rules


def list_rooms(home: MatterHome) -> dict[str, Any]:
    """The rooms by id, with the names to show."""
    return {"rooms": [{"room_id": name, "display_name": name.replace("_", " ").title()} for name in sorted(home.plan.rooms)]}


def _known_room(home: MatterHome, room_id: Any) -> str:
    if not isinstance(room_id, str) or room_id not in home.plan.rooms:
        raise OperationError("ROOM_NOT_FOUND", f"there is no room {room_id!r}")
    return room_id


def room_devices(home: MatterHome, room_id: Any) -> dict[str, Any]:
    """The devices of a room by id, with their types. Raises `OperationError` for an unknown room."""
    return {device.id: {"device_type": device.type.name} for device in home.plan.devices_by_room[_known_room(home, room_id)]}


def room_states(home: MatterHome, room_id: Any) -> dict[str, float]:
    """A room's variables by name, as in `Home.room_state`. Raises `OperationError` for an unknown room."""
    return home.room_state(_known_room(home, room_id))


def home_state(home: MatterHome) -> dict[str, Any]:
    """The whole home: clock, rooms, and all attributes of all devices."""
    return {
        "tick_interval": home.interval,
        "current_tick": home.tick,
        "current_time": home.clock_text,
        "base_time": home.plan.base_time.strftime(TIME_FORMAT),
        "rooms": {name: _room_with_devices(home, name) for name in home.plan.rooms},
    }


def _room_with_devices(home: MatterHome, name: str) -> dict[str, Any]:
    devices = [
        {"device_id": device.id, "device_type": device.type.name, "attributes": home.shown_attributes(device)}
        for device in home.plan.devices_by_room[name]
    ]
    return {"state": home.room_state(name)} | ({"devices": devices} if devices else {})


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
        return _phase_name(home.cluster_view(device_id, cluster_id)["PhaseList"], value)
    return value


def _phase_name(phases: Any, index: Any) -> Any:
    return phases[index] if phases and isinstance(index, int) and 0 <= index < len(phases) else index


def device_structure(home: MatterHome, device_id: Any) -> dict[str, Any]:
    """A device's endpoints, clusters, typed attributes and commands. Raises `OperationError` for an unknown device."""
    device = require_device(home, device_id)
    endpoints: dict[str, dict[str, Any]] = {}
    for endpoint, clusters in device.type.endpoints.items():
        endpoints[str(endpoint)] = {"clusters": {}}
        for name, cluster in clusters.items():
            prefix, attributes = f"{endpoint}.{name}.", {}
            for key, slot in device.shown_slots():
                if key.startswith(prefix):
                    read_only = device.type.is_read_only(endpoint, cluster, key[len(prefix) :])
                    attributes[key[len(prefix) :]] = _typed(home.values[slot]) | {"readonly": read_only}
            part = {"cluster_id": name, "attributes": attributes, "commands": list(cluster.commands)}
            endpoints[str(endpoint)]["clusters"][name] = part
    return {"device_id": device.id, "device_type": device.type.name, "endpoints": endpoints}


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, IntEnum):
        members = type(value)
        return {
            "value": value.name,
            "type": "enum",
            "enum_name": members.__name__,
            "enum_values": {one.name: int(one) for one in members},
        }
    kind = value.kind if isinstance(value, Struct) else type(value).__name__
    return {"value": _named(value), "type": kind}


def _named(value: Any) -> Any:
    """A value with every enumeration member in it replaced by its name."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, Mapping):
        return {key: _named(part) for key, part in value.items()}
    return [_named(part) for part in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[dict[str, Any]]]:
    rules: dict[str, list[dict[str, Any]]] = read_yaml(CATALOGUE / "rules.yaml").data
    return rules


def control_rules(home: MatterHome, state: Any) -> dict[str, Any]:
    """Which devices move a room variable, and how. Raises `OperationError` for an unknown variable.

    In strict mode PM10 is known only by the name `air_quality`.
    """
    other_names = {} if home.plan.strict else AIR_QUALITY
    rules = _rules().get(other_names.get(state, state)) if isinstance(state, str) else None
    if rules is None:
        raise OperationError("VALIDATION_ERROR", f"state is one of {', '.join(_rules())}")
    return {"state": state, "control_rules": json.dumps(rules)}
