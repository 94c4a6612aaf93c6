"""The immutable part of a home: its rooms, its devices, its weather forecast, and the order of its values.

Invariants:
- A plan never changes once a home has been built on it.
- Slots are ordered: first outdoors, then rooms, then devices.
- `content_digest` is the same in every process. Plans with equal digests behave alike.
- The ids of rooms and devices are unique.
- A deep copy is the plan itself. Plans that are unpickled and have equal digests are one object while it is in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Self
from weakref import WeakValueDictionary

from homerl.envs.core.state_encoding import state_text, text_hash
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, WeatherChange
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.devices.service_execution import CompiledService
from homerl.envs.homeenv.sim.plan.import_origin import Origin
from homerl.envs.homeenv.sim.plan.time_driven_slots import TimeWiring
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType, quote_value

LATEST = 253_402_300_799  # the last second of the year 9999, the last year of Python's datetime


@dataclass(frozen=True)
class ValueSlot:
    """One entry of the flat values: its owner (a device id, a room id or `outdoors`), its path and its type."""

    owner: str
    path: str
    type: ValueType

    def __str__(self) -> str:
        return f"{self.owner}.{self.path}"


@dataclass(frozen=True)
class FixedPlan:
    """A home without its values. Raises `ValueError` if the parts do not fit together.

    `entrance` is the id of the device that people speak to, or of the room in which they do, if it is known. `forecast` is
    the coming weather, in order of time. `bias` holds, for each room, by how much its air exceeds the steady state (see
    `Wiring.bias`). `base` maps each owner to its first slot. `origin` says what an imported home is where it came from.
    """

    rooms: tuple[Room, ...]
    devices: tuple[Device, ...]
    entrance: str | None = None
    forecast: tuple[WeatherChange, ...] = ()
    bias: tuple[tuple[float, float], ...] = ()
    origin: Origin | None = field(default=None, hash=False)
    slots: tuple[ValueSlot, ...] = field(init=False)
    base: Mapping[str, int] = field(init=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        _refuse_incoherent(self.rooms, self.devices)
        if self.entrance is not None and self.entrance_room is None:
            raise ValueError(f"the entrance is device or room '{self.entrance}', which does not exist")
        object.__setattr__(self, "forecast", _checked_forecast(self.forecast))
        slots = [ValueSlot(OUTDOORS, path, kind) for path, kind in ROOM_STATE.items()]
        base = {OUTDOORS: 0}
        for room in self.rooms:
            base[room.id] = len(slots)
            slots += [ValueSlot(room.id, path, kind) for path, kind in ROOM_STATE.items()]
        for device in self.devices:
            base[device.did] = len(slots)
            slots += [ValueSlot(device.did, path, a) for path, (_, a) in device.spec.attribute_index.items()]
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "base", base)

    @cached_property
    def devices_by_did(self) -> dict[str, Device]:
        """The devices by id."""
        return {device.did: device for device in self.devices}

    @cached_property
    def rooms_by_id(self) -> dict[str, Room]:
        """The rooms by id."""
        return {room.id: room for room in self.rooms}

    @property
    def entrance_room(self) -> Room | None:
        """The room in which people speak, if it is known."""
        device = self.devices_by_did.get(self.entrance or "")
        return device.room if device else self.rooms_by_id.get(self.entrance or "")

    def find_room(self, called: str) -> Room:
        """The room with this id, or with this name. Raises `Refused` if there is none, or several rooms share the name."""
        if called in self.rooms_by_id:
            return self.rooms_by_id[called]
        named = [room for room in self.rooms if room.name == called]
        if len(named) == 1:
            return named[0]
        if named:
            raise Refused(
                "unknown_room", f"{len(named)} rooms are called {quote_value(called)}: {', '.join(r.id for r in named)}"
            )
        raise Refused("unknown_room", f"there is no room {quote_value(called)}")

    @cached_property
    def compiled_services(self) -> dict[tuple[str, str], tuple[CompiledService, int]]:
        """Maps (did, dotted service path) to the compiled service and the first slot of its device."""
        return {
            (device.did, path): (service, self.base[device.did])
            for device in self.devices
            for path, service in device.spec.service_index.items()
        }

    @cached_property
    def time_wiring(self) -> TimeWiring:
        """The parts that change with time. They are computed on first use, since many homes never move their clock."""
        return TimeWiring(self.rooms, self.devices, self.forecast, self.base)

    @cached_property
    def content_digest(self) -> int:
        """A 128-bit hash of everything in the plan."""
        rooms = [(r.id, r.type, r.name, r.floor, r.parent) for r in self.rooms]
        devices = [(d.did, d.name, d.room.id, d.spec.content_digest) for d in self.devices]
        weather = [(moment.clock, *moment.outdoors) for moment in self.forecast]
        origin = () if self.origin is None else (self.origin.json_text,)
        return text_hash(state_text((rooms, devices, self.entrance, weather, self.bias, *origin)))

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.rooms, self.devices, self.entrance, self.forecast, self.bias, self.origin
        return _unpickled, (self.content_digest, *parts)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        return self

    def slot_of(self, owner: str, path: str) -> int:
        """The index of a slot, by the owner's id and the path. Raises `Refused` if the home has no such slot."""
        if owner in self.devices_by_did:
            index = self.devices_by_did[owner].spec.attribute_index
            if path not in index:
                raise Refused(
                    "unknown_attribute", f"device {owner} has no attribute {quote_value(path)} (it has {', '.join(index)})"
                )
            return self.base[owner] + index[path][0]
        if owner not in self.base:
            raise Refused("unknown_device", f"there is no device or room '{owner}'")
        if path not in ROOM_STATE:
            raise Refused("unknown_attribute", f"{owner} has no '{path}' (it has {', '.join(ROOM_STATE)})")
        return self.base[owner] + list(ROOM_STATE).index(path)


