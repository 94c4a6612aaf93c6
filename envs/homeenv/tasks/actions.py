"""What can be done in a home: single changes, each with its reference calls and its condition, and how to undo them.

An `Operation` is a service with a value before a device is chosen: one of several, or the same on several devices.

Invariants:
- An action can be executed in the home that it was made for.
- Its condition holds after its calls.
- Values are ones that people say. Actions of `actions`, `propose_action` and `make_action` change the home, and not only
  by turning a device on. An action of `try_service` may change nothing.
- If the calls of `find_restoring_calls` are made in the later home, every attribute of the device has its earlier value.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.homeenv.language.meaning import Act, SpokenValue, Target, parts_of_kind, spoken_step
from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument, Service
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.blueprint import Call

SPOKEN_TYPES = ("str", "enum", "bool", "int", "float")
NAMED = {"turn_on": "brightness_pct"}  # by service, the argument that may be left out and whose value people name


@dataclass(frozen=True)
class DeviceAction:
    """One service call on one device, with the calls that enable it and the condition that holds afterwards.

    `path` is the dotted path of the service, and `value` that of its spoken argument (None if the call gives none). Where a
    service sets a state that people switch (`DeviceSpec.switches`), `path` is what they call that, such as `turn_on`. `plan`
    is the reference solution: the call, after the call that turns the device on if the service needs that.
    """

    device: Device
    path: str
    value: Any
    plan: tuple[Call, ...]
    condition: str

    @property
    def service(self) -> str:
        """The name of the service: the last component of `path`."""
        return self.path.rpartition(".")[2]

    @property
    def part_name(self) -> str:
        """The part of the device that has the service, or "" for the device itself."""
        return self.path.rpartition(".")[0]

    @property
    def value_type(self) -> ValueType | None:
        """The type of the spoken argument, or None if the call gives none."""
        if self.path in self.device.spec.switch_services:
            return None
        return given_argument(self.device.spec.service_index[self.path].service, self.value)

    @property
    def target(self) -> Target:
        """The device, or its part, by its name."""
        return Target.of_device(self.device, self.part_name)

    @property
    def spoken_value(self) -> SpokenValue:
        """The value of the spoken argument, as a meaning."""
        return SpokenValue(self.value, self.value_type)

    @property
    def asked_service(self) -> str:
        """What people ask for: the service, or `set_` and the argument if it may be left out."""
        return spoken_service_name(self.service, self.value_type)

    def act(self, target: Target | None = None) -> Act:
        """The action as a request: of the device by its name, or of `target`, which includes the device."""
        return Act(self.asked_service, target or self.target, self.value, self.value_type)


def actions(home: Home, rng: random.Random, devices: Sequence[Device] | None = None) -> Iterator[DeviceAction]:
    """Actions in random order, at most one for each service of each device.

    With `devices`, only these devices are considered. In an imported home each device comes once before one comes twice:
    there a media player has twenty services, and a lamp three.
    """
    among = home.plan.devices if devices is None else devices
    pairs = [(device, path) for device in among for path in device.spec.service_index]
    rng.shuffle(pairs)
    if home.plan.origin:  # in rounds, each with one path of every device that has some left, in one random order
        dids = list(dict.fromkeys(device.did for device, _ in pairs))
        rank = {did: number for number, did in enumerate(rng.sample(dids, len(dids)))}
        seen, turns = Counter[str](), []
        for device, path in pairs:
            seen[device.did] += 1
            turns.append((seen[device.did], rank[device.did], device, path))
        pairs = [(device, path) for _, _, device, path in sorted(turns, key=lambda turn: turn[:2])]
    for device, path in pairs:
        if action := propose_action(home, device, path, rng):
            yield action


def propose_action(home: Home, device: Device, path: str, rng: random.Random) -> DeviceAction | None:
    """The action of calling `path` with a random value.

    None if people cannot say its values, if the home refuses the call, or if nobody would ask for it.
    """
    if switched := [name for name, (service, _) in device.spec.switch_services.items() if service == path]:
        return make_action(home, device, rng.choice(switched))
    service = device.spec.service_index[path].service
    argument = spoken_argument(service)
    if sum(one.required for one in service.arguments) > 1 or not (argument is None or can_type_be_said(argument)):
        return None
    if argument is None or (not argument.required and rng.random() < 0.5):
        return make_action(home, device, path)
    return make_action(home, device, path, draw_spoken_value(argument, rng))


def make_action(home: Home, device: Device, path: str, value: Any = None) -> DeviceAction | None:
    """The action of calling `path` with this value; None if the home refuses the call or nobody would ask for it."""
    action, changes = try_service(home, device, path, value)
    return action if action and changes and is_asked_for(home, action) else None


def is_asked_for(home: Home, action: DeviceAction) -> bool:
    """Whether people would ask for an action that changes something.

    It must change more than the call that turns the device on for it. Nobody turns a device on to end something on it.
    """
    turn_on = call_for_path(action.device, _turn_on_path(action.path))
    enabling = [call for call in action.plan[:-1] if call == turn_on]  # it comes first
    enabled = home_after_calls(home, enabling)
    if enabled.values == home_after_calls(enabled, action.plan[len(enabling) :]).values:
        return False
    return enabled.values == home.values or not (action.value is False or action.value == "none")


def try_service(home: Home, device: Device, path: str, value: Any = None) -> tuple[DeviceAction | None, bool]:
    """The action of calling `path` with this value, and whether it would change something.

    (None, False) if the home refuses a call. The given home does not change.
    """
    if (call := call_for_path(device, path, value)) is None:
        return None, False
    # A precondition on the state is met by another service of the same part, `turn_on`, if there is one.
    turn_on = _turn_on_path(path)
    needs_state = "self." in (device.spec.service_index[call.service].service.requires or "") and turn_on != path
    enabling = call_for_path(device, turn_on) if needs_state else None
    plan = (enabling, call) if enabling else (call,)
    try:
        later = home_after_calls(home, plan)
    except Refused:
        return None, False
    base = home.plan.base[device.did]
    written = sorted({base + offset for c in plan for offset, *_ in device.spec.service_index[c.service].writes})
    condition = earlier_values_condition(later, device, [home.plan.slots[slot].path for slot in written])
    changes = any(home.values[slot] != later.values[slot] for slot in written)
    return DeviceAction(device, path, value, plan, condition), changes


def home_after_calls(home: Home, calls: Sequence[Call]) -> Home:
    """A copy of the home after these calls.

    Raises `Refused` if the home refuses a call.
    """
    later = home.fork()
    for call in calls:
        later.call(call.did, call.service, call.args)
    return later


def call_for_path(device: Device, path: str, value: Any = None) -> Call | None:
    """The call that does what people call `path`; None if the device cannot."""
    if path in device.spec.switch_services:
        service, switched = device.spec.switch_services[path]
        return Call(did=device.did, service=service, args=(switched,))
    if path not in device.spec.service_index:
        return None
    given = device.spec.service_index[path].service
    argument = given_argument(given, value)
    # Arguments are given by position: None for those before the spoken one.
    args = () if argument is None else (*(None for _ in given.arguments[: given.arguments.index(argument)]), value)
    return Call(did=device.did, service=path, args=args)


def spoken_call(device: Device, call: Call) -> tuple[str, Any, Argument | None]:
    """What a call does as people say it: the path, the spoken value and its type."""
    for path, (called, switched) in device.spec.switch_services.items():
        if (called, (switched,)) == (call.service, call.args):
            return path, None, None
    service = device.spec.service_index[call.service].service
    argument = spoken_argument(service)
    value = next(iter(call.args[service.arguments.index(argument) :]), None) if argument else None
    return call.service, value, given_argument(service, value)


def can_device_do(device: Device, path: str) -> bool:
    """Whether a device does what people call `path`."""
    return path in device.spec.service_index or path in device.spec.switch_services


def spoken_argument(service: Service) -> Argument | None:
    """The argument whose value people name: the required one, or one of `NAMED`."""
    required = (one for one in service.arguments if one.required)
    named = (one for one in service.arguments if one.name == NAMED.get(service.name))
    return next(required, next(named, None))


def given_argument(service: Service, value: Any) -> Argument | None:
    """The spoken argument if a call gives it: not if it may be left out and there is no value."""
    argument = spoken_argument(service)
    return argument if argument is not None and (argument.required or value is not None) else None


def spoken_service_name(service: str, argument: ValueType | None) -> str:
    """What people ask for when a call of `service` gives this argument."""
    return f"set_{argument.name}" if argument is not None and argument.name == NAMED.get(service) else service


def can_type_be_said(kind: ValueType) -> bool:
    """Whether people would say a value of this type: no colour codes and no free text."""
    return kind.type in SPOKEN_TYPES and (kind.type != "str" or kind.options is not None)


def _turn_on_path(path: str) -> str:
    """The path that the service `turn_on` of the same part has."""
    return path.removesuffix(path.rpartition(".")[2]) + "turn_on"


def draw_spoken_value(kind: ValueType, rng: random.Random) -> Any:
    """A random value that a person would name.

    Numbers from a wide range are round; numbers from a narrow range are any of it.
    """
    if kind.type not in ("int", "float") or kind.options:
        return kind.sample_value(rng)
    low, high = kind.range or (0, 100)
    step = spoken_step(low, high)
    first = step if low == 0 and step <= high else math.ceil(low / step) * step  # nobody asks for a volume of 0
    value = first + step * rng.randint(0, int((high - first) // step))
    return kind.check_value(float(value) if kind.type == "float" else int(value))


# Operations on parts


@dataclass(frozen=True)
class Operation:
    """One service and the value of its argument."""

    service: str
    value: Any
    type: ValueType | None

    def to_act(self, target: Target) -> Act:
        """The operation as a request to a target."""
        return Act(self.service, target, self.value, self.type)


def carry_out_on_kind(
    home: Home, device: Device, kind: str, wanted: Sequence[Operation]
) -> list[tuple[DeviceAction, bool] | None]:
    """The result of `carry_out_on_part` for each part of the kind that has all the services.

    An item is None if the home refuses a call, or if people would not ask the part for the change. The list is [None] if
    no part has all the services.
    """
    prefixes = [p for p in parts_of_kind(device, kind) if all(can_device_do(device, p + one.service) for one in wanted)]
    carried = [carry_out_on_part(home, device, prefix, wanted) for prefix in prefixes]
    return [one if one and (not one[1] or is_asked_for(home, one[0])) else None for one in carried] or [None]


def carry_out_on_part(
    home: Home, device: Device, prefix: str, wanted: Sequence[Operation]
) -> tuple[DeviceAction, bool] | None:
    """The operations as one action on a part, and whether they change something.

    The action has the plans and conditions of all operations. None if the home refuses a call.
    """
    after, done = home, []
    for one in wanted:
        action, changes = try_service(after, device, prefix + one.service, one.value)
        if action is None:
            return None
        after = home_after_calls(after, action.plan)
        done.append((action, changes))
    last, plan = done[-1][0], tuple(dict.fromkeys(call for action, _ in done for call in action.plan))
    condition = " and ".join(dict.fromkeys(text for action, _ in done for text in action.condition.split(" and ")))
    return replace(last, plan=plan, condition=condition), any(changes for _, changes in done)


# Undoing


LONGEST = 3  # calls
RUNS = ("start_", "brew", "cook", "feed", "sound", "arm")  # services that start a process; calling one undoes nothing


def changed_paths(earlier: Home, now: Home, device: Device) -> list[str]:
    """Paths of the device's attributes whose values differ between the two homes."""
    before, later = earlier.state_of(device.did), now.state_of(device.did)
    return [path for path in before if before[path] != later[path]]


