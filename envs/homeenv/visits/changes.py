"""What differs between two states of a home, in people's words.

Invariant: what devices keep to themselves is not told, nor the air and the weather, which nobody switches, nor what a device
has no value of any more because its state is another: a lamp that is off has no brightness.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from homerl.envs.homeenv.pages.device_words import STATES, value_with_unit
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.state.rules import Rule
from homerl.envs.homeenv.sim.values.types import ValueType
from homerl.host.pages.templates import identifier_to_words
from homerl.play.words.grammar import normalise_spaces
from homerl.worlds.visits import HomeChange

NONE = "none"  # of an automation that is not there


def find_visit_changes(before: Home, after: Home) -> Iterator[HomeChange]:
    """The changes of devices in the plan's order, then those of automations, then the clock's."""
    yield from _of_devices(before, after)
    yield from _of_automations(before, after)
    if before.clock != after.clock:
        yield HomeChange("", "the clock", "", _time(before), _time(after))


def device_with_room(device: Device) -> str:
    """A device as people tell it from others: with its room, unless its name says the room."""
    room = device.room.name
    return device.name if room.lower() in device.name.lower() else normalise_spaces(f"{room} {device.name}")


def _of_devices(before: Home, after: Home) -> Iterator[HomeChange]:
    plan, found = before.plan, before.diff(after)
    switched = {plan.slots[one.slot].owner for one in found if plan.slots[one.slot].path == "state"}
    for one in found:
        slot = plan.slots[one.slot]
        if one.after is None and slot.owner in switched:
            continue
        device = plan.devices_by_did.get(slot.owner)
        if device is not None and not getattr(slot.type, "internal", False):
            what, old, new = _path(slot.path), _value(slot.type, one.before), _value(slot.type, one.after)
            yield HomeChange(slot.owner, device_with_room(device), what, old, new)


def _path(path: str) -> str:
    """A path in words. The state of a device, or of its component, goes without saying."""
    component, _, name = path.rpartition(".")
    return identifier_to_words(component if name in STATES else path).replace(".", " ")


def _value(kind: ValueType, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value is None or value == "" else identifier_to_words(value_with_unit(kind, value))


def _of_automations(before: Home, after: Home) -> Iterator[HomeChange]:
    old, new = ({rule.id: rule for rule in home.rules} for home in (before, after))
    for id in sorted(old | new):
        was, now = (_rule(rules.get(id)) for rules in (old, new))
        if was != now:
            title = (new.get(id) or old[id]).title
            yield HomeChange(f"automation.{id}", f"automation {title or id}", "", was, now)


def _rule(rule: Rule | None) -> str:
    if rule is None:
        return NONE
    told = rule.describe_rule()
    does = ", ".join(f"{action['locator']} of {action['did']}" for action in told["actions"])
    return f"{' and '.join(told['conditions']) or 'never'}: {does}{'' if told['enabled'] else ' (switched off)'}"


def _time(home: Home) -> str:
    return f"{datetime.fromtimestamp(home.clock, UTC):%A %H:%M:%S}"
