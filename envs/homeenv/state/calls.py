"""Service calls: the only way in which agents and automations change the values of devices.

Invariant: a call that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.homeenv.devices.interface import Service
from envs.homeenv.devices.service import CompiledService
from envs.homeenv.plan.plan import Plan
from envs.homeenv.state.state import HomeState
from envs.homeenv.values.audit import Refused
from envs.homeenv.values.types import shown


def call_service(
    home: HomeState, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Call a service of device `did` by its dotted path, with positional and named arguments. Raises `Refused`.

    Returns the plain data that the service `returns`, or None.
    """
    try:
        compiled, base = home.plan.services[did, service]
    except (KeyError, TypeError):
        raise _unknown(home.plan, did, service) from None
    outcome = compiled.outcome(home.values, base, bound(home.plan, compiled, args, kwargs or {}))
    for slot, value in outcome.updates:
        home.set(slot, value)
    return outcome.returned


def bound(plan: Plan, compiled: CompiledService, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical arguments of a call by name, with rooms by their ids. Raises `Refused` if they do not fit."""
    return with_room_ids(plan, compiled.service, compiled.bind(args, kwargs))


def with_room_ids(plan: Plan, service: Service, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with the ids of rooms that they name. Raises `Refused` if there is no such room, or several."""
    for argument in service.arguments:
        if argument.rooms and (value := arguments.get(argument.name)) is not None:
            ids = plan.room(value).id if isinstance(value, str) else tuple(plan.room(called).id for called in value)
            arguments = arguments | {argument.name: ids}
    return arguments


def _unknown(plan: Plan, did: Any, service: Any) -> Refused:
    if not isinstance(did, str) or did not in plan.by_did:
        return Refused("unknown_device", f"there is no device {shown(did)}")
    device = plan.by_did[did]
    known = ", ".join(device.spec.service_index) or "no services"
    return Refused("unknown_service", f"{device.name} {did} has no service {shown(service)} (it has {known})")
