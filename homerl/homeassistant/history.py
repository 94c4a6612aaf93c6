"""What the home's own history tells of devices that move: whether they take their time, or are there at once.

Invariant: of an entity's past nothing is kept but which states it was in.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from homerl.homeassistant.client import Client
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.listing import HISTORY, STATES, Listing

PAST = timedelta(days=10)  # for so long Home Assistant keeps its history, unless its owner says otherwise
UNDERWAY = frozenset("opening closing locking unlocking arming disarming pending returning".split())
MOVING = ("alarm_control_panel", "cover", "lock", "valve")  # domains whose states tell that something is under way
NONE = frozenset(("unknown", "unavailable", ""))


async def with_history(client: Client, listing: Listing) -> Listing:
    """The listing with the states in which its moving entities were, if the home keeps a history."""
    now = datetime.now(UTC)
    moving = [row["entity_id"] for row in listing.sources[STATES] if row["entity_id"].partition(".")[0] in MOVING]
    asked = {"start_time": (now - PAST).isoformat(), "end_time": now.isoformat(), "entity_ids": sorted(moving)}
    try:
        told = await client.call("history/history_during_period", **asked, no_attributes=True) if moving else {}
    except HomeAssistantError as error:
        if error.code is None:
            raise
        told = {}
    seen = {entity: sorted({_state(row) for row in rows} - NONE) for entity, rows in sorted(told.items())}
    return listing.model_copy(update={"sources": listing.sources | {HISTORY: seen}})


def _state(row: Any) -> str:
    return str(row.get("s", row.get("state", "")))


def is_at_once(domain: str, states: Collection[str], assumed: bool) -> bool:
    """Whether an entity that was in these states is where it is sent at once: it moved, and never was on its way.

    One whose state is assumed shows what it was told.
    """
    return domain in MOVING and (assumed or (len(states) > 1 and not UNDERWAY & {*states}))
