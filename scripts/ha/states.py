"""The states of a home before, right after and well after a call."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ha.normal import RANDOM
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient

MOVING = {"arming", "closing", "locking", "opening", "pending", "returning", "unlocking"}
SLOW = ("alarm_control_panel.", "cover.", "lawn_mower.", "lock.", "vacuum.", "valve.")
RESTLESS = (*RANDOM, "conversation.", "sun.")  # change by themselves
PATIENCE, PAUSE, QUIET = 45.0, 0.5, 4  # seconds; seconds between looks; looks without a change (covers move each second)

States = dict[str, dict[str, Any]]


async def states(client: HomeAssistantClient) -> States:
    """State and attributes of each entity, without those that change by themselves."""
    kept = [state for state in await client.read_states() if not state["entity_id"].startswith(RESTLESS)]
    return {state["entity_id"]: {key: state[key] for key in ("state", "attributes")} for state in kept}


def changes(before: States, after: States) -> States:
    """For each entity that differs: its state before and after."""
    return {
        entity: {"before": before.get(entity), "after": state}
        for entity, state in sorted(after.items())
        if state != before.get(entity)
    }


async def settled(client: HomeAssistantClient, before: States) -> States:
    """The states once nothing moves. It waits only if something that takes time has changed."""
    after = await states(client)
    if not any(entity.startswith(SLOW) for entity in changes(before, after)):
        return after
    quiet, deadline = 0, time.monotonic() + PATIENCE
    while quiet < QUIET and time.monotonic() < deadline:
        await asyncio.sleep(PAUSE)
        now = await states(client)
        still = now == after and not any(state["state"] in MOVING for state in now.values())
        quiet, after = quiet + 1 if still else 0, now
    return after
