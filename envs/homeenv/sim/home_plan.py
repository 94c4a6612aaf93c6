"""The immutable part of a home: its rooms, its devices, its weather forecast, its origin, and the order of its values.

Invariants:
- A plan never changes once a home has been built on it.
- Slots are ordered: first outdoors, then rooms, then devices.
- `content_digest` is the same in every process. Plans with equal digests behave alike.
- The ids of rooms and devices are unique.
- A deep copy is the plan itself. Plans that are unpickled and have equal digests are one object while it is in use.
- An origin refers to devices by did and to rooms by id, and says nothing that changes what happens in the home. A name that
  is not given is the same there as here. `hidden` and `unfollowed` are for those who guard the real home; no agent is told
  of them.

The docstrings of the models are descriptions in docs/schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property, lru_cache
from math import inf
from typing import Any, Self
from weakref import WeakValueDictionary

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.envs.core.state_encoding import state_text, text_hash
from homerl.envs.homeenv.sim.devices.air_physics import (
    CLIMATE,
    PLAIN_SHELL,
    SHELLS,
    AirInputs,
    Outdoors,
    RoomAir,
    RoomShell,
    WeatherChange,
    compute_air_inputs,
    fahrenheit_to_celsius,
    measured_quantities,
    quantity_in_unit,
    steady_air,
)
from homerl.envs.homeenv.sim.devices.attributes_and_services import CompiledService
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType, quote_value, time_zone_of

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
    `TimeWiring.compute_air_bias`). `base` maps each owner to its first slot. `origin` says what an imported home is where it
    came from.
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

    def find_device(self, did: Any) -> Device:
        """The device with this id. Raises `Refused` if there is none."""
        if not isinstance(did, str) or did not in self.devices_by_did:
            raise Refused("unknown_device", f"there is no device {quote_value(did)}") from None
        return self.devices_by_did[did]

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
        return _restore_plan, (self.content_digest, *parts)

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


# Plans that were unpickled, by digest. The entries are weak, so a plan goes with the last home that has it.
_in_use: WeakValueDictionary[int, FixedPlan] = WeakValueDictionary()


def _restore_plan(digest: int, *parts: Any) -> FixedPlan:
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


# What an imported home is in the system that it came from

ORIGIN_FORMAT = 1
AVAILABLE = "available"  # the attribute by which an imported device says that it is out of reach, where its state cannot


class Link(Model):
    """A device as the other system knows it: further names that people give it, and names there by names here."""

    name: str | None = Field(None, description="its whole name, where it differs")
    aliases: tuple[str, ...] = ()
    attributes: dict[str, str] = Field({}, description="its names of attributes, by ours, where they differ")
    services: dict[str, str] = Field({}, description="its names of services, by ours, where they differ")
    arguments: dict[str, str] = Field({}, description="its names of arguments, by ours, where they differ")


class Storey(Model):
    """A floor as the other system knows it. `rooms` are the ids of its rooms."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


class Hidden(Model):
    """An automation there that agents are not told of, as the arguments of `make_rule`."""

    id: str
    conditions: tuple[str, ...]
    actions: tuple[dict[str, Any], ...]
    hold: int = 0
    given: tuple[str, ...] = Field((), exclude_if=lambda given: not given)  # records are older than this key, and the next
    runs: dict[str, Any] = Field({}, exclude_if=lambda runs: not runs, description="`of`, `most` and `restart` of the rule")


ANY_DEVICE = ("*",)  # what an automation reads of which nothing is known
ANYTHING = "anything"  # what one acts on of which nothing is known, also behind a kind: `switch.anything`


class Unfollowed(Model):
    """An automation there that cannot be played here, or what is not played of one. `reads` are the entities whose change
    may make it act, `*` for any."""

    id: str
    reads: tuple[str, ...]
    acts: tuple[str, ...] = Field(
        description="what it acts on there: entities, else a service, or a kind of them such as lock, or anything"
    )


class Beside(Model):
    """What is known there of an entity beside its device, if it has one. It drives or follows what it `lists`, where
    `anything` may stand. Whether it is to be `guarded`, its names tell, which are not kept."""

    guarded: bool = False
    lists: tuple[str, ...] = ()


