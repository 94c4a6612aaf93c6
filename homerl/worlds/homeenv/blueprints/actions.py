"""What can be done in a home: single changes, each with its reference calls and its condition.

Invariants: an action can be executed in the home that it was made for; its condition holds after its calls; values are
ones that people say. Actions of `actions`, `propose` and `enact` change the home; one of `try_service` may change
nothing.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.interface import Argument
from envs.homeenv.service import CompiledService
from envs.homeenv.types import ValueType
from homerl.worlds.homeenv.blueprints.blueprint import Call
from homerl.worlds.homeenv.language.meaning import Act, Target, spoken_step

SPOKEN_TYPES = ("str", "enum", "bool", "int", "float")


@dataclass(frozen=True)
class DeviceAction:
    """One service call on one device, with the calls that enable it and the condition that holds afterwards.

    `path` is the dotted path of the service, and `value` its argument (None for a service without arguments). `plan` is
    the reference solution: the call, after the call that turns the device on if the service needs that.
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
    def part(self) -> str:
        """The part of the device that has the service, or "" for the device itself."""
        return self.path.rpartition(".")[0]

    @property
    def type(self) -> ValueType | None:
        """The type of the argument, or None for a service without arguments."""
        arguments = self.device.spec.service_index[self.path].service.arguments
        return arguments[0] if arguments and _takes(arguments, self.value) else None

    def act(self, target: Target | None = None) -> Act:
        """The action as a request: of the device by its name, or of `target`, which includes the device."""
        return Act(self.service, target or Target.of(self.device, self.part), self.value, self.type)


def actions(home: Home, rng: random.Random, devices: Sequence[Device] | None = None) -> Iterator[DeviceAction]:
    """Actions in random order, at most one for each service of each device.

    With `devices`, only these devices are considered.
    """
    among = home.plan.devices if devices is None else devices
    pairs = [(device, path) for device in among for path in device.spec.service_index]
    rng.shuffle(pairs)
    for device, path in pairs:
        if action := propose(home, device, path, rng):
            yield action


def propose(home: Home, device: Device, path: str, rng: random.Random) -> DeviceAction | None:
    """The action of calling `path` with a random value.

    None if the service has several arguments, if people cannot say its value, if the home refuses the call, or if the
    call would change nothing.
    """
    arguments = device.spec.service_index[path].service.arguments
    if len(arguments) > 1 and not any(argument.required for argument in arguments):
        arguments = ()  # people ask for it as it is: "turn it on"
    if len(arguments) > 1 or not all(map(_can_be_said, arguments)):
        return None
    return enact(home, device, path, spoken_value(arguments[0], rng) if arguments else None)


def enact(home: Home, device: Device, path: str, value: Any = None) -> DeviceAction | None:
    """The action of calling `path` with this value; None if the home refuses the call or it would change nothing."""
    action, changes = try_service(home, device, path, value)
    return action if changes else None


def try_service(home: Home, device: Device, path: str, value: Any = None) -> tuple[DeviceAction | None, bool]:
    """The action of calling `path` with this value, and whether it would change something.

    (None, False) if the home refuses a call. The given home does not change.
    """
    compiled = device.spec.service_index[path]
    call = Call(did=device.did, service=path, args=(value,) if _takes(compiled.service.arguments, value) else ())
    plan = (*_enabling(device, path, compiled), call)
    after = home.fork()
    try:
        for step in plan:
            after.call(step.did, step.service, step.args)
    except Refused:
        return None, False
    base = home.plan.base[device.did]
    written = sorted({base + offset for c in plan for offset, *_ in device.spec.service_index[c.service].writes})
    clauses = [f'device("{device.did}").{home.plan.slots[slot].path} == {literal(after.values[slot])}' for slot in written]
    changes = any(home.values[slot] != after.values[slot] for slot in written)
    return DeviceAction(device, path, value, plan, " and ".join(clauses)), changes


def _takes(arguments: Sequence[Argument], value: Any) -> bool:
    """Whether a call gives an argument: not if all may be left out and there is no value."""
    return bool(arguments) and (value is not None or any(argument.required for argument in arguments))


def _can_be_said(kind: ValueType) -> bool:
    """Whether people would say such a value: no colour codes and no free text."""
    return kind.type in SPOKEN_TYPES and (kind.type != "str" or kind.options is not None)


def _enabling(device: Device, path: str, compiled: CompiledService) -> tuple[Call, ...]:
    """The call that meets the precondition: `turn_on` of the same part, if it has one."""
    prefix = path.removesuffix(compiled.service.name)
    if compiled.service.requires and prefix + "turn_on" in device.spec.service_index:
        return (Call(did=device.did, service=prefix + "turn_on"),)
    return ()


def spoken_value(kind: ValueType, rng: random.Random) -> Any:
    """A random value that a person would name.

    Numbers from a wide range are round; numbers from a narrow range are any of it.
    """
    if kind.type not in ("int", "float") or kind.options:
        return kind.sample(rng)
    low, high = kind.range or (0, 100)
    step = spoken_step(low, high)
    first = step if low == 0 and step <= high else math.ceil(low / step) * step  # nobody asks for a volume of 0
    value = first + step * rng.randint(0, int((high - first) // step))
    return kind.check(float(value) if kind.type == "float" else int(value))


def literal(value: Any) -> str:
    """A value as conditions and code write it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
