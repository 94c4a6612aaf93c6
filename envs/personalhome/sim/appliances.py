"""The appliances and sensors of PersonalHome: the products of `catalogue/` (PersonalHomeBench Table 16).

An appliance's kind is its `userdata.category`, by the name that the paper prints (`air-purifier`). Each kind has one
product.

Invariants: every kind has a method, every sensor has none; the rooms where a kind may stand are those of its product.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from homerl.envs.homeenv.sim.devices.rooms import HOME, RoomType
from homerl.envs.homeenv.sim.devices.spec import Catalogue, DeviceSpec

FOLDER = Path(__file__).resolve().parent / "catalogue"
SENSOR = "sensor"  # the tag of products that only measure


@lru_cache(maxsize=1)
def load_appliance_catalogue() -> Mapping[str, DeviceSpec]:
    """All products by spid. Raises `InputError` if a device file is wrong."""
    return Catalogue.load_folders(FOLDER)


@lru_cache(maxsize=1)
def appliance_kinds() -> Mapping[str, DeviceSpec]:
    """The appliances by kind, in the order of the spids: the paper's 31 kinds, then ours."""
    return {spec.category: spec for _, spec in sorted(load_appliance_catalogue().items()) if not is_sensor(spec)}


@lru_cache(maxsize=1)
def sensor_kinds() -> Mapping[str, DeviceSpec]:
    """The sensors by kind, in the order of the spids."""
    return {spec.category: spec for _, spec in sorted(load_appliance_catalogue().items()) if is_sensor(spec)}


def is_sensor(spec: DeviceSpec) -> bool:
    """Whether a product only measures."""
    return SENSOR in spec.userdata.tags


def rooms_for_kind(kind: str) -> tuple[RoomType, ...]:
    """The types of rooms where an appliance or a sensor of a kind may stand. Raises `KeyError` for an unknown kind."""
    spec = appliance_kinds().get(kind) or sensor_kinds()[kind]
    return tuple(room for room in spec.userdata.rooms if room != HOME)
