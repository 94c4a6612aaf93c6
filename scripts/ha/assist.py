"""Records of the Assist API: its tools and prompt, and what they answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import yaml

from ha.mcp import Mcp
from ha.states import changes, settled, states
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient, HomeAssistantError

CLOCK, NOW = "llm__GetDateTime", {"date": "2026-01-01", "time": "00:00:00", "weekday": "Thursday"}
NOBODY = {"name": "", "version": ""}
SCRIPT = yaml.safe_load((Path(__file__).parent / "assist.yaml").read_text("utf-8"))


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
        return await client.process_conversation(sentence, language="en")
    except HomeAssistantError as error:
        return {"error": error.said}
