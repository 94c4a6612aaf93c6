"""Aliases of rooms and devices, as people give them in Home Assistant: `Living Room, Family Room`; `Outlet, Coffee Maker`.

An alias is another word of the lexicon, words of the place (`kitchen lamp`), or coined. Some devices have the alias as their
name, and their name as the alias: a curtain is called `window`, and an outlet `coffee maker`.

Invariants: the same seed gives the same aliases; in a home, no alias is another name or alias of a room or device, nor what
a room and a device are called together; only devices that are one thing, in whose place agents see one entity, have aliases.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from homerl.envs.homeenv.maker.coin import coin_word
from homerl.envs.homeenv.maker.lexicon import NUMBER, Half, Lexicon
from homerl.envs.homeenv.sim.assist.entities import entity_shapes
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.plan.origin import Origin

SECOND = 0.35  # share of aliases that are followed by another one
OTHERWISE = 0.3  # share of devices with an alias that are called by it
PLACED, COINED = 0.15, 0.2  # shares of aliases that are words of the place, for devices, or coined
TRIES = 8  # words drawn for an alias before there is none


@dataclass(frozen=True)
class AliasedNames:
    """Devices with their names, and the aliases of rooms by id and of devices by did."""

    devices: tuple[Device, ...]
    of_rooms: dict[str, tuple[str, ...]]
    of_devices: dict[str, tuple[str, ...]]

    def add_to_origin(self, origin: Origin | None, write: Callable[[str], str]) -> Origin:
        """An origin with the aliases, as `write` writes them."""
        known = origin or Origin(system="homemaker", version="1")
        links = {
            did: known.link_of_device(did).model_copy(update={"aliases": tuple(map(write, aliases))})
            for did, aliases in self.of_devices.items()
        }
        rooms = {room: tuple(map(write, aliases)) for room, aliases in self.of_rooms.items()}
        return known.model_copy(update={"devices": {**known.devices, **links}, "rooms": rooms})


def draw_alias_names(
    rooms: Sequence[Room], devices: Sequence[Device], share: float, lexicon: Lexicon, half: Half, seed: int
) -> AliasedNames:
    """The devices, and aliases of a `share` (0 to 1) of the rooms and of the devices."""
    rng = random.Random(f"aliases {seed}")
    taken = {room.name for room in rooms} | {name for one in devices for name in (one.name, f"{one.room.name} {one.name}")}

    def drawn(words: Iterator[str]) -> tuple[str, ...]:
        """One or two aliases, or none."""
        if rng.random() >= share:
            return ()
        found: list[str] = []
        for _ in range(1 + (rng.random() < SECOND)):
            if alias := _free(words, taken):
                found.append(alias)
                taken.add(alias)
        return tuple(found)

    coins = lexicon.home.isascii()
    of_rooms = {
        room.id: drawn(_words(lexicon.room_aliases(room, half), room.name, "", coins, rng))
        for room in rooms
        if room.id != HOME
    }
    taken |= {f"{alias} {one.name}" for one in devices for alias in of_rooms.get(one.room.id, ())}
    named, of_devices = [], {}
    for device in devices:
        alone = sum(one.room == device.room and one.spec.category == device.spec.category for one in devices) == 1
        place = device.room.name if alone and coins and device.room.id != HOME else ""
        words = _words(lexicon.device_aliases(device.spec, half), device.name, place, coins, rng)
        single = any(not shape.suffix for shape in entity_shapes(device.spec))
        names = (device.name, *(drawn(words) if single else ()))
        sole = sum(one.name == device.name for one in devices) == 1
        if len(names) > 1 and sole and rng.random() < OTHERWISE:
            names = (names[1], names[0], *names[2:])
        taken |= {f"{room} {name}" for room in (device.room.name, *of_rooms.get(device.room.id, ())) for name in names}
        named.append(replace(device, name=names[0]))
        if len(names) > 1:
            of_devices[device.did] = names[1:]
    return AliasedNames(tuple(named), {room: aliases for room, aliases in of_rooms.items() if aliases}, of_devices)


def _words(known: Sequence[str], name: str, place: str, coins: bool, rng: random.Random) -> Iterator[str]:
    """Aliases for something, without end, unless there are none."""
    last = NUMBER.sub("", name).split()[-1]
    while known or place or coins:
        drawn = rng.random()
        if place and drawn < PLACED:
            yield f"{place} {last}"
        elif coins and (not known or drawn >= 1 - COINED):
            coined = coin_word(rng)
            yield rng.choice((coined, f"{coined} {last}"))
        elif known:
            yield rng.choice(known)


def _free(words: Iterator[str], taken: set[str]) -> str | None:
    """The first word that nothing has, of a few."""
    drawn = (next(words, None) for _ in range(TRIES))
    return next((word for word in drawn if word and word not in taken), None)
