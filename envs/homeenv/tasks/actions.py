"""What can be done in a home: single changes, each with its reference calls and its condition.

Invariants:
- An action can be executed in the home that it was made for.
- Its condition holds after its calls.
- Values are ones that people say. Actions of `actions`, `propose` and `enact` change the home, and not only by turning a
  device on.
- One of `try_service` may change nothing.

Undoing: the calls that bring a device back to exactly its earlier state.

Invariants: if the calls of `restore` are made in the later home, every attribute of the device has its earlier value;
`restore` is None if no series of at most `LONGEST` calls does that.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.language.meaning import Act, Target, spoken_step
from homerl.envs.homeenv.sim.devices.attribute_limits_and_services import Argument, Service
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.service_execution import CompiledService
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
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
        return None if self.path in self.device.spec.switch_services else given_argument(self._service, self.value)

    @property
    def asked_service(self) -> str:
        """What people ask for: the service, or `set_` and the argument if it may be left out."""
        return spoken_service_name(self.service, self.value_type)

    @property
    def _service(self) -> Service:
        return self.device.spec.service_index[self.path].service

    def act(self, target: Target | None = None) -> Act:
        """The action as a request: of the device by its name, or of `target`, which includes the device."""
        return Act(self.asked_service, target or Target.of_device(self.device, self.part_name), self.value, self.value_type)


def actions(home: Home, rng: random.Random, devices: Sequence[Device] | None = None) -> Iterator[DeviceAction]:
    """Actions in random order, at most one for each service of each device.

    With `devices`, only these devices are considered. In an imported home each device comes once before one comes twice:
    there a media player has twenty services, and a lamp three.
    """
    among = home.plan.devices if devices is None else devices
    pairs = [(device, path) for device in among for path in device.spec.service_index]
    rng.shuffle(pairs)
    for device, path in _by_turns(pairs, rng) if home.plan.origin else pairs:
        if action := propose_action(home, device, path, rng):
            yield action


def _by_turns(pairs: Sequence[tuple[Device, str]], rng: random.Random) -> list[tuple[Device, str]]:
    """The pairs in rounds, each with one of every device that has some left, in one random order of the devices."""
    dids = list(dict.fromkeys(device.did for device, _ in pairs))
    rank = {did: number for number, did in enumerate(rng.sample(dids, len(dids)))}
    seen = Counter[str]()
    turns = [(seen.update([device.did]) or seen[device.did], rank[device.did], device, path) for device, path in pairs]
    return [(device, path) for _, _, device, path in sorted(turns, key=lambda turn: turn[:2])]


def propose_action(home: Home, device: Device, path: str, rng: random.Random) -> DeviceAction | None:
    """The action of calling `path` with a random value.

    None if people cannot say its values, if the home refuses the call, or if nobody would ask for it.
    """
    if switched := [name for name, (service, _) in device.spec.switch_services.items() if service == path]:
        return make_action(home, device, rng.choice(switched))
    service = device.spec.service_index[path].service
    argument = spoken_argument(service)
    if sum(one.required for one in service.arguments) > 1 or (argument is not None and not _can_be_said(argument)):
        return None
    if argument is None or (not argument.required and rng.random() < 0.5):
        return make_action(home, device, path, None)
    return make_action(home, device, path, draw_spoken_value(argument, rng))


def make_action(home: Home, device: Device, path: str, value: Any = None) -> DeviceAction | None:
    """The action of calling `path` with this value; None if the home refuses the call or nobody would ask for it."""
    action, changes = try_service(home, device, path, value)
    return action if action and changes and is_asked_for(home, action) else None


def is_asked_for(home: Home, action: DeviceAction) -> bool:
    """Whether people would ask for an action that changes something.

    It must change more than the call that turns the device on for it. Nobody turns a device on to end something on it.
    """
    turn_on = call_for_path(action.device, _beside(action.path, "turn_on"))
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
    plan = (*_enabling(device, path, device.spec.service_index[call.service]), call)
    try:
        later = home_after_calls(home, plan)
    except Refused:
        return None, False
    base = home.plan.base[device.did]
    written = sorted({base + offset for c in plan for offset, *_ in device.spec.service_index[c.service].writes})
    clauses = [
        f'device("{device.did}").{home.plan.slots[slot].path} == {code_literal(later.values[slot])}' for slot in written
    ]
    changes = any(home.values[slot] != later.values[slot] for slot in written)
    return DeviceAction(device, path, value, plan, " and ".join(clauses)), changes


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
    compiled = device.spec.service_index.get(path)
    return Call(did=device.did, service=path, args=_arguments_of(compiled.service, value)) if compiled else None


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


def _arguments_of(service: Service, value: Any) -> tuple[Any, ...]:
    """The arguments of a call, by position: None for those before the spoken one."""
    argument = given_argument(service, value)
    return () if argument is None else (*(None for _ in service.arguments[: service.arguments.index(argument)]), value)


def _can_be_said(kind: ValueType) -> bool:
    """Whether people would say such a value: no colour codes and no free text."""
    return kind.type in SPOKEN_TYPES and (kind.type != "str" or kind.options is not None)


def _enabling(device: Device, path: str, compiled: CompiledService) -> tuple[Call, ...]:
    """The call that meets a precondition on the state: another service `turn_on` of the same part, if there is one."""
    turn_on = _beside(path, "turn_on")
    needed = "self." in (compiled.service.requires or "") and turn_on != path
    call = call_for_path(device, turn_on) if needed else None
    return () if call is None else (call,)


def _beside(path: str, service: str) -> str:
    """The path of another service of the same part."""
    return path.removesuffix(path.rpartition(".")[2]) + service


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


def code_literal(value: Any) -> str:
    """A value as conditions and code write it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


