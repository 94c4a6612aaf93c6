"""Operations on several devices, or several operations on one device.

Conditions and steps on `self` (a part of a device) or `room`, bound to the devices and rooms of a home.

Invariants: a bound condition on a part compiles for the home and compares only with values that the part can have;
otherwise the result is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.homeenv.language.meaning import Act, Target
from homerl.envs.homeenv.language.noun_phrases import parts_of_kind
from homerl.envs.homeenv.sim.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, ValueType
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    can_device_do,
    home_after_calls,
    is_asked_for,
    try_service,
)


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


SELF, ROOM = re.compile(r"\bself\."), re.compile(r"\broom\.")
STATED = re.compile(r'(?<=\bself\.state [!=]= )"(\w+)"')  # a state, which parts spell in their own ways


class ServiceStep(Model):
    """A service and its value, which is fixed or relative.

    `value` is a fixed value. `now` is added to the current value of the attribute that the service sets. `room` is
    added to the temperature of the room. A relative value is clipped to the range from `least` to `most`.
    """

    service: str
    value: str | int | bool | None = None
    now: int | None = None
    room: int | None = None
    least: float = -math.inf
    most: float = math.inf


def bind_to_part(text: str, home: Home, device: Device, prefix: str) -> Condition | None:
    """The condition for a part, or None if it does not fit the part.

    In `text`, {attribute} stands for its current value, and {room} for the temperature of the room.
    """
    try:
        text = text.format_map(_ValuesNow(home, device, prefix))
        if prefix + STATE in device.spec.attribute_index:  # states as the part spells them
            kind = device.spec.attribute_index[prefix + STATE][1]
            text = STATED.sub(lambda found: code_literal(kind.value_of_word(found[1])), text)
        condition = compile_condition(SELF.sub(f'device("{device.did}").{prefix}', text), home.plan)
        for slot, value in condition.comparisons:
            home.plan.slots[slot].type.check_value(value)
    except (InputError, KeyError, Refused):
        return None
    return condition


def bind_to_room(text: str, home: Home, room: Room) -> Condition:
    """The condition for a room."""
    return compile_condition(ROOM.sub(f'room("{room.id}").', text), home.plan)


class _ValuesNow(dict[str, Any]):
    """The current values of a part, read when they are looked up. What is null or missing raises `KeyError`.

    `room` is the temperature of the room, within the range of the target temperature.
    """

    def __init__(self, home: Home, device: Device, prefix: str) -> None:
        self.home, self.device, self.prefix = home, device, prefix

    def __missing__(self, name: str) -> Any:
        if name == "room":
            value = int(self.home.read_value(self.device.room.id, "temperature"))
            kind = self.device.spec.attribute_index[self.prefix + "target_temperature"][1]
            low, high = kind.range or (value, value)
            return int(min(max(value, low), high))
        path = self.prefix + name
        if path not in self.device.spec.attribute_index or (now := self.home.read_value(self.device.did, path)) is None:
            raise KeyError(path)
        return now


def bind_steps(steps: tuple[ServiceStep, ...], home: Home, device: Device, prefix: str) -> tuple[Operation, ...] | None:
    """The steps with their values computed; None if the part lacks a service or a value does not fit it."""
    bound = []
    for step in steps:
        if prefix + step.service in device.spec.switch_services:
            bound.append(Operation(step.service, None, None))
            continue
        service = device.spec.service_index.get(prefix + step.service)
        if service is None or len(service.service.arguments) > 1:
            return None
        type = next(iter(service.service.arguments), None)
        try:
            value = _value_of_step(step, _ValuesNow(home, device, prefix), type)
        except (KeyError, Refused):
            return None
        bound.append(Operation(step.service, value, type))
    return tuple(bound)


def _value_of_step(step: ServiceStep, now: _ValuesNow, type: Any) -> Any:
    if type is None or (step.now is None and step.room is None):
        return None if type is None else type.check_value(step.value)
    base = now["room"] + step.room if step.room is not None else now[step.service.removeprefix("set_")] + step.now
    base = min(max(base, step.least), step.most)
    low, high = type.range or (base, base)
    whole = 5 * round(base / 5) if high - low > 50 else base  # round over wide ranges, as people would say it
    value = min(max(whole, low), high)
    return type.check_value(float(value) if type.type == "float" else int(value))


def carry_out_steps(
    steps: tuple[ServiceStep, ...], home: Home, device: Device, prefix: str
) -> tuple[DeviceAction, tuple[Operation, ...]] | None:
    """The action and the operations of the steps; None if the part cannot do them or they change nothing."""
    wanted = bind_steps(steps, home, device, prefix)
    carried = carry_out_on_part(home, device, prefix, wanted) if wanted else None
    return (carried[0], wanted) if wanted and carried is not None and carried[1] else None
