"""What the arguments of tools name: members, devices and rooms. Unknown names are refused with the known ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.household import Member
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.refusals import HouseholdRefused, unknown_name_refusal

TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 2000}
NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 60}


def find_member(state: HouseholdState, member_id: str) -> Member:
    """A member as the records have it now. Raises `Refused`."""
    for one in state.records.members:
        if one.member_id == member_id:
            return one
    raise unknown_name_refusal("unknown_member", "member", member_id, (one.member_id for one in state.records.members))


def find_appliance(state: HouseholdState, name: str) -> Device:
    """An appliance by name. Raises `Refused`."""
    device = state.home.plan.devices_by_did.get(name)
    if device is None or is_sensor(device.spec):
        raise unknown_name_refusal("unknown_appliance", "appliance", name, tool_device_names(state.appliances))
    return device


def find_sensor(state: HouseholdState, name: str) -> Device:
    """A sensor by name. Raises `Refused`."""
    device = state.home.plan.devices_by_did.get(name)
    if device is None or not is_sensor(device.spec):
        raise unknown_name_refusal("unknown_sensor", "sensor", name, tool_device_names(state.sensors))
    return device


def tool_device_names(devices: Iterable[Device]) -> Iterator[str]:
    """The names by which tools know devices."""
    return (device.did for device in devices)


def find_room_ids(state: HouseholdState, locations: Sequence[str]) -> set[str]:
    """The ids of the rooms that are called so, by name or id, in any case. Raises `Refused` if there is none."""
    return {room.id for location in locations for room in _called(state, location)}


def require_room(state: HouseholdState, device: Device, location: str) -> None:
    """Raise `Refused` unless the device is in the room that is called so."""
    if device.room.id not in find_room_ids(state, [location]):
        raise HouseholdRefused("unknown_location", f"{device.did} is in {device.room.name}, not in {location}")


def _called(state: HouseholdState, location: str) -> list[Room]:
    wanted = location.strip().casefold()
    found = [room for room in state.home.plan.rooms if wanted in (room.name.casefold(), room.id.casefold())]
    if not found:
        names = dict.fromkeys(room.name for room in state.home.plan.rooms)
        raise unknown_name_refusal("unknown_location", "room", location, names)
    return found
