"""Makes the home of scripts/ha/casa in a fresh Home Assistant (`python -m ha.casa_home URL TOKEN_FILE`), and records it
(`python -m ha.casa_home URL`, with the token in HA_TOKEN).

Its automations are off while it is recorded, and its entities get their calls one after the other: they drive each other.
Before that each one that moves has moved once, so the home has a history to learn from.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx

from ha.household import HIDDEN, keep_token, move_in
from ha.normal import Normal
from ha.record import write
from ha.services import services
from homerl.envs.assistant.automations.automation_import import with_automation_texts
from homerl.envs.assistant.listing.home_listing import Listing
from homerl.envs.assistant.listing.homeassistant_client import (
    HomeAssistantClient,
    HomeAssistantError,
    connect_client,
    read_token,
    with_state_history,
)

MOVES = {
    "cover": ("close_cover", "open_cover"),
    "lock": ("unlock", "lock"),
    "alarm_control_panel": ("alarm_arm_away", "alarm_disarm"),
}
ARRIVED = 4  # seconds after which each of them is where it was sent


async def furnish(url: str, token_file: Path) -> None:
    """Make the owner, write a long-lived token, and expose what is of use to a speaker."""
    async with connect_client(url, move_in(url, {"shopping_list": [{}]})) as client:
        names = sorted(row["entity_id"] for row in await client.read_states())
        shown = [name for name in names if not name.startswith(HIDDEN)]
        await client.call_command(
            "homeassistant/expose_entity", assistants=["conversation"], entity_ids=shown, should_expose=True
        )
        await keep_token(client, token_file)


async def record(url: str) -> None:
    """Write `casa_listing` and `casa_services`."""
    token, normal = read_token("HA_TOKEN"), Normal()
    head = {"Authorization": f"Bearer {token.get_secret_value()}"}
    rest = httpx.AsyncClient(base_url=url, headers=head, trust_env=False, timeout=60)
    async with connect_client(url, token) as client, rest as http:
        names = [row["entity_id"] for row in await client.read_states()]
        listing = await with_a_past(client, names)
        write("casa_listing", normal(listing.model_dump(mode="json")))
        await client.call_service("automation", "turn_off", {}, automations(names))
        write("casa_services", normal(await services(url, token, http, client, apart=True)))


def automations(names: list[str]) -> dict[str, Any]:
    """The automations of a home, as a target."""
    return {"entity_id": [name for name in names if name.startswith("automation.")]}


async def with_a_past(client: HomeAssistantClient, names: list[str]) -> Listing:
    """The listing of a home in which each thing that moves has moved, and nothing else has changed."""
    await client.call_service("automation", "turn_off", {}, automations(names))
    await _move(client, names)
    await client.call_service("automation", "turn_on", {}, automations(names))
    return await with_state_history(client, await with_automation_texts(client, await client.read_listing()))


async def _move(client: HomeAssistantClient, names: list[str]) -> None:
    for domain, sent in MOVES.items():
        for service in sent:
            for name in names:
                if name.startswith(f"{domain}."):
                    try:
                        await client.call_service(domain, service, {}, {"entity_id": name})
                    except HomeAssistantError as error:
                        print(f"{name} {service}: {error.said}")
            await asyncio.sleep(ARRIVED)


if __name__ == "__main__":
    asyncio.run(furnish(sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else record(sys.argv[1]))
