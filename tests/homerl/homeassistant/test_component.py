"""The custom component in a real Home Assistant: the agent is added by the user interface, and switches a lamp."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_served import Agent
from scripted_server import ScriptedServer

from homerl.homeassistant.client import connect, token_from

URL = os.environ.get("HOMERL_HA_URL", "")
LAMP, LOCK = "light.bed_light", "lock.front_door"
pytestmark = [
    pytest.mark.homeassistant,
    pytest.mark.skipif(not URL, reason="no HOMERL_HA_URL: scripts/check_homeassistant starts a real Home Assistant"),
]


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a model does that understands two sentences."""
    *_, last = request["messages"]
    if last["role"] != "user":
        return {"content": "Done."}
    tool = "HassTurnOff" if "unlock" in last["content"].lower() else "HassTurnOn"
    name = "Front Door" if "door" in last["content"].lower() else "Bed Light"
    call = {"name": f"intent__{tool}", "arguments": json.dumps({"name": name})}
    return {"content": "", "tool_calls": [{"type": "function", "function": call}]}


def api(method: str, path: str, **body: Any) -> Any:
    head = {"Authorization": f"Bearer {token_from('HA_TOKEN').get_secret_value()}"}
    given = {"json": body} if method == "POST" else {}
    done = httpx.request(method, f"{URL}/api/{path}", headers=head, trust_env=False, timeout=60, **given)
    assert done.status_code < 300, f"{path}: {done.status_code} {done.text}"
    return done.json()


def state_of(entity: str) -> str:
    return str(api("GET", f"states/{entity}")["state"])


@pytest.fixture
def added(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The entry of an agent that acts, and the id of its conversation agent."""
    with ScriptedServer(answer=answer) as model, Agent(tmp_path, URL, model.url, more=("--mode", "act")) as agent:
        flow = api("POST", "config/config_entries/flow", handler="homerl")
        assert flow["type"] == "form" and flow["step_id"] == "user"
        done = api("POST", f"config/config_entries/flow/{flow['flow_id']}", url=agent.url)
        assert done["type"] == "create_entry" and done["title"] == "scripted"
        entry = done["result"]["entry_id"]
        yield entry, "conversation.scripted"
        api("DELETE", f"config/config_entries/entry/{entry}")


def say(agent: str, text: str, **more: str) -> dict[str, Any]:
    """The answer to a sentence."""

    async def said() -> dict[str, Any]:
        async with connect(URL, token_from("HA_TOKEN")) as client:
            return await client.converse(text, language="en", agent_id=agent, **more)

    return asyncio.run(said())


def speech(answer: Mapping[str, Any]) -> str:
    return str(answer["response"]["speech"]["plain"]["speech"])


def test_a_sentence_switches_a_lamp_and_a_guarded_one_asks(added: tuple[str, str]) -> None:
    api("POST", "services/light/turn_off", entity_id=LAMP)
    api("POST", "services/lock/lock", entity_id=LOCK)
    _, agent = added
    assert speech(say(agent, "Turn on the bed light.")) == "Done." and state_of(LAMP) == "on"
    asked = say(agent, "Unlock the front door.")
    assert "Front Door" in speech(asked) and state_of(LOCK) != "unlocked"
    done = say(agent, "yes", conversation_id=asked["conversation_id"])
    assert state_of(LOCK) == "unlocked", speech(done)


def test_the_options_guard_a_lamp(added: tuple[str, str]) -> None:
    api("POST", "services/light/turn_off", entity_id=LAMP)
    entry, agent = added
    flow = api("POST", "config/config_entries/options/flow", handler=entry)
    chosen = {"mode": "act", "guard": [LAMP]}
    done = api("POST", f"config/config_entries/options/flow/{flow['flow_id']}", **chosen)
    assert done["type"] == "create_entry"
    assert "Bed Light" in speech(say(agent, "Turn on the bed light.")) and state_of(LAMP) == "off"
