"""Packing of homes in the released format: attributes that have their built-in values are left out.

Invariants: `unpack_home(pack_home(home)) == home`; a device that does not list every attribute of its type stays as it
is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from homerl.envs.simuhome.sim.spec import device_types

Json = dict[str, Any]


def pack_home(config: Mapping[str, Any]) -> Json:
    """A home's configuration, in which complete devices keep only the attributes that differ from their type's."""
    return _each_device(config, _pack)


def unpack_home(config: Mapping[str, Any]) -> Json:
    """The configuration before `pack_home`."""
    return _each_device(config, _unpack)


def _each_device(config: Mapping[str, Any], change: Callable[[Json], Json]) -> Json:
    rooms = {name: {**room, "devices": [change(one) for one in room["devices"]]} for name, room in config["rooms"].items()}
    return {**config, "rooms": rooms}


def _pack(device: Json) -> Json:
    built, given = _built(device["device_type"]), device["attributes"]
    if "rest" in device or built.keys() != given.keys():
        return device
    differing = {key: value for key, value in given.items() if not _same(value, built[key])}
    return {**device, "attributes": differing, "rest": "as built"}


def _unpack(device: Json) -> Json:
    if device.get("rest") != "as built":
        return device
    whole = {key: value for key, value in device.items() if key != "rest"}
    return {**whole, "attributes": {**_built(device["device_type"]), **device["attributes"]}}


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)  # as text, since 1 == 1.0 == True in Python


@lru_cache(maxsize=32)
def _built(kind: str) -> Json:
    """The initial attributes of a device type, as plain JSON values."""
    known = device_types().get(kind)
    initial = {} if known is None else {key: value for key, value in known.initial.items() if ".#" not in key}
    built: Json = json.loads(json.dumps(initial))
    return built
