"""A home without devices that its owner does not show any more.

Invariants: what is withdrawn is no device of the home, so no prompt tells of it and no call reaches it. An automation that
reads it or acts on it is known to the guard alone, as one that cannot be followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from homerl.envs.homeenv.sim.automation import compile_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.origin import Origin, Unfollowed
from homerl.envs.homeenv.sim.plan.plan import FixedPlan
from homerl.envs.homeenv.sim.state.rules import Rule


def remove_devices(home: Home, gone: Collection[str]) -> Home:
    """A home without these devices; the home itself if it has none of them."""
    old = home.plan
    if not (gone := old.devices_by_did.keys() & gone):
        return home
    lost = [rule for rule in home.rules if gone & {*_reads(rule, old), *_acts(rule)}]
    kept = [rule for rule in home.rules if rule not in lost]
    plan = replace(
        old,
        devices=tuple(device for device in old.devices if device.did not in gone),
        entrance=(old.entrance_room.id if old.entrance_room else None) if old.entrance in gone else old.entrance,
        origin=old.origin and _origin(old.origin, lost, gone, old),
    )
    fresh = Home(plan, [home.read_value(slot.owner, slot.path) for slot in plan.slots], home.clock)
    fresh.rules = tuple(compile_rule(rule, plan) for rule in kept)
    return fresh


def _origin(origin: Origin, lost: list[Rule], gone: Collection[str], plan: FixedPlan) -> Origin:
    ids = {rule.id for rule in lost}
    unfollowed = [Unfollowed(id=rule.id, reads=tuple(_reads(rule, plan)), acts=tuple(_acts(rule))) for rule in lost]
    told = {
        "devices": {did: link for did, link in origin.devices.items() if did not in gone},
        "hidden": tuple(one for one in origin.hidden if one.id not in ids),
        "unfollowed": (*origin.unfollowed, *unfollowed),
    }
    return origin.model_copy(update=told)


def _reads(rule: Rule, plan: FixedPlan) -> dict[str, None]:
    """The devices on which it depends whether a rule acts."""
    return dict.fromkeys(
        owner for slot in sorted(rule.slots_it_reads) if (owner := plan.slots[slot].owner) in plan.devices_by_did
    )


def _acts(rule: Rule) -> Iterator[str]:
    return (action.did for action in rule.actions)
