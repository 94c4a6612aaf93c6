"""Operations on several devices, or several operations on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.homeenv.language.meaning import Act, Target
from homerl.envs.homeenv.language.noun import parts_of_kind
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types import ValueType
from homerl.envs.homeenv.tasks.actions import DeviceAction, can_device_do, is_asked_for, try_service


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
    """The result of `carry_part` for each part of the kind that has all the services.

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
    after, done = home.fork(), []
    for one in wanted:
        action, changes = try_service(after, device, prefix + one.service, one.value)
        if action is None:
            return None
        for call in action.plan:
            after.call(call.did, call.service, call.args)
        done.append((action, changes))
    last, plan = done[-1][0], tuple(dict.fromkeys(call for action, _ in done for call in action.plan))
    condition = " and ".join(dict.fromkeys(text for action, _ in done for text in action.condition.split(" and ")))
    return replace(last, plan=plan, condition=condition), any(changes for _, changes in done)
