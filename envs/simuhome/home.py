"""A home: an immutable plan, one flat list of values, a clock in ticks and the workflows that wait.

Invariants: `fork` is independent of its parent (values are never changed in place); `state_key` is exact and the same
in every process; a call that fails inside `attempt` has changed nothing; at any moment passes 0..tick are done, and
workflows due before `tick`: one due at `tick` acts when time next moves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from envs.simuhome.config import TIME_FORMAT, VARIABLES
from envs.simuhome.spec import Cluster, DeviceType, enum_member

ABSENT = object()  # stands for the value of a slot that was not there


@dataclass(frozen=True)
class Device:
    """A device: its values begin at `base`; `offsets` are its type's, and more if it was loaded with more."""

    id: str
    type: DeviceType
    room: str
    base: int
    offsets: Mapping[str, int]

    def flat(self) -> Iterator[tuple[str, int]]:
        """The keys that tools show, and their slots."""
        return ((key, self.base + offset) for key, offset in self.offsets.items() if ".#" not in key)


@dataclass(frozen=True)
class Room:
    """A room: four variables, then for each what acts on it (`air.Influence`). `baseline` is where they return to."""

    name: str
    base: int
    baseline: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """What no command changes. Devices are in the order in which they were added."""

    strict: bool
    base_time: datetime
    rooms: Mapping[str, Room]
    devices: Mapping[str, Device]
    aggregators: bool = True
    max_ticks: int | None = None

    @cached_property
    def by_room(self) -> dict[str, tuple[Device, ...]]:
        """The devices of each room, in the order in which they were added."""
        return {name: tuple(d for d in self.devices.values() if d.room == name) for name in self.rooms}

    @cached_property
    def owners(self) -> dict[int, str]:
        """The name of each slot, for people: `kitchen.humidity`, `kitchen_fan_1.1.OnOff.OnOff`."""
        names = {room.base + i: f"{room.name}.{name}" for room in self.rooms.values() for i, name in enumerate(VARIABLES)}
        for device in self.devices.values():
            names |= {device.base + offset: f"{device.id}.{key}" for key, offset in device.offsets.items()}
        return names

    @cached_property
    def digest(self) -> int:
        """A 128-bit hash of everything in the plan."""
        rooms = [(r.name, r.base, r.baseline) for r in self.rooms.values()]
        devices = [(d.id, d.type.name, d.room, d.base, tuple(d.offsets)) for d in self.devices.values()]
        return text_hash(repr((self.strict, self.base_time, rooms, devices, self.aggregators, self.max_ticks)))


@dataclass(frozen=True)
class Workflow:
    """Steps that wait for a virtual time, and how far they have come.

    `due` is the tick at which they act, `start_time` the same as text. `steps` is JSON text, so it never changes and hashes
    by its content; `total` counts them.
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
    def text(self) -> str:
        """Everything of the workflow, for the key of a home."""
        return repr(self)

    def record(self) -> dict[str, Any]:
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
    """A cluster of a device of a home, to read and write: `view["OnOff"] = True`."""

    __slots__ = ("_prefix", "cluster", "device", "endpoint", "home")

    def __init__(self, home: Home, device: Device, endpoint: int, cluster: str) -> None:
        self.home, self.device, self.endpoint, self.cluster = home, device, endpoint, cluster
        self._prefix = f"{endpoint}.{cluster}."

    def __getitem__(self, attribute: str) -> Any:
        return self.home.values[self.device.base + self.device.offsets[self._prefix + attribute]]

    def __setitem__(self, attribute: str, value: Any) -> None:
        self.home.set(self.device.base + self.device.offsets[self._prefix + attribute], value)

    def __contains__(self, attribute: str) -> bool:
        return self._prefix + attribute in self.device.offsets

    def set_enum(self, attribute: str, value: Any) -> None:
        """Write a number, or a list of them, as members of the attribute's enumeration."""
        self[attribute] = enum_member(self.spec.enums[attribute], value)

    def sibling(self, cluster: str) -> ClusterView:
        """Another cluster that the same device has, wherever it is."""
        return ClusterView(self.home, self.device, self.device.type.endpoint_of[cluster], cluster)

    def has_cluster(self, cluster: str) -> bool:
        """Whether the device has a cluster, wherever it is."""
        return cluster in self.device.type.endpoint_of

    @property
    def spec(self) -> Cluster:
        """The cluster as the catalogue has it."""
        return self.device.type.endpoints[self.endpoint][self.cluster]

    @property
    def strict(self) -> bool:
        """Whether the home keeps to the reference, its slips included."""
        return self.home.plan.strict

    @property
    def is_on(self) -> bool:
        """Whether the device is on; one that has no OnOff is not."""
        return self.has_cluster("OnOff") and self.sibling("OnOff")["OnOff"] is True


