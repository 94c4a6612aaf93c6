"""Undoing: the calls that bring a device back to exactly its earlier state.

Invariants: if the calls of `restore` are made in the later home, every attribute of the device has its earlier value;
`restore` is None if no series of at most `LONGEST` calls does that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.tasks.actions import SPOKEN_TYPES, code_literal, home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call

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
