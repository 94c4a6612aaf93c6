"""A home: an immutable plan, one flat list of values, a clock in ticks, and the workflows that wait.

Below it stands `OperationError`, by which a home refuses an operation.

At each tick the simulator updates every device and every room once. Such an update is called a pass; pass t belongs to
tick t.

Invariants:
- `fork` returns a copy that is independent of its parent. Values are replaced, never changed in place.
- `state_key` is an exact hash, and the same in every process. It hashes texts of `envs/core/state_encoding.py`.
- Whoever raises `OperationError` has changed nothing, or runs inside `MatterHome.run_or_undo`, which restores the state.
- At tick t the passes 0 to t are done, and so are the workflows that were due before t. A workflow that is due at t
  runs when time next moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

from homerl.envs.core.state_encoding import state_text, text_hash, written_as
from homerl.envs.simuhome.sim.device_catalogue import Cluster, DeviceType, Tables, enum_member
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT, VARIABLES


class ABSENT:
    """The value before a slot existed. It is a class, which stays the same object when a home is copied or pickled."""


@dataclass(frozen=True)
class MatterDevice:
    """A device of a home. Its values start at slot `base` of the home's list of values.

    `offsets` maps each flat key to its slot, relative to `base`. These are the keys of the device's type, followed by
    those that only the loaded configuration has.
    """

    id: str
    type: DeviceType
    room: str
    base: int
    offsets: Mapping[str, int]

    @cached_property
    def offset_tables(self) -> Tables:
        """The offset of each attribute, by endpoint and cluster."""
        return (
            self.type.offset_tables if self.offsets is self.type.slot_offsets else self.type.tables_for_offsets(self.offsets)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        own = None if self.offsets is self.type.slot_offsets else self.offsets
        return _restore_device, (self.id, self.type, self.room, self.base, own)

    def shown_slots(self) -> Iterator[tuple[str, int]]:
        """(flat key, slot) of each attribute that tools show. Hidden state is left out."""
        return ((key, self.base + offset) for key, offset in self.offsets.items() if ".#" not in key)


def _restore_device(id: str, type: DeviceType, room: str, base: int, offsets: Mapping[str, int] | None) -> MatterDevice:
    return MatterDevice(id, type, room, base, type.slot_offsets if offsets is None else offsets)


@dataclass(frozen=True)
class MatterRoom:
    """A room of a home. Its values start at slot `base`.

    They are the four variables in the order of `VARIABLES`, then the influence on each of them (`air.Influence`).
    `baseline` holds the values to which the variables return.
    """

    name: str
    base: int
    baseline: tuple[float, ...]


@dataclass(frozen=True)
class HomePlan:
    """The part of a home that no command changes. Devices are in the order in which they were added.

    `base_time` is the virtual time at tick 0. `aggregators` says whether the rooms' variables change at all. At tick
    `max_ticks` time stops, and tools refuse every call.
    """

    strict: bool
    base_time: datetime
    rooms: Mapping[str, MatterRoom]
    devices: Mapping[str, MatterDevice]
    aggregators: bool = True
    max_ticks: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return HomePlan, tuple(getattr(self, part.name) for part in fields(self))  # without what is worked out from them

    def __deepcopy__(self, memo: Mapping[int, Any]) -> HomePlan:
        return self

    @cached_property
    def devices_by_room(self) -> dict[str, tuple[MatterDevice, ...]]:
        """The devices of each room, in the order in which they were added."""
        return {name: tuple(d for d in self.devices.values() if d.room == name) for name in self.rooms}

    @cached_property
    def slot_names(self) -> dict[int, str]:
        """A readable name for each slot, such as `kitchen.humidity` or `kitchen_fan_1.1.OnOff.OnOff`."""
        names = {room.base + i: f"{room.name}.{name}" for room in self.rooms.values() for i, name in enumerate(VARIABLES)}
        for device in self.devices.values():
            names |= {device.base + offset: f"{device.id}.{key}" for key, offset in device.offsets.items()}
        return names

    @cached_property
    def plan_hash(self) -> int:
        """A 128-bit hash of the whole plan."""
        rooms = [(r.name, r.base, r.baseline) for r in self.rooms.values()]
        devices = [(d.id, d.type.name, d.room, d.base, tuple(d.offsets)) for d in self.devices.values()]
        return text_hash(state_text((self.strict, self.base_time, rooms, devices, self.aggregators, self.max_ticks)))


@written_as(
    "Workflow", id="id", due="due", start_time="start_time", steps="steps", total="total", description="description",
    status="status", current_step="current_step", error="error",
)  # fmt: skip
@dataclass(frozen=True)
class Workflow:
    """A list of steps that run at a virtual time, and how far they have come.

    `due` is the tick at which the steps run, and `start_time` is the same time as text. `steps` is JSON text, so that
    it cannot change and is hashed by its content; `total` is the number of steps. `current_step` is the index of the
    last step that has run, and 0 before any has. `status` is one of `virtual_time.STATUSES`.
    """

    id: str
    due: int
    start_time: str
    steps: str
    total: int
    description: str | None = None
    status: str = "pending"
    current_step: int = 0
    error: str | None = None

    @cached_property
    def state_text(self) -> str:
        """The whole workflow as text, for the state key of its home."""
        return state_text(self)

    def to_record(self) -> dict[str, Any]:
        """The workflow as the agent's tools show it."""
        return {
            "workflow_id": self.id,
            "description": self.description,
            "start_time": self.start_time,
            "status": self.status,
            "current_step": self.current_step,
            "total_steps": self.total,
            "error": self.error,
        }


