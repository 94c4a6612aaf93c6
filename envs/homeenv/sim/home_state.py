"""The state of a home: a plan, one flat list of values, a clock, rules and air (HomeFlow eq. 2); and service calls on it.

Service calls are the only way in which agents and automations change the values of devices. `home.py` lets time pass, and
calls the functions at the end of this file at each event.

Invariants:
- A call that is refused changes nothing.
- A fork is independent of its parent.
- `state_key` covers plan, values, clock, rules and air, and is the same in every process. States with equal keys behave
  alike from then on.
- State keys are stored in trajectories. They hash texts of `envs/core/state_encoding.py`, so no Python name is part of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from homerl.envs.core.state_encoding import state_text, text_hash
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, RoomAir, WeatherChange, air_goal
from homerl.envs.homeenv.sim.devices.attributes_and_services import Service
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import ROOM_STATE, Room
from homerl.envs.homeenv.sim.home_plan import LATEST, AirReading, FixedPlan, Origin
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value


@dataclass(frozen=True)
class SlotChange:
    """One slot that differs between two states. `slot` is its index in the plan."""

    slot: int
    before: Any
    after: Any


class HomeState:
    """A plan, the values of its slots, a clock in seconds since the epoch (local time), rules and air.

    `rules` are the automations, in the order in which they act. `air` is None until the clock first moves. `air_stale` says
    that a value may have changed since the air was last updated. The air is updated when the clock next moves.
    """

    __slots__ = ("_key", "air", "air_stale", "clock", "plan", "rules", "values")

    def __init__(self, plan: FixedPlan, values: Sequence[Any], clock: int = 0) -> None:
        if len(values) != len(plan.slots):
            raise ValueError(f"a home with {len(plan.slots)} slots got {len(values)} values")
        if not 0 <= clock <= LATEST:
            raise ValueError(f"the clock counts the seconds since 1970, from 0 to {LATEST}, and is {quote_value(clock)}")
        self.plan, self.values, self.clock = plan, list(values), clock
        self.air: list[RoomAir] | None = None
        self.rules: tuple[HomeRule, ...] = ()
        self.air_stale = False
        self._key = 0  # the XOR of one hash for each slot, so that a write changes it in constant time
        for slot, value in enumerate(self.values):
            self._key ^= _slot_hash(slot, value)

    @classmethod
    def build_home(
        cls,
        rooms: Iterable[Room],
        devices: Iterable[Device],
        state: Mapping[str, Mapping[str, Any]],
        clock: int = 0,
        entrance: str | None = None,
        forecast: Iterable[WeatherChange] = (),
        bias: Sequence[tuple[float, float]] | None = None,
        origin: Origin | None = None,
    ) -> Self:
        """A home from its parts. Raises `ValueError` if they do not fit together or a value is missing or invalid.

        `state` gives every value of every owner, by owner and path, but for what devices complete by themselves. `clock` is
        in seconds since the epoch (local time). `bias` is that of the plan. Without it, the bias is chosen such that the air
        in `state` is a steady state.
        """
        plan = FixedPlan(tuple(rooms), tuple(devices), entrance, tuple(forecast), tuple(bias or ()), origin)
        incomplete = [device for device in plan.devices if device.spec.needs_completion and device.did in state]
        try:  # devices work out derived attributes, and such as start by themselves
            state = {**state, **{device.did: device.spec.complete_values(state[device.did]) for device in incomplete}}
        except Refused as error:
            raise ValueError(f"the state is wrong: {error.message}") from None
        values = []
        for slot in plan.slots:
            try:
                values.append(slot.type.check_value(state[slot.owner][slot.path], str(slot)))
            except KeyError:
                raise ValueError(f"the state gives no value for {slot}") from None
            except Refused as error:
                raise ValueError(f"the state is wrong: {error.message}") from None
        if bias is None:
            # Safe although a plan never changes: no other code has this plan yet.
            object.__setattr__(plan, "bias", plan.time_wiring.compute_air_bias(values))
        return cls(plan, values, clock)

    def fork(self) -> Self:
        """An independent copy. It copies the list of values and shares the immutable plan and rules."""
        twin = type(self).__new__(type(self))  # `__init__` would check and hash each value again
        twin.plan, twin.values, twin.clock, twin._key = self.plan, self.values.copy(), self.clock, self._key
        twin.air = None if self.air is None else self.air.copy()
        twin.rules, twin.air_stale = self.rules, self.air_stale
        return twin

    def state_key(self) -> str:
        """A 128-bit hash of plan, values, clock, rules and air, in hex."""
        # The parts are independent hashes of 128 bits, so their XOR is as good as a hash of all texts in a row.
        return f"{self._key ^ self.plan.content_digest ^ text_hash(f'clock={self.clock}{self._rules_and_air_text()}'):032x}"

    def _rules_and_air_text(self) -> str:
        """Rules and air as text; empty for a home without rules whose clock never moved."""
        if not self.air:
            return state_text(self.rules) if self.rules else ""
        return state_text((self.rules, self.air))

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a service of device `did` by its dotted path. Raises `Refused`, in which case nothing has changed.

        Returns the plain data that the service `returns`, or None.
        """
        try:
            compiled, base = self.plan.compiled_services[did, service]
        except (KeyError, TypeError):
            device = self.plan.find_device(did)
            known = ", ".join(device.spec.service_index) or "no services"
            what = f"{device.name} {did} has no service {quote_value(service)} (it has {known})"
            raise Refused("unknown_service", what) from None
        arguments = replace_rooms_by_ids(self.plan, compiled.service, compiled.bind_arguments(args, kwargs or {}))
        outcome = compiled.compute_outcome(self.values, base, arguments)
        for slot, value in outcome.updates:
            self.write_slot(slot, value)
        return outcome.returned

    def write_slot(self, slot: int, value: Any) -> None:
        """Write a canonical value to a slot and update the state key. It is not for agents, which use service calls."""
        before = self.values[slot]
        if before is not value:  # by identity, since 1 == 1.0 == True, and their texts in the key differ
            self._key ^= _slot_hash(slot, before) ^ _slot_hash(slot, value)
            self.values[slot] = value
            self.air_stale = True

    def read_value(self, owner: str, path: str) -> Any:
        """The value of a device's attribute (dotted path) or of a room's state. Raises `Refused` if there is none."""
        return self.values[self.plan.slot_of(owner, path)]

    def diff(self, other: HomeState) -> list[SlotChange]:
        """Every slot in which `other` differs. `before` is this home's value, `after` the other's.

        Raises `ValueError` if the plans differ.
        """
        if other.plan is not self.plan and other.plan.content_digest != self.plan.content_digest:
            raise ValueError("homes with different plans cannot be compared")
        pairs = enumerate(zip(self.values, other.values))
        return [SlotChange(slot, mine, theirs) for slot, (mine, theirs) in pairs if mine != theirs]

    def state_of(self, owner: str) -> dict[str, Any]:
        """All values of a device, a room or `outdoors` by path. `owner` is its id."""
        if owner in self.plan.devices_by_did:
            base, index = self.plan.base[owner], self.plan.devices_by_did[owner].spec.attribute_index
            return {path: self.values[base + offset] for path, (offset, _) in index.items()}
        return {path: self.read_value(owner, path) for path in ROOM_STATE}

    def readable_state_of(self, did: str) -> dict[str, Any]:
        """The values of a device by path that agents are told of."""
        base, spec = self.plan.base[did], self.plan.devices_by_did[did].spec
        return {path: self.values[base + spec.attribute_index[path][0]] for path in spec.readable_attributes}

    @property
    def readable_rules(self) -> tuple[HomeRule, ...]:
        """The automations that agents are told of."""
        hidden = {one.id for one in self.plan.origin.hidden} if self.plan.origin else ()
        return tuple(rule for rule in self.rules if rule.id not in hidden)

    def find_devices(self, room: str | None = None, category: str | None = None) -> Iterator[Device]:
        """The devices in the order of the plan, optionally only those of a room (by its id) and of a category."""
        for device in self.plan.devices:
            if room in (None, device.room.id) and category in (None, device.spec.category):
                yield device