class Home:
    """A plan and its present state. `offset` keeps virtual seconds from jumping when the tick interval changes."""

    __slots__ = ("_key", "_stale", "_undo", "interval", "offset", "plan", "tick", "values", "workflows")

    def __init__(self, plan: Plan, values: list[Any], interval: float) -> None:
        self.plan, self.values, self.interval = plan, values, interval
        self.tick, self.offset = -1, 0.0
        self.workflows: tuple[Workflow, ...] = ()
        self._key, self._stale = 0, dict.fromkeys(range(len(values)), ABSENT)
        self._undo: list[tuple[int, Any]] | None = None

    def fork(self) -> Home:
        """An independent copy: one list copy, the plan is shared."""
        twin = Home.__new__(Home)
        twin.plan, twin.values, twin.interval = self.plan, self.values.copy(), self.interval
        twin.tick, twin.offset, twin.workflows = self.tick, self.offset, self.workflows
        twin._key, twin._stale, twin._undo = self._key, self._stale.copy(), None
        return twin

    def state_key(self) -> str:
        """An exact 128-bit hash of plan, state, clock and pending workflows, in hex."""
        for slot, before in self._stale.items():
            self._key ^= _slot_hash(slot, before) ^ _slot_hash(slot, self.values[slot])
        self._stale.clear()
        rest = text_hash(repr((self.tick, self.interval, self.offset)) + "".join(flow.text for flow in self.workflows))
        return f"{self._key ^ self.plan.digest ^ rest:032x}"

    def set(self, slot: int, value: Any) -> None:
        """Put a value in a slot. For commands and the passage of time, not for agents."""
        before = self.values[slot]
        if before is not value:
            self._stale.setdefault(slot, before)
            if self._undo is not None:
                self._undo.append((slot, before))
            self.values[slot] = value

    def attempt(self, act: Callable[[], Any]) -> Any:
        """Do all of `act`, or raise and leave the values as they were."""
        outermost = self._undo is None
        undo = self._undo = [] if self._undo is None else self._undo
        mark = len(undo)
        try:
            return act()
        except Exception:
            while len(undo) > mark:
                slot, before = undo.pop()
                self.values[slot] = before
            raise
        finally:
            if outermost:
                self._undo = None

    # Time

    @property
    def seconds(self) -> float:
        """Virtual seconds since `base_time`."""
        return self.seconds_at(self.tick)

    def seconds_at(self, tick: int) -> float:
        """Virtual seconds since `base_time` at a tick."""
        if self.interval == 0.1 and not self.offset:
            return tick / 10  # exact, where a product of doubles would fall short of whole seconds
        return self.offset + tick * self.interval

    @property
    def now(self) -> str:
        """The shown time, cut to whole seconds."""
        return (self.plan.base_time + timedelta(seconds=int(self.seconds))).strftime(TIME_FORMAT)

    # Rooms and devices

    def device(self, device_id: Any) -> Device | None:
        """The device of this id, or None."""
        return self.plan.devices.get(device_id) if isinstance(device_id, str) else None

    def view(self, device_id: str, cluster: str, endpoint: int | None = None) -> ClusterView:
        """A cluster of a device, at its first endpoint unless one is given."""
        device = self.plan.devices[device_id]
        return ClusterView(self, device, device.type.endpoint_of[cluster] if endpoint is None else endpoint, cluster)

    def attributes(self, device: Device) -> dict[str, Any]:
        """All that tools show of a device, by flat key."""
        return {key: self.values[slot] for key, slot in device.flat()}

    def room_state(self, room: str) -> dict[str, float]:
        """A room's variables by name: hundredths of a degree and of a percent, lux, μg/m³."""
        base = self.plan.rooms[room].base
        return {name: self.values[base + i] for i, name in enumerate(VARIABLES)}

    def extend(self, plan: Plan, values: list[Any]) -> None:
        """Go on with a plan that has `values` more."""
        self._stale |= dict.fromkeys(range(len(self.values), len(self.values) + len(values)), ABSENT)
        self.values.extend(values)
        self.plan = plan

    def remove(self, device: Device) -> None:
        """Forget a device; what the plan keeps of it are empty slots."""
        for offset in device.offsets.values():
            self.set(device.base + offset, None)
        self.plan = replace(self.plan, devices={key: d for key, d in self.plan.devices.items() if key != device.id})

    def changes(self, before: Home) -> tuple[str, ...]:
        """All in which this home differs from what it was, as text."""
        old, new = before.values, self.values
        names = self.plan.owners if self.plan is before.plan else before.plan.owners | self.plan.owners
        slots = [
            names.get(slot, f"#{slot}")
            for slot, value in enumerate(new)
            if slot >= len(old) or (value is not old[slot] and repr(value) != repr(old[slot]))
        ]
        clock = [] if (before.tick, before.interval) == (self.tick, self.interval) else ["clock"]
        plan = [] if before.plan.digest == self.plan.digest else ["devices"]
        flows = [f"workflow.{flow.id}" for flow in self.workflows if flow not in before.workflows]
        return (*slots, *plan, *flows, *clock)


def text_hash(text: str) -> int:
    """A 128-bit hash that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest(), "big")


def _slot_hash(slot: int, value: Any) -> int:
    return 0 if value is ABSENT else _slot_text_hash(slot, repr(value))


@lru_cache(maxsize=1 << 16)
def _slot_text_hash(slot: int, text: str) -> int:
    return text_hash(f"{slot}={text}")