def earlier_values_condition(earlier: Home, device: Device, paths: Sequence[str]) -> str:
    """The condition that these attributes have the values that they have in the home `earlier`."""
    values = {path: code_literal(earlier.read_value(device.did, path)) for path in paths}
    return " and ".join(f'device("{device.did}").{path} == {value}' for path, value in values.items())


def find_restoring_calls(earlier: Home, now: Home, device: Device) -> tuple[Call, ...] | None:
    """The shortest series of calls that restores all of the device's attributes, or None."""
    wanted = earlier.state_of(device.did)
    front: list[tuple[Home, tuple[Call, ...]]] = [(now, ())]
    seen = {tuple(now.state_of(device.did).values())}
    calls = list(_calls_that_may_restore(earlier, now, device))
    for _ in range(LONGEST):  # a breadth-first search: `front` are the homes after so many calls, with the calls
        following = []
        for home, made in front:
            for call in calls:
                try:
                    later = home_after_calls(home, (call,))
                except Refused:
                    continue
                state = later.state_of(device.did)
                if state == wanted:
                    return (*made, call)
                if (key := tuple(state.values())) not in seen:
                    seen.add(key)
                    following.append((later, (*made, call)))
        front = following
    return None


def _calls_that_may_restore(earlier: Home, now: Home, device: Device) -> Iterator[Call]:
    """Calls that write earlier values, or turn a changed part on or off on the way."""
    paths = changed_paths(earlier, now, device)
    parts = {path.rpartition(".")[0] for path in paths}
    for path, compiled in device.spec.service_index.items():
        part, _, name = path.rpartition(".")
        prefix = f"{part}." if part else ""
        written = [prefix + attribute.name for _, attribute, _ in compiled.writes]
        helps = set(written) & set(paths) or name in ("turn_on", "turn_off")
        # A service that stops a movement sets the goal to the place, which is the earlier goal only by chance.
        halts = name.startswith("stop") and any(attribute.name.startswith("target_") for _, attribute, _ in compiled.writes)
        if part not in parts or not helps or name.startswith(RUNS) or halts:
            continue
        arguments = compiled.service.arguments
        if not any(argument.required for argument in arguments):
            yield Call(did=device.did, service=path)
        elif len(arguments) == 1:
            for value in dict.fromkeys(earlier.read_value(device.did, at) for at in written):
                try:
                    yield Call(did=device.did, service=path, args=(arguments[0].check_value(value),))
                except (Refused, ValueError):  # the value is of another written attribute, or plans cannot hold it
                    continue