def _slot_hash(slot: int, value: Any) -> int:
    return _slot_text_hash(slot, state_text(value))


@lru_cache(maxsize=1 << 18)  # homes share many values, and a hash costs more than a look-up
def _slot_text_hash(slot: int, text: str) -> int:
    return text_hash(f"{slot}={text}")


def replace_rooms_by_ids(plan: FixedPlan, service: Service, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with the ids of rooms that they name. Raises `Refused` if there is no such room, or several."""
    for argument in service.arguments:
        if argument.rooms and (value := arguments.get(argument.name)) is not None:
            ids = (
                plan.find_room(value).id if isinstance(value, str) else tuple(plan.find_room(called).id for called in value)
            )
            arguments = arguments | {argument.name: ids}
    return arguments


# What time does between events (`home.py` calls this at each event)


def update_air(home: HomeState, rooms: Iterable[int] | None = None) -> list[RoomAir]:
    """Bring the air of rooms up to date with their devices. Returns the air of all rooms, in the order of the plan.

    `rooms` are the indices of the rooms to update, by default all. The first call creates the air from the room's state.
    """
    wiring, clock, outdoors = home.plan.time_wiring, home.clock, Outdoors(*home.values[:3])
    if home.air is None:
        states = [(room, room.air_inputs_of(home.values), home.values[room.slot : room.slot + 2]) for room in wiring.rooms]
        home.air = [
            RoomAir(clock, warm, humid, air_goal(room.shell, bias, outdoors, devices), devices, bias, room.shell)
            for (room, devices, (warm, humid)), bias in zip(states, home.plan.bias)
        ]
    elif home.air_stale:
        for index in range(len(home.air)) if rooms is None else rooms:
            home.air[index] = current_air(home, home.air[index]).with_devices(
                wiring.rooms[index].air_inputs_of(home.values), clock, outdoors
            )
    return home.air


def current_air(home: HomeState, air: RoomAir) -> RoomAir:
    """The air of a room after all weather changes between `air.since` and the clock."""
    moments = home.plan.time_wiring.moments
    first, last = bisect_right(moments, air.since), bisect_right(moments, home.clock)
    return air.after_weather(home.plan.forecast[first:last]) if first < last else air


def write_readings(home: HomeState, air: list[RoomAir], rooms: Iterable[int], readings: Iterable[AirReading]) -> None:
    """Bring the air of these rooms up to date, then write these readings to their slots."""
    for room in rooms:
        air[room] = current_air(home, air[room])
    for reading in readings:
        home.write_slot(reading.slot, reading.value_at(air, home.clock))
    _write_derived(home)


def weather_at(home: HomeState, clock: int) -> Outdoors | None:
    """The weather that begins at exactly this second; None if there is no change."""
    index = bisect_right(home.plan.time_wiring.moments, clock) - 1
    return home.plan.forecast[index].outdoors if index >= 0 and home.plan.forecast[index].clock == clock else None


def advance_counters(home: HomeState, seconds: int) -> None:
    """Let counters grow and attributes move for `seconds`. A counter is 0 while its condition does not hold."""
    for counter in home.plan.time_wiring.counters:
        home.write_slot(counter.slot, counter.value_after(home.values, seconds))
    for mover in home.plan.time_wiring.movers:
        home.write_slot(mover.slot, mover.value_after(home.values, home.clock, seconds))
    _write_derived(home)


def _write_derived(home: HomeState) -> None:
    """Give derived attributes the values that follow from the others."""
    for follower in home.plan.time_wiring.followers:
        home.write_slot(follower.slot, follower.value_to_write(home.values))
