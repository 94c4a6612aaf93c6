"""What automations may do because of a call, where the twin cannot follow it.

The twin follows the automations of the home, but no automation that was not understood, and no group: a group that is called
drives its members in the real home alone, and there alone does its state follow theirs.

Invariant: what is told here is told too often rather than not at all. In a home without automations that end at a guarded
device, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from homerl.envs.homeenv.sim.home import Home

Links = Mapping[str, Iterable[str]]
Ends = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class AutomationPath:
    """From what an automation reads to what it acts on. `followed` says whether the twin plays it."""

    reads: frozenset[str]
    acts: frozenset[str]
    followed: bool


def find_unforeseen_ends(home: Home, dids: Iterable[str], members: Links, guarded: Callable[[str], bool]) -> Ends:
    """The guarded entities on which automations may act, unseen by the twin, because of these devices, by device.

    `members` are the entities that groups list.
    """
    paths = list(_paths(home))
    ends = {path: {did for did in path.acts if guarded(did)} for path in paths}
    if not any(ends.values()):
        return {}
    holders = {one: [group for group, held in members.items() if one in held] for held in members.values() for one in held}

    def reached(did: str) -> set[str]:
        """What changes in the real home with a device: what it drives, and the groups of all that."""
        return _closure(_closure({did}, members), holders)

    onward = {path: set[str]().union(*map(reached, path.acts)) for path in paths}
    grown = True
    while grown:  # an automation may make another one act
        sizes = [len(found) for found in ends.values()]
        for path in paths:
            ends[path] |= set[str]().union(*(ends[other] for other in paths if other.reads & onward[path]))
        grown = sizes != [len(found) for found in ends.values()]
    told = {did: _ends(did, reached(did), ends) for did in dids}
    return {did: found for did, found in told.items() if found}


def _paths(home: Home) -> Iterator[AutomationPath]:
    for rule in home.rules:
        if rule.enabled and (rule.trigger_slots or rule.awaited_slots):
            reads = frozenset(home.plan.slots[slot].owner for slot in rule.trigger_slots)
            acts = frozenset(action.did for action in rule.actions)
            yield AutomationPath(reads, acts, followed=True)
            awaited = frozenset(home.plan.slots[slot].owner for slot in rule.awaited_slots)
            yield AutomationPath(awaited, acts, followed=False)  # whether it waits there, the twin does not know
    for one in home.plan.origin.unfollowed if home.plan.origin else ():
        yield AutomationPath(frozenset(one.reads), frozenset(one.acts), followed=False)


def _ends(did: str, reached: set[str], ends: Mapping[AutomationPath, set[str]]) -> tuple[str, ...]:
    """Where the automations end that a device sets off. Those that read the device itself are followed, if any are."""
    unseen = {True: reached - {did}, False: reached}
    return tuple(sorted({end for path, found in ends.items() if path.reads & unseen[path.followed] for end in found}))


def _closure(dids: set[str], links: Links) -> set[str]:
    """These devices, and all that links lead to."""
    found, new = set(dids), set(dids)
    while new:
        new = {other for did in new for other in links.get(did, ())} - found
        found |= new
    return found
