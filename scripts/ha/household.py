"""Makes a fresh Home Assistant a home: `python -m ha.household URL TOKEN_FILE`.

It makes the owner, writes a long-lived token into the file, sets up the Assist tools and lists, and puts the demo's devices
into the areas of two floors. The same version of Home Assistant gives the same home each time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient, connect_client

CLIENT = "http://127.0.0.1/"  # the name under which the owner's browser would sign in
OWNER = {"name": "Anna", "username": "anna", "password": "demo", "client_id": CLIENT, "language": "en"}
FLOORS = {
    "Ground floor": ("Living Room", "Kitchen", "Dining Room", "Hall", "Garage", "Garden", "Utility Room"),
    "First floor": ("Bedroom", "Office", "Nursery", "Bathroom", "Landing"),
}
PLACES = {  # an entity whose name has the word stands in the area
    "bed": "Bedroom", "kitchen": "Kitchen", "garage": "Garage", "living": "Living Room", "office": "Office", "hall": "Hall",
    "backyard": "Garden", "garden": "Garden", "front": "Hall", "entrance": "Hall", "bath": "Bathroom",
    "ceiling": "Living Room",
}  # fmt: skip
HOUSEHOLD = ("automation.", "conversation.", "person.", "schedule.", "script.", "timer.", "todo.")  # of no room
HIDDEN = (
    "camera.", "conversation.", "device_tracker.", "event.", "geo_location.", "image_processing.", "person.",
    "sensor.backup_", "sensor.sun_", "stt.", "sun.", "tts.", "update.", "zone.",
)  # fmt: skip
ALIASES = {"light.ceiling_lights": ("Big light", "Chandelier"), "fan.ceiling_fan": ("Ventilator",)}
INTEGRATIONS: dict[str, list[dict[str, Any]]] = {  # each with the answers to its questions
    "mcp_server": [{}],
    "shopping_list": [{}],
    "local_todo": [{"todo_list_name": "Chores"}],
}


def main(url: str, token_file: Path) -> None:
    """Wait until Home Assistant is up, then furnish it."""
    asyncio.run(_furnish(url, move_in(url, INTEGRATIONS), token_file))


def move_in(url: str, integrations: dict[str, list[dict[str, Any]]]) -> SecretStr:
    """Make the owner and add integrations, each with the answers to its questions; the owner's token."""
    form = {"grant_type": "authorization_code", "code": first_owner(url), "client_id": CLIENT}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        token = http.post("/auth/token", data=form).raise_for_status().json()["access_token"]
        http.headers["Authorization"] = f"Bearer {token}"
        for integration, answers in integrations.items():
            set_up(http, integration, answers)
    return SecretStr(token)


def first_owner(url: str, patience: float = 180) -> str:
    """Make the owner as soon as Home Assistant is up; a code that buys a token."""
    deadline = time.monotonic() + patience
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        while True:
            try:
                made = http.post("/api/onboarding/users", json=OWNER)
                if made.is_success:
                    return str(made.json()["auth_code"])
            except httpx.TransportError:
                made = None
            if time.monotonic() > deadline:
                sys.exit(f"Home Assistant at {url} made no owner in {patience:.0f} s ({made and made.text}). Read its log.")
            time.sleep(0.5)


def set_up(http: httpx.Client, integration: str, answers: list[dict[str, Any]]) -> None:
    """Add an integration as its form is answered."""
    step = http.post("/api/config/config_entries/flow", json={"handler": integration}).raise_for_status().json()
    for answer in answers:
        step = http.post(f"/api/config/config_entries/flow/{step['flow_id']}", json=answer).raise_for_status().json()
    if step["type"] != "create_entry":
        sys.exit(f"{integration} could not be set up: {step}")


async def _furnish(url: str, token: SecretStr, token_file: Path) -> None:
    async with connect_client(url, token) as client:
        areas = await _make_areas(client)
        await _place(client, areas)
        await _expose(client)
        await _name(client, areas)
        await keep_token(client, token_file)


async def keep_token(client: HomeAssistantClient, file: Path) -> None:
    """Write a long-lived token into a file, for its owner alone to read."""
    token = await client.call_command("auth/long_lived_access_token", client_name="homerl", lifespan=365)
    file.touch(mode=0o600)
    file.write_text(token)


async def _make_areas(client: HomeAssistantClient) -> dict[str, str]:
    """The areas' ids by name. Home Assistant has made three of them itself."""
    areas = {area["name"]: area["area_id"] for area in await client.call_command("config/area_registry/list")}
    for level, (floor, names) in enumerate(FLOORS.items()):
        made = await client.call_command("config/floor_registry/create", name=floor, level=level)
        for name in names:
            if name not in areas:
                areas[name] = (await client.call_command("config/area_registry/create", name=name))["area_id"]
            await client.call_command("config/area_registry/update", area_id=areas[name], floor_id=made["floor_id"])
    return areas


async def _place(client: HomeAssistantClient, areas: dict[str, str]) -> None:
    """Give each device an area, and each entity that has no device: the one that its name says, else the areas in turn."""
    devices = {device["id"]: device["name"] for device in await client.call_command("config/device_registry/list")}
    names = [area for floor in FLOORS.values() for area in floor]
    for number, (name, device) in enumerate(sorted((name, key) for key, name in devices.items())):
        await client.call_command(
            "config/device_registry/update", device_id=device, area_id=areas[_area(name, number, names)]
        )
    entities = await client.call_command("config/entity_registry/list")
    for number, entity in enumerate(sorted(entities, key=lambda row: row["entity_id"])):
        if entity["device_id"] is None and not entity["entity_id"].startswith(HOUSEHOLD):
            area = areas[_area(entity["entity_id"], number, names)]
            await client.call_command("config/entity_registry/update", entity_id=entity["entity_id"], area_id=area)


def _area(name: str, number: int, names: list[str]) -> str:
    return next((area for word, area in PLACES.items() if word in name.lower()), names[number % len(names)])


async def _expose(client: HomeAssistantClient) -> None:
    """Expose every entity to Assist, but those of no use to a speaker."""
    entities = sorted(state["entity_id"] for state in await client.read_states())
    for show in (True, False):
        chosen = [entity for entity in entities if entity.startswith(HIDDEN) is not show]
        await client.call_command(
            "homeassistant/expose_entity", assistants=["conversation"], entity_ids=chosen, should_expose=show
        )


async def _name(client: HomeAssistantClient, areas: dict[str, str]) -> None:
    """Other names, and a label, as people give them."""
    for entity, aliases in ALIASES.items():
        await client.call_command(
            "config/entity_registry/update", entity_id=entity, aliases=[None, *aliases]
        )  # None: its own name
    await client.call_command("config/area_registry/update", area_id=areas["Living Room"], aliases=["Lounge"])
    label = (await client.call_command("config/label_registry/create", name="Security"))["label_id"]
    for entity in ("alarm_control_panel.security", "cover.garage_door"):
        await client.call_command("config/entity_registry/update", entity_id=entity, labels=[label])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
