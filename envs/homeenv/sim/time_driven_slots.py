"""The parts of a home that change with time alone: the air of rooms, the slots that show it, counters, and what moves.

Invariants:
- A `TimeWiring` depends on the parts of a plan alone and never changes.
- A room is identified by its index in the plan, and a slot by its index in the flat values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, floor, inf
from typing import Any

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
from homerl.envs.homeenv.sim.devices.attributes_and_services import ServiceScope
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import ROOM_STATE, Room
from homerl.envs.homeenv.sim.devices.self_changing_attributes import (
    UNKNOWN,
    CompiledCounter,
    CompiledDerived,
    CompiledMotion,
)
from homerl.envs.homeenv.sim.values.expressions import Numbers, path_of, thresholds_of
from homerl.envs.homeenv.sim.values.types_and_ranges import LARGEST, ValueType


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


@dataclass(frozen=True)
class SlotCounter:
    """A slot that counts for how many seconds a condition of its device has held.

    `base` is the first slot of the device. `reads` are those slots of the condition that show the air, so they change with
    time.
    """

    slot: int
    base: int
    type: ValueType
    counter: CompiledCounter
    reads: tuple[int, ...]

    @property
    def largest_value(self) -> int:
        """The largest value (s). The counter stops there."""
        return int(self.type.range[1]) if self.type.range else LARGEST

    def is_counting(self, values: Sequence[Any]) -> bool:
        """Whether the counter grows, given the flat values."""
        return self.counter.is_counting(ServiceScope(values, self.base, {}))

    def value_after(self, values: Sequence[Any], seconds: int) -> int:
        """The value after `seconds` if nothing else changes; 0 if the condition does not hold."""
        return min(values[self.slot] + seconds, self.largest_value) if self.is_counting(values) else 0


@dataclass(frozen=True)
class SlotMover:
    """A slot whose value moves to a target. `base` is the first slot of the device."""

    slot: int
    base: int
    motion: CompiledMotion

    def target_value(self, values: Sequence[Any]) -> Any:
        """Where the value moves to, given the flat values; its present value if it stands still."""
        return self.motion.target_value(ServiceScope(values, self.base, {}))

    def value_after(self, values: Sequence[Any], clock: int, seconds: int) -> Any:
        """The value `seconds` after `clock` if nothing else changes."""
        if not seconds:
            return values[self.slot]
        return self._value_after_steps(values, self._steps_until(clock + seconds) - self._steps_until(clock))

    def next_time_outside(self, values: Sequence[Any], clock: int, low: float, high: float) -> int | None:
        """The first clock (s) at which the value is not strictly between two numbers; None if it stops before.

        If the two are the present value, this is the clock at which the value next changes.
        """
        value, target = values[self.slot], self.target_value(values)
        if value is None:
            return None
        edge, step = high if target > value else low, self.motion.step_size
        if target == value or not (target >= edge if target > value else target <= edge):
            return None
        count = max(ceil(min(abs(edge - value), abs(target - value)) / step) - 1, 1)
        while low < self._value_after_steps(values, count) < high or self._value_after_steps(values, count) == value:
            count += 1
        seconds: int = ceil((self._steps_until(clock) + count) / self.motion.rate)
        return seconds

    def _steps_until(self, clock: int) -> int:
        """The number of steps that a motion has made from the epoch to the clock."""
        return floor(clock * self.motion.rate)

    def _value_after_steps(self, values: Sequence[Any], steps: int) -> Any:
        """The value after this many steps towards the target. What has no value, or no target, stands still."""
        value, target = values[self.slot], self.target_value(values)
        if value is None or target is None:
            return value
        way = steps * self.motion.step_size
        if way >= abs(target - value):
            return target
        return self.motion.attribute.check_value(value + way if target > value else value - way)


@dataclass(frozen=True)
class DerivedSlot:
    """A derived slot. `reads` are the slots that it is derived from. `base` is the first slot of the device."""

    slot: int
    base: int
    derived: CompiledDerived
    reads: Mapping[str, int]

    def derived_value(self, values: Sequence[Any]) -> Any:
        """What the slot holds, given the flat values; its present value where none can be computed."""
        try:
            return self.derived.derived_value(ServiceScope(values, self.base, {}))
        except UNKNOWN:
            return values[self.slot]

    @cached_property
    def slot_thresholds(self) -> Mapping[int, Numbers]:
        """For each slot that it reads, the numbers at which its value may change."""
        return thresholds_of(self.derived.tree, self._slot_of_node, self.reads.values())

    def _slot_of_node(self, node: ast.expr) -> int | None:
        root, names = path_of(node)
        ours = isinstance(root, ast.Name) and root.id == "self" and len(names) == 1
        return self.reads.get(names[0]) if ours else None


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
        self.counters = [counter for device in devices for counter in self._device_counters(device, base[device.did])]
        self.counter_of = {counter.slot: counter for counter in self.counters}
        self.movers = [SlotMover(base[d.did] + m.offset, base[d.did], m) for d in devices for m in d.spec.compiled_motions]
        self.mover_of = {mover.slot: mover for mover in self.movers}
        self.followers = [
            DerivedSlot(first + part.offset, first, part, {name: first + at for name, at in part.names.items()})
            for device in devices
            for first in [base[device.did]]
            for part in device.spec.compiled_derived
        ]
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

    def _device_counters(self, device: Device, base: int) -> Iterator[SlotCounter]:
        shown = {reading.slot for reading in self.readings_of[device.did]}
        for path, counter in device.spec.counter_index.items():
            reads = tuple(sorted({base + at for at in counter.reads} & shown))
            kind = device.spec.attribute_index[path][1]
            yield SlotCounter(base + counter.offset, base, kind, counter, reads)

    def compute_air_bias(self, values: Sequence[Any]) -> tuple[tuple[float, float], ...]:
        """For each room, by how much its temperature (celsius) and humidity (percent) exceed the steady state.

        `values` are the flat values of a home. The first three are the weather.
        """
        outdoors, offsets = Outdoors(*values[:3]), []
        for room in self.rooms:
            goal = steady_air(room.shell, outdoors, room.air_inputs_of(values))
            offsets.append((round(values[room.slot] - goal[0], 2), round(values[room.slot + 1] - goal[1], 2)))
        return tuple(offsets)
