"""Keeps the Assist API of a Home Assistant as homerl's toolset `assist` plays it: `envs/homeenv/assist/dumps/VERSION.json`.

The prompt is kept twice, without and with the area of a device that a person speaks to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from ha.mcp import Mcp
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient

FOLDER = Path(__file__).parents[2] / "envs/homeenv/sim/assist/dumps"
DEVICE = "io.home-assistant/device_id"  # under `_meta`: the device that the person speaks to
API = "Device control"


async def dump(http: httpx.AsyncClient, client: HomeAssistantClient) -> Path:
    """Write the dump of this version, and return its path."""
    mcp = Mcp(http)
    version = (await http.get("/api/config")).json()["version"]
    placed = next(device["id"] for device in await client.call_command("config/device_registry/list") if device["area_id"])
    tools = (await mcp.ask("tools/list"))["tools"]
    kept = {
        "version": version,
        "tools": [{key: tool[key] for key in ("name", "description", "inputSchema", "annotations")} for tool in tools],
        "prompt": _text(await mcp.ask("prompts/get", name=API)),
        "prompt_in_area": _text(await mcp.ask("prompts/get", name=API, _meta={DEVICE: placed})),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{version}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _text(prompt: dict[str, Any]) -> str:
    return "".join(message["content"]["text"] for message in prompt["messages"])
