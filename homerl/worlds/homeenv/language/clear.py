"""Names that two things of a home share. Homes that are made here have none; people's own homes may.

Invariant: no sentence refers by name to a thing whose name another thing has too.
"""

from __future__ import annotations

from envs.homeenv.devices.device import Device
from envs.homeenv.devices.rooms import HOME, Room
from envs.homeenv.home import Home
from homerl.language.splits import Unclear


def refuse_shared_room(room: Room, home: Home) -> None:
    """Raise `Unclear` if another room has the same name."""
    name = room.name.casefold()
    if any(other.name.casefold() == name and other.id != room.id for other in home.plan.rooms):
        raise Unclear


def refuse_shared_device(device: Device, home: Home) -> None:
    """Raise `Unclear` if another device, in this room or in one of the same name, has the same name.

    Of a device in no room, people say the name alone, so nothing else may have it, no room either.
    """
    name, room = device.name.casefold(), device.room.name.casefold()
    if device.room.id == HOME and any(other.name.casefold() == name for other in home.plan.rooms):
        raise Unclear
    alike = (other for other in home.plan.devices if other.name.casefold() == name and other.did != device.did)
    if any(device.room.id == HOME or other.room.name.casefold() == room for other in alike):
        raise Unclear
