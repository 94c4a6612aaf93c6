"""A home: an immutable plan and one flat list of values (HomeFlow eq. 2).

Invariants: `Home.call` is the only way an agent changes anything, and a refused call has changed nothing;
`fork` is independent of its parent; `state_key` is exact (it covers plan, every value and the clock) and
the same in every process; equal keys behave alike ever after. Slots are ordered: outdoors, rooms, devices.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from envs.homeenv.audit import Refused
from envs.homeenv.physics import Air, Moment, Outdoors, Wiring, bias_of
from envs.homeenv.service import CompiledService
from envs.homeenv.spec import DeviceSpec
from envs.homeenv.types import ValueType, shown

if TYPE_CHECKING:
    from envs.homeenv.automation import Rule
    from envs.homeenv.clock import Fired

ROOM_STATE: dict[str, ValueType] = {
    "temperature": ValueType(type="float", range=(-40, 60), precision=0.1, unit="celsius"),
    "humidity": ValueType(type="float", range=(0, 100), precision=0.1, unit="percentage"),
    "brightness": ValueType(type="float", range=(0, 120000), precision=0.1, unit="lux"),
}
OUTDOORS = "outdoors"
LATEST = 253_402_300_799  # the last second of the year 9999: no calendar goes further


@dataclass(frozen=True)
class Room:
    """A room (SMH-Bench Table 5). `type` is its use (bedroom, ...), `parent` the id of the room that holds it, if any."""

    id: str
    type: str
    name: str
    floor: int = 0
    parent: str | None = None


@dataclass(frozen=True)
class Device:
    """A device in a room. `name` is what people call it, unique within its room."""

    did: str
    name: str
    room: Room
    spec: DeviceSpec

    @property
    def slug(self) -> str:
        """Room and name as one word: `kitchen_wall_light`."""
        return re.sub(r"\W+", "_", f"{self.room.name} {self.name}").strip("_")


@dataclass(frozen=True)
class Slot:
    """One place of the flat state: who owns it (did, room id or `outdoors`), its path and its type."""

    owner: str
    path: str
    type: ValueType

    def __str__(self) -> str:
        return f"{self.owner}.{self.path}"


@dataclass(frozen=True)
class Change:
    """One slot that differs: `slot` is its index in the plan."""

    slot: int
    before: Any
    after: Any


@dataclass(frozen=True)
class Plan:
    """What never changes about a home. `entrance` is the id of the device that people speak to, if there is one."""

    rooms: tuple[Room, ...]
    devices: tuple[Device, ...]
    entrance: str | None = None
    forecast: tuple[Moment, ...] = ()  # the weather to come, in order
    bias: tuple[tuple[float, float], ...] = ()  # for each room, see `physics.bias_of`
    slots: tuple[Slot, ...] = field(init=False)
    base: Mapping[str, int] = field(init=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        _refuse_incoherent(self.rooms, self.devices)
        if self.entrance is not None and all(device.did != self.entrance for device in self.devices):
            raise ValueError(f"the entrance is device '{self.entrance}', which does not exist")
        object.__setattr__(self, "forecast", _checked_forecast(self.forecast))
        slots = [Slot(OUTDOORS, path, kind) for path, kind in ROOM_STATE.items()]
        base = {OUTDOORS: 0}
        for room in self.rooms:
            base[room.id] = len(slots)
            slots += [Slot(room.id, path, kind) for path, kind in ROOM_STATE.items()]
        for device in self.devices:
            base[device.did] = len(slots)
            slots += [Slot(device.did, path, a) for path, (_, a) in device.spec.attribute_index.items()]
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "base", base)

    @cached_property
    def by_did(self) -> dict[str, Device]:
        return {device.did: device for device in self.devices}

    @cached_property
    def by_room(self) -> dict[str, Room]:
        return {room.id: room for room in self.rooms}

    def room(self, called: str) -> Room:
        """The room of this id, or of this name if one room alone has it; else `Refused`."""
        if called in self.by_room:
            return self.by_room[called]
        named = [room for room in self.rooms if room.name == called]
        if len(named) == 1:
            return named[0]
        if named:
            raise Refused("unknown_room", f"{len(named)} rooms are called {shown(called)}: {', '.join(r.id for r in named)}")
        raise Refused("unknown_room", f"there is no room {shown(called)}")

    @cached_property
    def services(self) -> dict[tuple[str, str], tuple[CompiledService, int]]:
        """(did, dotted service path) -> the compiled service and the device's first slot."""
        return {
            (device.did, path): (service, self.base[device.did])
            for device in self.devices
            for path, service in device.spec.service_index.items()
        }

    @cached_property
    def wiring(self) -> Wiring:
        """What of it moves by itself."""
        return Wiring(self)

    @cached_property
    def digest(self) -> int:
        rooms = [(r.id, r.type, r.name, r.floor, r.parent) for r in self.rooms]
        devices = [(d.did, d.name, d.room.id, d.spec.digest) for d in self.devices]
        weather = [(moment.clock, *moment.outdoors) for moment in self.forecast]
        return _hash(repr((rooms, devices, self.entrance, weather, self.bias)))

    def slot_of(self, owner: str, path: str) -> int:
        """The index of a slot, or `Refused`."""
        if owner in self.by_did:
            offset = self.by_did[owner].spec.attribute_index.get(path, (None,))[0]
            if offset is None:
                known = ", ".join(self.by_did[owner].spec.attribute_index)
                raise Refused("unknown_attribute", f"device {owner} has no attribute {shown(path)} (it has {known})")
            return self.base[owner] + offset
        if owner not in self.base:
            raise Refused("unknown_device", f"there is no device or room '{owner}'")
        if path not in ROOM_STATE:
            raise Refused("unknown_attribute", f"{owner} has no '{path}' (it has {', '.join(ROOM_STATE)})")
        return self.base[owner] + list(ROOM_STATE).index(path)