class Origin(Model):
    """The system that a home was imported from. `devices` is by did; `rooms` gives further names of rooms by id."""

    format: int = ORIGIN_FORMAT
    system: str
    version: str
    zone: str | None = Field(None, description="the time zone of the home's clock, such as `Europe/Berlin`; UTC if none")
    devices: dict[str, Link] = {}
    rooms: dict[str, tuple[str, ...]] = {}
    storeys: tuple[Storey, ...] = Field((), description="its floors; where there are none, those of the rooms' numbers")
    hidden: tuple[Hidden, ...] = Field((), description="automations that only a served twin plays")
    unfollowed: tuple[Unfollowed, ...] = ()
    beside: dict[str, Beside] = Field({}, description="by entity, also of those that are not in the home")

    def link_of_device(self, did: str) -> Link:
        """A device's names there."""
        return self.devices.get(did, SAME)

    def change_test(self, devices: Collection[str]) -> Callable[[str], bool]:
        """A test of whether an entity may change: with these devices or with what lists it, or because an automation acts on
        it."""
        listed = {other for one in self.beside.values() for other in one.lists} - {ANYTHING}
        known = {*devices, *self.beside, *listed}.union(*(one.acts for one in self.unfollowed))
        kinds = {kind for kind, _, name in (one.rpartition(".") for one in known) if name == ANYTHING}
        any_kind = not kinds.isdisjoint(("", "homeassistant"))
        return lambda name: name in known or any_kind or name.partition(".")[0] in kinds

    @property
    def without_guarded_parts(self) -> Origin:
        """The origin without what is for guards alone."""
        return self.model_copy(update={"hidden": (), "unfollowed": (), "beside": {}})

    @property
    def json_text(self) -> str:
        """The origin as JSON, in which a part for guards stands only if there is one."""
        return self.model_dump_json(exclude={part for part in ("hidden", "unfollowed", "beside") if not getattr(self, part)})

    @property
    def time_zone(self) -> tzinfo:
        """The zone of the clock; UTC on a machine that does not know the zone."""
        return time_zone_of(self.zone)


SAME = Link()


# The parts of a home that change with time alone
#
# A room is identified by its index in the plan, and a slot by its index in the flat values.


class RoomWiring:
    """A room as its air sees it: its shell, the first slot of its state, and the devices that act on its air.

    Each device is a pair of its specification and a mapping from attribute path to slot.
    """

    def __init__(self, shell: RoomShell, slot: int, devices: Sequence[tuple[DeviceSpec, Mapping[str, int]]]) -> None:
        self.shell, self.slot, self.devices = shell, slot, devices
        self.slots = [slot for _, slots in devices for slot in slots.values()]
        self._known_inputs = lru_cache(maxsize=256)(self._compute_inputs)

    def air_inputs_of(self, values: Sequence[Any]) -> AirInputs:
        """What the room's devices do to its air, given the flat values of the home. Recent results are cached."""
        return self._known_inputs(tuple([values[slot] for slot in self.slots]))

    def _compute_inputs(self, state: tuple[Any, ...]) -> AirInputs:
        values = iter(state)
        return compute_air_inputs([(spec, dict(zip(slots, values))) for spec, slots in self.devices])


