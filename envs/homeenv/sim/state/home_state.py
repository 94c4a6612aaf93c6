"""The state of a home: a plan, one flat list of values, a clock, rules and air (HomeFlow eq. 2); and service calls on it.

Service calls are the only way in which agents and automations change the values of devices. `time_passing.py` lets time
pass, and `home.py` offers both as methods.

Invariants:
- A call that is refused changes nothing.
- A fork is independent of its parent.
- `state_key` covers plan, values, clock, rules and air, and is the same in every process. States with equal keys behave
  alike from then on.
- State keys are stored in trajectories. They hash texts of `envs/core/state_encoding.py`, so no Python name is part of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from homerl.envs.core.state_encoding import state_text, text_hash
from homerl.envs.homeenv.sim.devices.air_physics import RoomAir, WeatherChange
from homerl.envs.homeenv.sim.devices.attribute_limits_and_services import Service
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import ROOM_STATE, Room
from homerl.envs.homeenv.sim.devices.service_execution import CompiledService
from homerl.envs.homeenv.sim.plan.fixed_plan import LATEST, FixedPlan
from homerl.envs.homeenv.sim.plan.import_origin import Origin
from homerl.envs.homeenv.sim.state.rules_and_programs import HomeRule
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
        self._key = 0
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
        in seconds since the epoch (local time). `bias` is that of `Plan`. Without it, the bias is chosen such that the air
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
        twin = type(self).__new__(type(self))
        twin.plan, twin.values, twin.clock, twin._key = self.plan, self.values.copy(), self.clock, self._key
        twin.air = None if self.air is None else self.air.copy()
        twin.rules, twin.air_stale = self.rules, self.air_stale
        return twin

    def state_key(self) -> str:
        """A 128-bit hash of plan, values, clock, rules and air, in hex."""
        return f"{self._key ^ self.plan.content_digest ^ text_hash(f'clock={self.clock}{self._rules_and_air_text()}'):032x}"

    def _rules_and_air_text(self) -> str:
        """Rules and air as text; empty for a home without rules whose clock never moved."""
        if not self.air:
            return state_text(self.rules) if self.rules else ""
        return state_text((self.rules, self.air))

    def write_slot(self, slot: int, value: Any) -> None:
        """Write a canonical value to a slot and update the state key. It is not for agents, which use service calls."""
        before = self.values[slot]
        if before is not value:
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


@lru_cache(maxsize=1 << 18)
def _slot_text_hash(slot: int, text: str) -> int:
    return text_hash(f"{slot}={text}")


def call_service(
    home: HomeState, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Call a service of device `did` by its dotted path, with positional and named arguments. Raises `Refused`.

    Returns the plain data that the service `returns`, or None.
    """
    try:
        compiled, base = home.plan.compiled_services[did, service]
    except (KeyError, TypeError):
        raise _unknown_service_refusal(home.plan, did, service) from None
    outcome = compiled.compute_outcome(home.values, base, bind_call_arguments(home.plan, compiled, args, kwargs or {}))
    for slot, value in outcome.updates:
        home.write_slot(slot, value)
    return outcome.returned


def bind_call_arguments(
    plan: FixedPlan, compiled: CompiledService, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The canonical arguments of a call by name, with rooms by their ids. Raises `Refused` if they do not fit."""
    return replace_rooms_by_ids(plan, compiled.service, compiled.bind_arguments(args, kwargs))


def replace_rooms_by_ids(plan: FixedPlan, service: Service, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with the ids of rooms that they name. Raises `Refused` if there is no such room, or several."""
    for argument in service.arguments:
        if argument.rooms and (value := arguments.get(argument.name)) is not None:
            ids = (
                plan.find_room(value).id if isinstance(value, str) else tuple(plan.find_room(called).id for called in value)
            )
            arguments = arguments | {argument.name: ids}
    return arguments


def _unknown_service_refusal(plan: FixedPlan, did: Any, service: Any) -> Refused:
    if not isinstance(did, str) or did not in plan.devices_by_did:
        return Refused("unknown_device", f"there is no device {quote_value(did)}")
    device = plan.devices_by_did[did]
    known = ", ".join(device.spec.service_index) or "no services"
    return Refused("unknown_service", f"{device.name} {did} has no service {quote_value(service)} (it has {known})")
