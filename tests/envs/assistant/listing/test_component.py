"""The custom component in a real Home Assistant: the agent is added by the user interface, and does what people say."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_served import Agent
from scripted_server import ScriptedServer

from homerl.envs.assistant.listing.homeassistant_client import connect_client, read_token

URL = os.environ.get("HOMERL_HA_URL", "")
LAMP, LOCK = "light.bed_light", "lock.front_door"
pytestmark = [
    pytest.mark.homeassistant,
    pytest.mark.skipif(not URL, reason="no HOMERL_HA_URL: scripts/check_homeassistant starts a real Home Assistant"),
]


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a model does that understands three sentences, two of them in German too."""
    system, *_, last = request["messages"]
    if last["role"] != "user":
        return {"content": "Done."}
    said = last["content"].lower()
    tool = "HassTurnOff" if re.search("unlock|schließ.* auf", said) else "HassTurnOn"
    place = re.search(r"You are in area (\w+)", system["content"])
    named = {"name": "Front Door" if re.search("door|tür", said) else "Bed Light"}
    where = {"area": place[1] if place else "nowhere", "domain": ["light"]}
    call = {"name": f"intent__{tool}", "arguments": json.dumps(where if "the lights" in said else named)}
    return {"content": "", "tool_calls": [{"type": "function", "function": call}]}


def api(method: str, path: str, **body: Any) -> Any:
    head = {"Authorization": f"Bearer {read_token('HA_TOKEN').get_secret_value()}"}
    given = {"json": body} if method == "POST" else {}
    done = httpx.request(method, f"{URL}/api/{path}", headers=head, trust_env=False, timeout=60, **given)
    assert done.status_code < 300, f"{path}: {done.status_code} {done.text}"
    return done.json()


def state_of(entity: str) -> str:
    return str(api("GET", f"states/{entity}")["state"])


@pytest.fixture
def added(tmp_path: Path) -> Iterator[tuple[str, str]]:
    with agent_added(tmp_path) as found:
        yield found


@contextmanager
def agent_added(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The entry of an agent that acts, and the id of its conversation agent."""
    with ScriptedServer(answer=answer) as model, Agent(tmp_path, URL, model.url, more=("--mode", "act")) as agent:
        flow = api("POST", "config/config_entries/flow", handler="homerl")
        assert flow["type"] == "form" and flow["step_id"] == "user"
        done = api("POST", f"config/config_entries/flow/{flow['flow_id']}", url=agent.url)
        assert done["type"] == "create_entry" and done["title"] == "homerl"
        entry = done["result"]["entry_id"]
        yield entry, "conversation.homerl"  # it is not called after its model
        api("DELETE", f"config/config_entries/entry/{entry}")


def ask(command: str, **fields: Any) -> Any:
    """The result of a WebSocket command."""

    async def asked() -> Any:
        async with connect_client(URL, read_token("HA_TOKEN")) as client:
            return await client.call_command(command, **fields)

    return asyncio.run(asked())


def say(agent: str, text: str, language: str = "en", **more: str) -> dict[str, Any]:
    """The answer to a sentence."""
    answered: dict[str, Any] = ask("conversation/process", text=text, language=language, agent_id=agent, **more)
    return answered


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


def test_a_german_sentence_asks_and_a_ja_acts(tmp_path: Path) -> None:
    ask("config/core/update", language="de")
    try:
        api("POST", "services/lock/lock", entity_id=LOCK)
        with agent_added(tmp_path) as (_, agent):
            asked = say(agent, "Schließ die Haustür auf.", "de")
            assert "Zustimmung" in speech(asked) and asked["continue_conversation"] and state_of(LOCK) != "unlocked"
            done = say(agent, "Ja, mach das.", "de", conversation_id=asked["conversation_id"])
            assert state_of(LOCK) == "unlocked", speech(done)
    finally:
        ask("config/core/update", language="en")


def test_what_is_exposed_no_more_is_refused(added: tuple[str, str]) -> None:
    _, agent = added
    api("POST", "services/light/turn_off", entity_id=LAMP)
    expose = {"assistants": ["conversation"], "entity_ids": [LAMP]}
    ask("homeassistant/expose_entity", **expose, should_expose=False)
    try:
        assert "I could not do this" in speech(say(agent, "Turn on the bed light.")) and state_of(LAMP) == "off"
    finally:
        ask("homeassistant/expose_entity", **expose, should_expose=True)
    assert speech(say(agent, "Turn on the bed light.")) == "Done." and state_of(LAMP) == "on"


def test_the_room_of_the_speaker_is_meant(added: tuple[str, str]) -> None:
    """A satellite of the kitchen is a device in its area."""
    _, agent = added
    api("POST", "services/light/turn_off", entity_id="all")
    before = lights()
    told, heard = heard_at(agent, device_in("kitchen"), "Turn on the lights.")
    deltas = [event["data"].get("chat_log_delta", {}) for event in heard if event["type"] == "intent-progress"]
    assert told == "".join(delta.get("content") or "" for delta in deltas), heard
    assert told == "Done. That was: Kitchen Lights: turn on."
    assert {entity for entity, state in lights().items() if state != before[entity]} == {"light.kitchen_lights"}


def lights() -> dict[str, str]:
    return {row["entity_id"]: row["state"] for row in api("GET", "states") if row["entity_id"].startswith("light.")}


def device_in(area: str) -> str:
    """The id of a device in an area."""
    return next(str(row["id"]) for row in ask("config/device_registry/list") if row["area_id"] == area)


def heard_at(agent: str, device: str, text: str) -> tuple[str, list[dict[str, Any]]]:
    """What a device hears of an assistant with this agent, and the events that it gets for that."""

    async def asked() -> list[dict[str, Any]]:
        async with connect_client(URL, read_token("HA_TOKEN")) as client:
            none = dict.fromkeys(("tts_engine", "tts_language", "tts_voice", "stt_engine", "stt_language"))
            named = {"name": "homerl", "language": "en", "conversation_engine": agent, "conversation_language": "en"}
            made = {**none, **named, "wake_word_entity": None, "wake_word_id": None}
            pipeline = (await client.call_command("assist_pipeline/pipeline/create", **made))["id"]
            stages = {"start_stage": "intent", "end_stage": "intent", "input": {"text": text}}
            await client.call_command("assist_pipeline/run", **stages, pipeline=pipeline, device_id=device)
            events = []
            async for event in client.receive_events():
                events.append(event)
                if event["type"] in ("run-end", "error"):
                    return events
        raise AssertionError("the pipeline did not end")

    events = asyncio.run(asked())
    (end,) = (event["data"] for event in events if event["type"] == "intent-end")
    return speech(end["intent_output"]), events