class AirReading:
    """A slot that shows a quantity of a room's air: a slot of the room's own state, or a sensor's attribute.

    `quantity` is `TEMPERATURE`, `HUMIDITY` or `LIGHT` of `air_physics.py`. `half` is half of the smallest step between two
    values that the slot can show.
    """

    def __init__(self, slot: int, room: int, quantity: int, type: ValueType) -> None:
        self.slot, self.room, self.quantity, self.type = slot, room, quantity, type
        self.low, self.high = type.range or (-inf, inf)
        self.whole, self.plain = type.type == "int", type.precision in (None, 0.1)
        self.half = max(type.precision or (1 if self.whole else 0.1), 0.1) / 2

    def quantity_of(self, value: float) -> float:
        """The quantity that the slot shows as a value (the inverse of `value_of_quantity`, without rounding)."""
        return float(fahrenheit_to_celsius(value)) if self.type.unit == "fahrenheit" else value

    def value_at(self, air: Sequence[RoomAir], clock: int) -> Any:
        """The value that the slot shows at `clock` (s). `air` is the air of all rooms."""
        return self.value_of_quantity(air[self.room].quantity_at(self.quantity, clock))

    def value_of_quantity(self, quantity: float) -> Any:
        """The canonical value for a quantity: in the slot's unit, rounded, and clamped to the range of the slot."""
        value = round(quantity_in_unit(quantity, self.type), 1) + 0.0  # turns -0.0 into 0.0: equal values need equal hashes
        value = self.low if value < self.low else self.high if value > self.high else value
        if self.whole:
            value = round(value)
        return value if self.plain else self.type.check_value(value)


class TimeWiring:
    """Everything in a plan that changes with time alone.

    `moments` are the clocks (s) at which the weather changes. `rooms` are in the order of the plan. `readings` holds all
    slots that show the air, `readings_of` those of a device by its did, and `reading_of` the reading by slot. `room_of`
    gives the index of a device's room by its did. `followers` are the derived slots, each after those that it reads.
    """

    def __init__(
        self, rooms: Sequence[Room], devices: Sequence[Device], forecast: Iterable[WeatherChange], base: Mapping[str, int]
    ) -> None:
        index_of = {room.id: index for index, room in enumerate(rooms)}
        self.moments = [moment.clock for moment in forecast]
        self.room_of = {device.did: index_of[device.room.id] for device in devices}
        self.readings_of = {device.did: list(self._air_sensors(device, base[device.did])) for device in devices}
        self.readings = [
            AirReading(base[room.id] + i, index, i, kind)
            for index, room in enumerate(rooms)
            for i, kind in enumerate(ROOM_STATE.values())
        ]
        self.readings += [reading for readings in self.readings_of.values() for reading in readings]
        self.reading_of = {reading.slot: reading for reading in self.readings}
        self.counters = [one.placed_at(base[d.did]) for d in devices for one in d.spec.compiled_counters]
        self.counter_of = {counter.slot: counter for counter in self.counters}
        self.movers = [one.placed_at(base[d.did]) for d in devices for one in d.spec.compiled_motions]
        self.mover_of = {mover.slot: mover for mover in self.movers}
        self.followers = [one.placed_at(base[d.did]) for d in devices for one in d.spec.compiled_derived]
        inside: list[list[tuple[DeviceSpec, Mapping[str, int]]]] = [[] for _ in rooms]
        for device in devices:
            # What changes by itself, such as a reading, does not affect the air.
            first, index = base[device.did], device.spec.attribute_index
            slots = {path: first + offset for path, (offset, kind) in index.items() if not kind.changes_by_itself}
            kinds = device.spec.part_kinds
            if any(kind in CLIMATE or kind == "light" or prefix + "brightness" in slots for prefix, kind in kinds):
                inside[self.room_of[device.did]].append((device.spec, slots))
        self.rooms = [
            RoomWiring(SHELLS.get(room.type, PLAIN_SHELL), base[room.id], inside[index]) for index, room in enumerate(rooms)
        ]

    def _air_sensors(self, device: Device, base: int) -> Iterator[AirReading]:
        index, room = device.spec.attribute_index, self.room_of[device.did]
        for path, quantity in measured_quantities(device.spec):
            offset, attribute = index[path]
            yield AirReading(base + offset, room, quantity, attribute)

    def compute_air_bias(self, values: Sequence[Any]) -> tuple[tuple[float, float], ...]:
        """For each room, by how much its temperature (celsius) and humidity (percent) exceed the steady state.

        `values` are the flat values of a home. The first three are the weather.
        """
        outdoors, offsets = Outdoors(*values[:3]), []
        for room in self.rooms:
            goal = steady_air(room.shell, outdoors, room.air_inputs_of(values))
            offsets.append((round(values[room.slot] - goal[0], 2), round(values[room.slot + 1] - goal[1], 2)))
        return tuple(offsets)