class ClusterView:
    """One cluster of a device in a home. Attributes are read and written by name: `view["OnOff"] = True`."""

    __slots__ = ("_base", "_offsets", "cluster", "device", "endpoint", "home")

    def __init__(self, home: MatterHome, device: MatterDevice, endpoint: int, cluster: str) -> None:
        self.home = home  # one by one: a view is made at each call, and a tuple would cost more
        self.device = device
        self.endpoint = endpoint
        self.cluster = cluster
        self._base = device.base
        self._offsets = device.offset_tables[endpoint, cluster]

    def __getitem__(self, attribute: str) -> Any:
        return self.home.values[self._base + self._offsets[attribute]]

    def __setitem__(self, attribute: str, value: Any) -> None:
        self.home.set_slot(self._base + self._offsets[attribute], value)

    def __contains__(self, attribute: str) -> bool:
        return attribute in self._offsets

    def set_enum(self, attribute: str, value: Any) -> None:
        """Write a number, or a list of numbers, as members of the attribute's enumeration."""
        self[attribute] = enum_member(self.cluster_spec.enums[attribute], value)

    def sibling_view(self, cluster: str) -> ClusterView:
        """Another cluster of the same device, at the first endpoint that has it."""
        return ClusterView(self.home, self.device, self.device.type.endpoint_of[cluster], cluster)

    def has_cluster(self, cluster: str) -> bool:
        """Whether the device has a cluster, at any endpoint."""
        return cluster in self.device.type.endpoint_of

    @property
    def cluster_spec(self) -> Cluster:
        """The cluster's entry in the catalogue."""
        return self.device.type.endpoints[self.endpoint][self.cluster]

    @property
    def is_strict(self) -> bool:
        """Whether the home is in strict mode."""
        return self.home.plan.strict

    @property
    def is_on(self) -> bool:
        """Whether the device is switched on. False for a device without an OnOff cluster."""
        return self.has_cluster("OnOff") and self.sibling_view("OnOff")["OnOff"] is True


class Savepoint:
    """A moment of a home: its plan, clock and workflows, and in `old` the value that each slot had which was set since."""

    __slots__ = ("interval", "old", "plan", "tick", "workflows")

    def __init__(self, home: MatterHome) -> None:
        self.plan, self.tick, self.interval, self.workflows = home.plan, home.tick, home.interval, home.workflows
        self.old: dict[int, Any] = {}