class Home:
    """A plan, the values of its slots, a clock in seconds since the epoch (local time), and what is pending.

    `rules` are its automations, in the order in which they act. `air` is None until the clock first moves; `stirred`
    says that a value may have changed since the air last took notice, which it does when the clock moves on.
    """

    __slots__ = ("_key", "air", "clock", "plan", "rules", "stirred", "values")

    def __init__(self, plan: Plan, values: Sequence[Any], clock: int = 0) -> None:
        if len(values) != len(plan.slots):
            raise ValueError(f"a home with {len(plan.slots)} slots got {len(values)} values")
        if not 0 <= clock <= LATEST:
            raise ValueError(f"the clock counts the seconds since 1970, from 0 to {LATEST}, and is {shown(clock)}")
        self.plan, self.values, self.clock = plan, list(values), clock
        self.air: list[Air] | None = None
        self.rules: tuple[Rule, ...] = ()
        self.stirred = False
        self._key = 0
        for slot, value in enumerate(self.values):
            self._key ^= _slot_hash(slot, value)

    @classmethod
    def build(
        cls,
        rooms: Iterable[Room],
        devices: Iterable[Device],
        state: Mapping[str, Mapping[str, Any]],
        clock: int = 0,
        entrance: str | None = None,
        forecast: Iterable[Moment] = (),
        bias: Sequence[tuple[float, float]] | None = None,
    ) -> Home:
        """A home from its parts; `state` gives each owner's values by path, all of them, checked.

        Without `bias` the rooms' air is taken to stand still as the state shows it.
        """
        plan = Plan(tuple(rooms), tuple(devices), entrance, tuple(forecast), tuple(bias or ()))
        values = []
        for slot in plan.slots:
            try:
                values.append(slot.type.check(state[slot.owner][slot.path], str(slot)))
            except KeyError:
                raise ValueError(f"the state gives no value for {slot}") from None
            except Refused as error:
                raise ValueError(f"the state is wrong: {error.message}") from None
        if bias is None:
            object.__setattr__(plan, "bias", bias_of(plan, values))
        return cls(plan, values, clock)

    def fork(self) -> Home:
        """An independent copy: one list copy, the plan is shared."""
        twin = Home.__new__(Home)
        twin.plan, twin.values, twin.clock, twin._key = self.plan, self.values.copy(), self.clock, self._key
        twin.air = None if self.air is None else self.air.copy()
        twin.rules, twin.stirred = self.rules, self.stirred
        return twin

    def state_key(self) -> str:
        """An exact 128-bit hash of plan, state, clock and all that is pending, in hex."""
        return f"{self._key ^ self.plan.digest ^ _hash(f'clock={self.clock}{self._pending()}'):032x}"

    def _pending(self) -> str:
        """Rules and air as text; empty for a home that has none and whose clock never moved."""
        if not self.air:
            return repr(self.rules) if self.rules else ""
        return repr((self.rules, [air[:4] for air in self.air]))

    def advance(self, seconds: int) -> list[Fired]:
        """Let time pass: weather, air, counters and rules take their course. What the rules did, in order."""
        from envs.homeenv.clock import advance

        return advance(self, seconds)

    def set(self, slot: int, value: Any) -> None:
        """Put a canonical value in a slot and keep the key up to date. For worlds, not for agents."""
        before = self.values[slot]
        if before is not value:
            self._key ^= _slot_hash(slot, before) ^ _slot_hash(slot, value)
            self.values[slot] = value
            self.stirred = True

    def get(self, owner: str, path: str) -> Any:
        """The value of a device's attribute (dotted path) or of a room's state, or `Refused`."""
        return self.values[self.plan.slot_of(owner, path)]

    def call(self, did: str, service: str, args: Sequence = (), kwargs: Mapping[str, Any] | None = None) -> None:
        """Call a service, or raise `Refused` having changed nothing."""
        try:
            compiled, base = self.plan.services[did, service]
        except (KeyError, TypeError):
            raise self._unknown(did, service) from None
        for slot, value in compiled.updates(self.values, base, compiled.bind(tuple(args), kwargs or {})):
            self.set(slot, value)

    def _unknown(self, did: Any, service: str) -> Refused:
        if not isinstance(did, str) or did not in self.plan.by_did:
            return Refused("unknown_device", f"there is no device {shown(did)}")
        device = self.plan.by_did[did]
        known = ", ".join(device.spec.service_index) or "no services"
        return Refused("unknown_service", f"{device.name} {did} has no service {shown(service)} (it has {known})")

    def diff(self, other: Home) -> list[Change]:
        """Every slot in which `other` differs, `before` being this home's value."""
        if other.plan is not self.plan and other.plan.digest != self.plan.digest:
            raise ValueError("homes with different plans cannot be compared")
        pairs = enumerate(zip(self.values, other.values))
        return [Change(slot, mine, theirs) for slot, (mine, theirs) in pairs if mine != theirs]

    def state_of(self, owner: str) -> dict[str, Any]:
        """All values of a device, a room or `outdoors`, by path."""
        if owner in self.plan.by_did:
            base, index = self.plan.base[owner], self.plan.by_did[owner].spec.attribute_index
            return {path: self.values[base + offset] for path, (offset, _) in index.items()}
        return {path: self.get(owner, path) for path in ROOM_STATE}

    def devices(self, room: str | None = None, category: str | None = None) -> Iterator[Device]:
        """Devices in the order of the plan, of one room (its id) and one category if given."""
        for device in self.plan.devices:
            if room in (None, device.room.id) and category in (None, device.spec.category):
                yield device


