"""What stands on the lists of a home: Home Assistant's states only count it.

Invariant: a list that cannot be read keeps what its state tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envs.homeenv.home import Home
from homerl.homeassistant.client import Client
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.translation import OPEN, domain_of

DONE = "completed"  # the attribute with the items that are done, and their status
LONGEST, MOST = 200, 100  # signs of an item, items of a list


async def read_lists(client: Client, home: Home) -> None:
    """Put the items of its lists into a home."""
    for device in home.plan.devices:
        if domain_of(device.did) != "todo" or home.get(device.did, OPEN) is None:
            continue
        try:
            told = await client.call_service("todo", "get_items", {"status": [OPEN, DONE]}, {"entity_id": device.did}, True)
            items = told[device.did]["items"]
        except (HomeAssistantError, LookupError, TypeError) as error:
            if isinstance(error, HomeAssistantError) and error.code is None:
                raise
            continue
        for kind in {OPEN, DONE} & device.spec.attribute_index.keys():
            home.set(home.plan.slot_of(device.did, kind), tuple(_summaries(items, kind))[:MOST])


def _summaries(items: Iterable[Mapping[str, Any]], status: str) -> Iterable[str]:
    return (str(one["summary"])[:LONGEST] for one in items if one.get("status") == status and one.get("summary"))
