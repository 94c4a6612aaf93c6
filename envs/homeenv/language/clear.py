"""The names that people call things of a home by. Two things of people's own homes may share one; no made home has such.

Invariants: no sentence refers by name or alias to a thing if another thing has it too; in a task, a thing is always called
the same.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.play.words.splits import UnclearSentence


def refuse_shared_room(room: Room, home: Home) -> None:
    """Raise `Unclear` if another room has the same name."""
    name = room.name.casefold()
    if any(other.name.casefold() == name and other.id != room.id for other in home.plan.rooms):
        raise UnclearSentence


def refuse_shared_device(device: Device, home: Home) -> None:
    """Raise `Unclear` if another device, in this room or in one of the same name, has the same name.

    Of a device in no room, people say the name alone, so nothing else may have it, no room either.
    """
    name, room = device.name.casefold(), device.room.name.casefold()
    if device.room.id == HOME and any(other.name.casefold() == name for other in home.plan.rooms):
        raise UnclearSentence
    alike = (other for other in home.plan.devices if other.name.casefold() == name and other.did != device.did)
    if any(device.room.id == HOME or other.room.name.casefold() == room for other in alike):
        raise UnclearSentence


def spoken_name_of(thing: Device | Room, home: Home, by_alias: float) -> str:
    """What people call a device or a room: its name or, for a share of the things of a task, an alias of its own."""
    if not by_alias or not (aliases := aliases_of(thing, home)):
        return thing.name
    rng = random.Random(f"called {home.clock} {_id(thing)}")  # homes of other tasks have other clocks
    things: tuple[Device | Room, ...] = (*home.plan.rooms, *home.plan.devices)
    others = [one for one in things if _id(one) != _id(thing)]
    taken = {name.casefold() for one in others for name in (one.name, *aliases_of(one, home))}
    free = [alias for alias in aliases if alias.casefold() not in taken]
    return rng.choice(free) if free and rng.random() < by_alias else thing.name


def aliases_of(thing: Device | Room, home: Home) -> tuple[str, ...]:
    """The further names of a device or a room."""
    if (origin := home.plan.origin) is None:
        return ()
    return origin.rooms.get(thing.id, ()) if isinstance(thing, Room) else origin.link_of_device(thing.did).aliases


def _id(thing: Device | Room) -> tuple[str, str]:
    return ("room", thing.id) if isinstance(thing, Room) else ("device", thing.did)