class LoneDevice:
    """A device outside any home: attributes to read, services to call (HomeFlow A.2)."""

    def __init__(self, home: Home, did: str, prefix: str = "") -> None:
        self._home, self._did, self._prefix = home, did, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = self._prefix + name
        spec = self._home.plan.by_did[self._did].spec
        if path in spec.attribute_index:
            return self._home.get(self._did, path)
        if path in spec.service_index:
            return lambda *args, **kwargs: self._home.call(self._did, path, args, kwargs)
        if any(component.name == path for component in spec.components):
            return LoneDevice(self._home, self._did, path + ".")
        raise AttributeError(f"{spec.name} has no attribute or service '{path}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise Refused("read_only", f"'{name}' cannot be assigned; call a service instead")
        super().__setattr__(name, value)


def lone_device(spec: DeviceSpec, seed: int | None = None) -> LoneDevice:
    """A free-standing device with random values; the same seed gives the same device."""
    rng = random.Random(seed)
    zero = {path: kind.sample(rng) for path, kind in ROOM_STATE.items()}
    values = {path: attribute.sample(rng) for path, (_, attribute) in spec.attribute_index.items()}
    bench = Room("bench", "bench", "bench")
    device = Device("1", spec.name, bench, spec)
    return LoneDevice(Home.build([bench], [device], {OUTDOORS: zero, "bench": zero, "1": values}), "1")


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
        if specs.setdefault(device.spec.spid, device.spec).digest != device.spec.digest:
            raise ValueError(f"device {device.did}: the spid {device.spec.spid} stands for two specifications in this home")


def _checked_forecast(forecast: Sequence[Moment]) -> tuple[Moment, ...]:
    """The weather to come, as slots can show it, or `ValueError` if it is not in order."""
    found, before = [], -1
    for moment in forecast:
        if not before < moment.clock <= LATEST:
            raise ValueError(f"the forecast's moments follow each other, and {shown(moment.clock)} is not after {before}")
        try:
            sky = _checked_sky(*moment.outdoors)
        except Refused as error:
            raise ValueError(error.message) from None
        found.append(Moment(before := moment.clock, sky))
    return tuple(found)


@lru_cache(maxsize=1 << 14, typed=True)  # of the hours of a few years most come again
def _checked_sky(*sky: float) -> Outdoors:
    return Outdoors(*(ROOM_STATE[path].check(value, f"the forecast's {path}") for path, value in zip(ROOM_STATE, sky)))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def _slot_hash(slot: int, value: Any) -> int:
    return _slot_text_hash(slot, repr(value))


@lru_cache(maxsize=1 << 18)
def _slot_text_hash(slot: int, text: str) -> int:
    return _hash(f"{slot}={text}")
