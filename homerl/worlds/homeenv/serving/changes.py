"""What calls change in a home, and whether another home became the same.

Invariant: nothing here changes a home.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.homeenv.home import Home
from envs.homeenv.plan import Plan
from homerl.worlds.homeenv.live import Made
from homerl.worlds.homeenv.serving.journal import ChangeRecord

TRAVEL_SECONDS = 120  # after which what moves in the twin, such as a cover, has arrived


def changes_of(before: Home, after: Home) -> tuple[ChangeRecord, ...]:
    """What differs between two states of a home, of its devices alone, without what devices keep to themselves."""
    plan, later = before.plan, after.fork()
    later.advance(TRAVEL_SECONDS)
    return tuple(
        ChangeRecord(
            did=slot.owner, device=called(plan, slot.owner), path=slot.path, before=one.before, after=one.after,
            settled=later.values[one.slot],
        )
        for one in before.diff(after)
        if (slot := plan.slots[one.slot]).owner in plan.by_did and not getattr(slot.type, "internal", False)
    )  # fmt: skip


def compared(change: ChangeRecord, home: Home) -> ChangeRecord:
    """A change with what the home has come to."""
    actual = home.get(change.did, change.path)
    same = actual in (change.after, change.settled)
    return change.model_copy(update={"actual": None if same else actual, "differs": not same, "compared": True})


def called(plan: Plan, did: str) -> str:
    """The name of a device, with its room if another device has the same name."""
    device = plan.by_did[did]
    alike = sum(other.name == device.name for other in plan.devices) > 1
    return f"{device.room.name} {device.name}" if alike else device.name


def asked_for(change: ChangeRecord, made: Sequence[Made]) -> bool:
    """Whether a change is the main one of its device, or what a call named. What follows from it is in the log alone."""
    name = change.path.rpartition(".")[2]
    return name == "state" or any(one.did == change.did and name in one.arguments for one in made)