_in_use: WeakValueDictionary[int, FixedPlan] = WeakValueDictionary()


def _unpickled(digest: int, *parts: Any) -> FixedPlan:
    """The plan of these parts. Homes of one plan share it, and with it what is worked out once."""
    return _in_use.get(digest) or _in_use.setdefault(digest, FixedPlan(*parts))


def _refuse_incoherent(rooms: Sequence[Room], devices: Sequence[Device]) -> None:
    by_id = {room.id: room for room in rooms}
    owners = [OUTDOORS, *(room.id for room in rooms), *(device.did for device in devices)]
    if twice := {name for name in owners if owners.count(name) > 1} if len(set(owners)) < len(owners) else None:
        raise ValueError(f"'{sorted(twice)[0]}' names two things; the ids of rooms and devices must be unique")
    for room in rooms:
        seen, at = {room.id}, room
        while at.parent is not None:
            if at.parent not in by_id or at.parent in seen:
                raise ValueError(f"room '{room.id}' has the parent '{at.parent}', which is missing or its own child")
            seen.add(at.parent)
            at = by_id[at.parent]
    specs: dict[str, DeviceSpec] = {}
    for device in devices:
        if by_id.get(device.room.id) != device.room:
            raise ValueError(f"device {device.did} is in room '{device.room.id}', which does not exist")
        if specs.setdefault(device.spec.spid, device.spec).content_digest != device.spec.content_digest:
            raise ValueError(f"device {device.did}: the spid {device.spec.spid} stands for two specifications in this home")


def _checked_forecast(forecast: Sequence[WeatherChange]) -> tuple[WeatherChange, ...]:
    """The forecast with canonical values. Raises `ValueError` if it is not in order of time or a value is invalid."""
    moments, before = [], -1
    for moment in forecast:
        if not before < moment.clock <= LATEST:
            raise ValueError(f"the forecast must be in order of time, and {quote_value(moment.clock)} is not after {before}")
        try:
            sky = _checked_sky(*moment.outdoors)
        except Refused as error:
            raise ValueError(error.message) from None
        moments.append(WeatherChange(before := moment.clock, sky))
    return tuple(moments)


@lru_cache(maxsize=1 << 14, typed=True)  # most hours recur: homes are made from a few typical years
def _checked_sky(*sky: float) -> Outdoors:
    return Outdoors(*(ROOM_STATE[path].check_value(value, f"the forecast's {path}") for path, value in zip(ROOM_STATE, sky)))
