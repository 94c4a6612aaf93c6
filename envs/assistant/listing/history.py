"""What the home's own history tells of devices that move: whether they take their time, or are there at once.

Invariant: of an entity's past nothing is kept but which states it was in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from homerl.envs.assistant.listing.client import HomeAssistantClient
from homerl.envs.assistant.listing.errors import HomeAssistantError
from homerl.envs.assistant.listing.listing import HISTORY, STATES, Listing

PAST = timedelta(days=10)  # for so long Home Assistant keeps its history, unless its owner says otherwise
UNDERWAY = frozenset("opening closing locking unlocking arming disarming pending returning".split())
MOVING = ("alarm_control_panel", "cover", "lock", "valve")  # domains whose states tell that something is under way
ROAMING = ("lawn_mower", "vacuum")  # domains of robots, of which only the way home may be at once
HOME = "docked"
NONE = frozenset(("unknown", "unavailable", ""))


async def with_state_history(client: HomeAssistantClient, listing: Listing) -> Listing:
    """The listing with the states in which its moving entities were, if the home keeps a history.

    Those whose past the listing knows are not asked for. Of a robot, what follows its last return does not count: it may
    be on its way.
    """
    now, known = datetime.now(UTC), listing.sources.get(HISTORY, {})
    names = {row["entity_id"] for row in listing.sources[STATES]} - known.keys()
    moving = [name for name in names if name.partition(".")[0] in (*MOVING, *ROAMING)]
    asked = {"start_time": (now - PAST).isoformat(), "end_time": now.isoformat(), "entity_ids": sorted(moving)}
    try:
        told = await client.call_command("history/history_during_period", **asked, no_attributes=True) if moving else {}
    except HomeAssistantError as error:
        if error.code is None:
            raise
        told = {}
    seen = known | {name: sorted({*_past(name, told.get(name, ()))} - NONE) for name in moving}
    return listing.model_copy(update={"sources": listing.sources | {HISTORY: dict(sorted(seen.items()))}})


def _past(entity: str, rows: Sequence[Any]) -> list[str]:
    states = [str(row.get("s", row.get("state", ""))) for row in rows]
    ended = max((number for number, state in enumerate(states, 1) if state == HOME), default=0)
    return states[:ended] if entity.partition(".")[0] in ROAMING else states


def is_moved_at_once(domain: str, states: Collection[str], assumed: bool) -> bool:
    """Whether an entity that was in these states is where it is sent at once: it moved, and never was on its way.

    One whose state is assumed shows what it was told; a robot, that it returns.
    """
    moved = domain in (*MOVING, *ROAMING) and len(states) > 1 and not UNDERWAY & {*states}
    return moved or (assumed and domain in MOVING)
