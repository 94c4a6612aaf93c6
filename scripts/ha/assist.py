"""The Assist API of a Home Assistant, by MCP: records of its tools, its prompt and what they answer, and a dump of it.

The dump is what homerl's toolset `assist` plays: `envs/homeenv/sim/assist/dumps/VERSION.json`. It keeps the prompt twice,
without and with the area of a device that a person speaks to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import yaml

from ha.services import changes, settled, states
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient, HomeAssistantError

CLOCK, NOW = "llm__GetDateTime", {"date": "2026-01-01", "time": "00:00:00", "weekday": "Thursday"}
NOBODY = {"name": "", "version": ""}
SCRIPT = yaml.safe_load((Path(__file__).parent / "assist.yaml").read_text("utf-8"))
DUMPS = Path(__file__).parents[2] / "envs/homeenv/sim/assist/dumps"
DEVICE = "io.home-assistant/device_id"  # under `_meta`: the device that the person speaks to
API = "Device control"


class Mcp:
    """The Assist API of a Home Assistant, by MCP over HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a method, or {"error": ...}."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self._http.post("/api/mcp/assist", json=body, headers={"Accept": "application/json"})).json()
        result: dict[str, Any] = answer.get("result", {"error": answer.get("error")})
        return result

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool call, whether it failed, and its text."""
        result = await self.ask("tools/call", name=tool, arguments=arguments)
        if "error" in result:
            return {"tool": tool, "arguments": arguments, "error": result["error"]}
        text = "".join(part["text"] for part in result["content"])
        return {"tool": tool, "arguments": arguments, "failed": result["isError"], "text": text}


async def tools(http: httpx.AsyncClient) -> dict[str, Any]:
    """The tools that an agent is shown, and the prompt that goes with them."""
    mcp = Mcp(http)
    prompts = (await mcp.ask("prompts/list"))["prompts"]
    return {
        "server": await mcp.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=NOBODY),
        "tools": (await mcp.ask("tools/list"))["tools"],
        "prompts": [prompt | await mcp.ask("prompts/get", name=prompt["name"]) for prompt in prompts],
    }


async def assist(http: httpx.AsyncClient, client: HomeAssistantClient) -> dict[str, Any]:
    """Calls of the tools and sentences of the script, each with its answer and the states that it changed in the end."""
    mcp = Mcp(http)
    calls, sentences = [], []
    for tool, arguments in SCRIPT["calls"]:
        before = await states(client)
        answer = await mcp.call(tool, arguments)
        if tool == CLOCK and "text" in answer:
            answer["text"] = json.dumps(json.loads(answer["text"]) | NOW)
        calls.append(answer | {"changed": changes(before, await settled(client, before))})
    for sentence in SCRIPT["sentences"]:
        before = await states(client)
        answer = await _said(client, sentence)
        sentences.append({"sentence": sentence, "answer": answer, "changed": changes(before, await settled(client, before))})
    return {"calls": calls, "sentences": sentences}


async def _said(client: HomeAssistantClient, sentence: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = await client.call_command("conversation/process", text=sentence, language="en")
        return answer
    except HomeAssistantError as error:
        return {"error": error.said}


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
    DUMPS.mkdir(parents=True, exist_ok=True)
    path = DUMPS / f"{version}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _text(prompt: dict[str, Any]) -> str:
    return "".join(message["content"]["text"] for message in prompt["messages"])