class MatterHome:
    """A plan and the present state of its rooms, devices and clock.

    `tick` counts from 0; a new home is at -1, before its first pass. `interval` is the length of a tick in virtual
    seconds, usually 0.1. `offset` (seconds) keeps the virtual time continuous when the interval changes.
    """

    __slots__ = ("_key", "_old", "_stale", "_undo", "interval", "offset", "plan", "tick", "values", "workflows")

    def __init__(self, plan: HomePlan, values: list[Any], interval: float) -> None:
        self.plan, self.values, self.interval = plan, values, interval
        self.tick, self.offset = -1, 0.0
        self.workflows: tuple[Workflow, ...] = ()
        self._key, self._stale = 0, dict.fromkeys(range(len(values)), ABSENT)
        self._undo: list[tuple[int, Any]] | None = None
        self._old: dict[int, Any] | None = None

    def fork(self) -> MatterHome:
        """An independent copy. It copies the list of values and shares the plan."""
        twin = MatterHome.__new__(MatterHome)
        twin.plan, twin.values, twin.interval = self.plan, self.values.copy(), self.interval
        twin.tick, twin.offset, twin.workflows = self.tick, self.offset, self.workflows
        twin._key, twin._stale, twin._undo, twin._old = self._key, self._stale.copy(), None, None
        return twin

    def state_key(self) -> str:
        """An exact 128-bit hash of plan, values, clock and workflows, in hexadecimal digits."""
        for slot, before in self._stale.items():
            self._key ^= _slot_hash(slot, before) ^ _slot_hash(slot, self.values[slot])
        self._stale.clear()
        clock = state_text((self.tick, self.interval, self.offset))
        rest = text_hash(clock + "".join(flow.state_text for flow in self.workflows))
        return f"{self._key ^ self.plan.plan_hash ^ rest:032x}"

    def set_slot(self, slot: int, value: Any) -> None:
        """Put a value into a slot. Commands and passes use this; an agent's call does not come here directly."""
        before = self.values[slot]
        if before is not value:
            self._stale.setdefault(slot, before)
            if self._undo is not None:
                self._undo.append((slot, before))
            if self._old is not None:
                self._old.setdefault(slot, before)
            self.values[slot] = value

    def make_savepoint(self) -> Savepoint:
        """The present moment. It takes note of what is set from now on, until the next call of this method."""
        moment = Savepoint(self)
        self._old = moment.old
        return moment

    def run_or_undo(self, act: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call `act` and return its result. If it raises, restore all values before the exception goes on."""
        outer = self._undo
        undo = self._undo = [] if outer is None else outer
        mark = len(undo)
        try:
            return act(*given, **named)
        except Exception:
            while len(undo) > mark:
                slot, before = undo.pop()
                self.values[slot] = before
            raise
        finally:
            self._undo = outer

    # Time

    @property
    def elapsed_seconds(self) -> float:
        """Virtual seconds since `base_time`."""
        return self.seconds_at(self.tick)

    def seconds_at(self, tick: int) -> float:
        """Virtual seconds since `base_time` at a tick."""
        if self.interval == 0.1 and not self.offset:
            return tick / 10  # exact; the product `tick * 0.1` can fall short of whole seconds
        return self.offset + tick * self.interval

    @property
    def clock_text(self) -> str:
        """The virtual time as text, cut to whole seconds. After the year 9999 it stays at its last second."""
        left = (datetime.max - self.plan.base_time).total_seconds()
        return (self.plan.base_time + timedelta(seconds=min(self.elapsed_seconds, left - 1))).strftime(TIME_FORMAT)

    # Rooms and devices

    def find_device(self, device_id: Any) -> MatterDevice | None:
        """The device with this id, or None."""
        return self.plan.devices.get(device_id) if isinstance(device_id, str) else None

    def cluster_view(self, device_id: str, cluster: str) -> ClusterView:
        """A view of a device's cluster, at the first endpoint that has it."""
        device = self.plan.devices[device_id]
        return ClusterView(self, device, device.type.endpoint_of[cluster], cluster)

    def shown_attributes(self, device: MatterDevice) -> dict[str, Any]:
        """All attributes of a device that tools show, by flat key."""
        return {key: self.values[slot] for key, slot in device.shown_slots()}

    def room_state(self, room: str) -> dict[str, float]:
        """A room's variables by name: temperature in 0.01 °C, humidity in 0.01 %, illuminance in lux, PM10 in μg/m³."""
        base = self.plan.rooms[room].base
        return {name: self.values[base + i] for i, name in enumerate(VARIABLES)}

    def extend_plan(self, plan: HomePlan, values: list[Any]) -> None:
        """Replace the plan by one that needs more slots, and fill these with `values`."""
        added = range(len(self.values), len(self.values) + len(values))
        self._stale |= dict.fromkeys(added, ABSENT)
        if self._old is not None:
            self._old |= dict.fromkeys(added, ABSENT)
        self.values.extend(values)
        self.plan = plan

    def take_out_device(self, device: MatterDevice) -> None:
        """Take a device out of the plan. Its slots stay, with the value None."""
        for offset in device.offsets.values():
            self.set_slot(device.base + offset, None)
        self.plan = replace(self.plan, devices={key: d for key, d in self.plan.devices.items() if key != device.id})

    def changes_since(self, before: MatterHome | Savepoint) -> tuple[str, ...]:
        """The names of all values, devices and workflows that differ from `before`, an earlier moment of this home."""
        new = self.values
        if isinstance(before, Savepoint):
            old: Iterable[tuple[int, Any]] = sorted(before.old.items(), key=itemgetter(0))
        else:
            old = enumerate((*before.values, *[ABSENT] * (len(new) - len(before.values))))
        slots = [slot for slot, value in old if new[slot] is not value and _slot_text(new[slot]) != _slot_text(value)]
        clock = [] if (before.tick, before.interval) == (self.tick, self.interval) else ["clock"]
        plan = [] if self.plan is before.plan or before.plan.plan_hash == self.plan.plan_hash else ["devices"]
        same = self.workflows is before.workflows
        flows = [] if same else [f"workflow.{flow.id}" for flow in self.workflows if flow not in before.workflows]
        return (*self._name_slots(slots, before.plan), *plan, *flows, *clock)

    def _name_slots(self, slots: Iterable[int], before: HomePlan) -> list[str]:
        """The names of slots, of which some may be in an earlier plan alone."""
        names = self.plan.slot_names if self.plan is before else before.slot_names | self.plan.slot_names
        return [names.get(slot, f"#{slot}") for slot in slots]


def _slot_text(value: Any) -> str | None:
    return None if value is ABSENT else state_text(value)


def _slot_hash(slot: int, value: Any) -> int:
    return 0 if value is ABSENT else _slot_text_hash(slot, state_text(value))


@lru_cache(maxsize=1 << 16)
def _slot_text_hash(slot: int, text: str) -> int:
    return text_hash(f"{slot}={text}")


# Refusals. The envelope and the HTTP status codes are those of the released program's service.

_TYPES_BY_STATUS = {
    400: "COMMAND_INVALID_ARGS COMMAND_EXECUTION_ERROR READ_ONLY VALIDATION_ERROR DEPENDENCY_VIOLATION CONSTRAINT_ERROR "
    "INVALID_ARGUMENT UNSUPPORTED_MODE INVALID_IN_MODE UNSUPPORTED_COMMAND ATTRIBUTE_WRITE_ERROR ATTRIBUTE_INVALID_VALUE "
    "HTTP_ERROR",
    404: "DEVICE_NOT_FOUND ROOM_NOT_FOUND ENDPOINT_NOT_FOUND CLUSTER_NOT_FOUND ATTRIBUTE_NOT_FOUND COMMAND_NOT_FOUND",
    408: "TIMEOUT_ERROR",
    409: "INVALID_STATE DEVICE_ALREADY_EXISTS",
    422: "SCHEMA_ERROR",
    503: "CONNECTION_ERROR",
}
HTTP_STATUS = {type: status for status, types in _TYPES_BY_STATUS.items() for type in types.split()}  # others: 500
LABELS: dict[str, str] = {
    "DEVICE_NOT_FOUND": "Device not found",
    "ENDPOINT_NOT_FOUND": "Endpoint not found",
    "CLUSTER_NOT_FOUND": "Cluster not found",
    "ATTRIBUTE_NOT_FOUND": "Attribute not found",
    "DEPENDENCY_VIOLATION": "Power dependency violation",
    "INTERNAL_ERROR": "An internal error occurred",
}


class OperationError(Exception):
    """An operation that the home refuses.

    `type` is an error type of the paper, such as `DEVICE_NOT_FOUND`. `detail` says why in words. `label` is a short
    text; a workflow that failed shows it.
    """

    def __init__(self, type: str, detail: str = "", label: str = "") -> None:
        self.type, self.detail = type, detail
        self.label = label or LABELS.get(type, detail or type)
        super().__init__(f"{type}: {detail or self.label}")

    @property
    def http_status(self) -> int:
        """The HTTP status code of the error type."""
        return HTTP_STATUS.get(self.type, 500)


class UnhandledError(OperationError):
    """An error that the released program does not handle: an agent sees 500, and a workflow never gets over its step."""

    def __init__(self, detail: str) -> None:
        super().__init__("INTERNAL_ERROR", detail)


def refuse_unless(holds: Any, type: str, detail: str = "", label: str = "") -> None:
    """Raise `OperationError` of a type unless `holds` is true."""
    if not holds:
        raise OperationError(type, detail, label)


def is_integer(value: Any) -> bool:
    """Whether a value is an integer. Booleans are integers here, as in the released program."""
    return isinstance(value, int)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number. Booleans count, as they do in arithmetic."""
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")


def error_envelope(code: int, message: str, type: str, detail: str) -> dict[str, Any]:
    """The envelope of a refused call."""
    return {"status": {"code": code, "message": message}, "data": None, "error": {"type": type, "detail": detail}}