LONGEST = 3  # calls
RUNS = ("start_", "brew", "cook", "feed", "sound", "arm")  # services that start a process; calling one undoes nothing


def changed_paths(earlier: Home, now: Home, device: Device) -> list[str]:
    """Paths of the device's attributes whose values differ between the two homes."""
    before, later = earlier.state_of(device.did), now.state_of(device.did)
    return [path for path in before if before[path] != later[path]]


def can_be_told(device: Device, paths: Sequence[str]) -> bool:
    """Whether people can say the values of these attributes: no colour codes and no free text."""
    types = [device.spec.attribute_index[path][1] for path in paths]
    return all(kind.type in SPOKEN_TYPES and (kind.type != "str" or kind.options) for kind in types)


def earlier_values_condition(earlier: Home, device: Device, paths: Sequence[str]) -> str:
    """The condition that these attributes have their earlier values."""
    return " and ".join(
        f'device("{device.did}").{path} == {code_literal(earlier.read_value(device.did, path))}' for path in paths
    )


def find_restoring_calls(earlier: Home, now: Home, device: Device) -> tuple[Call, ...] | None:
    """The shortest series of calls that restores all of the device's attributes, or None."""
    wanted = earlier.state_of(device.did)
    front: list[tuple[Home, tuple[Call, ...]]] = [(now, ())]
    seen = {tuple(now.state_of(device.did).values())}
    calls = list(_candidates(earlier, now, device))
    for _ in range(LONGEST):
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


def _candidates(earlier: Home, now: Home, device: Device) -> Iterator[Call]:
    """Calls that may take part in an undo.

    These write earlier values, or turn a changed part on or off on the way.
    """
    paths = changed_paths(earlier, now, device)
    parts = {path.rpartition(".")[0] for path in paths}
    for path, compiled in device.spec.service_index.items():
        part, _, name = path.rpartition(".")
        prefix = f"{part}." if part else ""
        written = [prefix + attribute.name for _, attribute, _ in compiled.writes]
        helps = set(written) & set(paths) or name in ("turn_on", "turn_off")
        if part not in parts or not helps or name.startswith(RUNS) or _halts(name, written):
            continue
        if not any(argument.required for argument in compiled.service.arguments):
            yield Call(did=device.did, service=path)
        elif len(compiled.service.arguments) == 1:
            yield from _with_values(device, path, dict.fromkeys(earlier.read_value(device.did, at) for at in written))


def _halts(service: str, written: Sequence[str]) -> bool:
    """Whether a service stops a movement: the goal becomes the place, and is the earlier one only by chance."""
    return service.startswith("stop") and any(path.rpartition(".")[2].startswith("target_") for path in written)


def _with_values(device: Device, path: str, values: dict[Any, None]) -> Iterator[Call]:
    (argument,) = device.spec.service_index[path].service.arguments
    for value in values:
        try:
            yield Call(did=device.did, service=path, args=(argument.check_value(value),))
        except (Refused, ValueError):  # the value is of another written attribute, or plans cannot hold it
            continue
