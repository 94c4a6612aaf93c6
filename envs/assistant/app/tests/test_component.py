"""The component as Home Assistant's own tests test integrations. `scripts/check_homeassistant --component` runs them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import voluptuous as vol
from conftest import KEY, StandIn
from custom_components.homerl.agent import base_of
from custom_components.homerl.const import DOMAIN
from custom_components.homerl.diagnostics import shown_host
from homeassistant.components import conversation
from homeassistant.components.conversation.const import DATA_COMPONENT
from homeassistant.components.homeassistant.exposed_entities import async_expose_entity
from homeassistant.components.intent import async_register_timer_handler
from homeassistant.config_entries import SOURCE_HASSIO, SOURCE_USER, ConfigEntryDisabler, ConfigEntryState
from homeassistant.const import CONF_API_KEY, CONF_URL
from homeassistant.core import Context, HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import chat_session
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.selector import NumberSelector, TextSelector
from homeassistant.helpers.service_info.hassio import HassioServiceInfo
from homeassistant.setup import async_setup_component
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.components.diagnostics import get_diagnostics_for_config_entry

SPEAKER, CLERK = "conversation.homerl", "ai_task.homerl_tasks"


@pytest.fixture
async def entry(hass: HomeAssistant, agent: StandIn) -> MockConfigEntry:
    """An agent that was added."""
    entry = MockConfigEntry(domain=DOMAIN, title="homerl", data={CONF_URL: agent.url, CONF_API_KEY: KEY})
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    return entry


async def says(
    hass: HomeAssistant, text: str, conversation_id: str | None = None, device: str | None = None
) -> conversation.ConversationResult:
    return await conversation.async_converse(
        hass, text, conversation_id, Context(), agent_id=SPEAKER, language="en", device_id=device
    )


def speech(result: conversation.ConversationResult) -> str:
    return result.response.as_dict()["speech"]["plain"]["speech"]


@pytest.mark.parametrize("typed", ["http://host:8124", "http://host:8124/", " http://host:8124/v1/ ", "http://host:8124/v1"])
async def test_an_address_is_understood_with_and_without_its_end(typed: str) -> None:
    assert base_of(typed) == "http://host:8124/v1"


@pytest.mark.parametrize("tells", [{}, {"owned_by": "homerl"}, {"homerl": None}, {"homerl": {"serves": "model"}}])
async def test_the_server_of_a_model_is_not_added(hass: HomeAssistant, agent: StandIn, tells: dict[str, Any]) -> None:
    agent.tells = tells
    flow = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER})
    shown = await hass.config_entries.flow.async_configure(flow["flow_id"], {CONF_URL: agent.url, CONF_API_KEY: KEY})
    assert shown["type"] is FlowResultType.FORM and shown["errors"] == {"base": "no_agent"}


async def test_it_is_added_by_hand_once_the_agent_answers(hass: HomeAssistant, agent: StandIn) -> None:
    for typed, key, where, error in (
        ("host:8124", KEY, CONF_URL, "invalid_url"),
        (agent.url, "another", "base", "invalid_auth"),
        (agent.url.replace("/v1", "/nowhere"), KEY, "base", "cannot_connect"),
    ):
        flow = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER})
        shown = await hass.config_entries.flow.async_configure(flow["flow_id"], {CONF_URL: typed, CONF_API_KEY: key})
        assert shown["type"] is FlowResultType.FORM and shown["errors"] == {where: error}
    given = {CONF_URL: agent.url.removesuffix("/v1"), CONF_API_KEY: KEY}
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], given)
    assert done["type"] is FlowResultType.CREATE_ENTRY and done["title"] == "homerl"
    assert done["data"] == {CONF_URL: agent.url, CONF_API_KEY: KEY}
    again = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER}, data=given)
    assert again["type"] is FlowResultType.ABORT and again["reason"] == "already_configured"


async def test_agents_are_named_homerl_and_their_devices_tell_model_and_version(
    hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry, device_registry: dr.DeviceRegistry
) -> None:
    """Another agent is told from the first by its host."""
    assert {SPEAKER, CLERK} <= set(hass.states.async_entity_ids())
    (device,) = dr.async_entries_for_config_entry(device_registry, entry.entry_id)
    assert (device.name, device.model, device.sw_version) == ("homerl", "tiny", "1.2.3")
    hass.config_entries.async_update_entry(entry, data={CONF_URL: "http://127.0.0.1:9/v1", CONF_API_KEY: KEY})
    other = {CONF_URL: agent.url, CONF_API_KEY: KEY}
    done = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER}, data=other)
    assert agent.server is not None and done["title"] == f"homerl 127.0.0.1:{agent.server.port}"


async def test_the_app_tells_of_its_agent(hass: HomeAssistant, agent: StandIn) -> None:
    assert agent.server is not None
    told = {"host": "127.0.0.1", "port": agent.server.port, "api_key": KEY}
    info = HassioServiceInfo(config=told, name="homerl", slug="local_homerl", uuid="1234")
    flow = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_HASSIO}, data=info)
    assert flow["type"] is FlowResultType.FORM and flow["step_id"] == "hassio_confirm"
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], {})
    assert done["type"] is FlowResultType.CREATE_ENTRY and done["data"] == {CONF_URL: agent.url, CONF_API_KEY: KEY}
    info.config["api_key"] = "a new one"
    again = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_HASSIO}, data=info)
    assert again["reason"] == "already_configured" and done["result"].data[CONF_API_KEY] == "a new one"


async def test_a_dialogue_is_sent_whole_and_the_reply_is_spoken(
    hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry
) -> None:
    agent.says = lambda body: "I am asked to unlock Front Door. Shall I?" if len(body["messages"]) == 2 else "Done."
    first = await says(hass, "Unlock the front door.")
    assert speech(first).endswith("Shall I?") and first.continue_conversation
    second = await says(hass, "Yes.", first.conversation_id)
    assert speech(second) == "Done." and not second.continue_conversation
    system, *dialogue = agent.requests[-1]["messages"]
    assert system["role"] == "system" and [one["content"] for one in dialogue] == [
        "Unlock the front door.",
        "I am asked to unlock Front Door. Shall I?",
        "Yes.",
    ]
    assert agent.requests[-1]["homerl"] == {}


async def test_speech_begins_before_the_last_word(hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry) -> None:
    """The agent says its second word once the first one is heard."""
    agent.says, heard = lambda body: "It is warm.", list[str]()
    agent.goes.clear()

    def hear(log: conversation.ChatLog, delta: dict[str, Any]) -> None:
        if delta.get("content"):
            heard.append(delta["content"])
            agent.goes.set()

    with (
        chat_session.async_get_chat_session(hass) as session,
        conversation.async_get_chat_log(hass, session, chat_log_delta_listener=hear),
    ):
        async with asyncio.timeout(10):
            result = await says(hass, "How is it outside?", session.conversation_id)
    assert heard == ["It", " is", " warm."] and speech(result) == "It is warm."
    assert hass.data[DATA_COMPONENT].get_entity(SPEAKER).supports_streaming


async def test_a_reply_that_breaks_off_is_told(hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry) -> None:
    agent.breaks = True
    assert "The agent broke off." in speech(await says(hass, "How is it outside?"))


async def test_timers_of_a_satellite_are_home_assistants(
    hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry, device_registry: dr.DeviceRegistry
) -> None:
    """What is no sentence of its about timers, and what a device without timers hears, is the agent's."""
    events = list[tuple[str, int]]()
    with_timers, without = (
        device_registry.async_get_or_create(config_entry_id=entry.entry_id, identifiers={("test", name)}).id
        for name in ("satellite", "screen")
    )
    async_register_timer_handler(hass, with_timers, lambda kind, timer: events.append((kind, timer.seconds)))
    assert speech(await says(hass, "Set a timer for 5 minutes", device=with_timers)) == "Timer set for 5 minutes"
    assert "minutes" in speech(await says(hass, "How much time is left on my timer", device=with_timers))
    await says(hass, "Cancel my timer", device=with_timers)
    assert events == [("started", 300), ("cancelled", 0)] and not agent.requests
    for said, device in (
        ("Set a timer for 5 minutes", without),
        ("Set a timer for 5 minutes", None),
        ("Turn on the lamp in 5 minutes", with_timers),
        ("How is it outside?", with_timers),
    ):
        assert speech(await says(hass, said, device=device)) == "Done."
    assert len(agent.requests) == 4 and len(events) == 2


async def test_what_the_agent_does_not_say_is_told(hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry) -> None:
    assert agent.server is not None
    await agent.server.close()
    result = await says(hass, "Turn on the lamp.")
    assert speech(result) == "The agent does not answer." and result.response.error_code == "failed_to_handle"


async def test_the_options_make_the_agent_more_careful(hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry) -> None:
    flow = await hass.config_entries.options.async_init(entry.entry_id)
    chosen = {"mode": "confirm", "language": "de", "guard": ["switch.boiler"]}
    done = await hass.config_entries.options.async_configure(flow["flow_id"], chosen)
    await hass.async_block_till_done()
    assert done["type"] is FlowResultType.CREATE_ENTRY and entry.state is ConfigEntryState.LOADED
    await says(hass, "Turn on the lamp.")
    assert agent.requests[-1]["homerl"] == {"mode": "confirm", "guard": ["switch.boiler"]}
    assert hass.data[DATA_COMPONENT].get_entity(SPEAKER).supported_languages == ["de"]


async def task(hass: HomeAssistant, **more: Any) -> Any:
    data = {"task_name": "test", "entity_id": CLERK, "instructions": "How warm is the bedroom?"} | more
    answer = await hass.services.async_call("ai_task", "generate_data", data, blocking=True, return_response=True)
    return answer["data"]


async def test_a_task_changes_nothing_and_gives_text_or_data(
    hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry
) -> None:
    agent.says = lambda body: "It is 21 degrees."
    assert await task(hass) == "It is 21 degrees."
    assert agent.requests[-1]["homerl"] == {"mode": "shadow"}
    number = {"selector": {"number": {}}, "description": "degrees", "required": True}
    structure = {"warm": number, "remark": {"selector": {"text": {}}}}
    agent.says = lambda body: 'Here you are: {"warm": 21}'
    assert await task(hass, structure=structure) == {"warm": 21}
    assert agent.requests[-1]["response_format"] == {"type": "json_object"} and "response_format" not in agent.requests[0]
    asked = agent.requests[-1]["messages"][-1]["content"]
    assert "- warm " in asked and "): degrees" in asked and "remark" in asked and "may be missing" in asked
    for wrong in ("21", '{"warm": "very"}', '{"remark": "mild"}', "{"):
        agent.says = lambda body, said=wrong: said
        with pytest.raises(HomeAssistantError, match="no data of this structure"):
            await task(hass, structure=structure)


@pytest.mark.usefixtures("entry")  # another agent, for which the integration is loaded
async def test_an_entry_that_was_never_set_up_has_diagnostics(hass: HomeAssistant, hass_client: Any, agent: StandIn) -> None:
    assert await async_setup_component(hass, "diagnostics", {})
    data = {CONF_URL: agent.url, CONF_API_KEY: KEY}
    unused = MockConfigEntry(domain=DOMAIN, title="unused", data=data, disabled_by=ConfigEntryDisabler.USER)
    unused.add_to_hass(hass)
    told = await get_diagnostics_for_config_entry(hass, hass_client, unused)
    assert told["agent"]["model"] == "tiny" and told["entry"]["state"] == "not_loaded" and not told["last_failures"]


async def test_diagnostics_tell_what_failed_and_nothing_secret(
    hass: HomeAssistant, hass_client: Any, agent: StandIn, entry: MockConfigEntry
) -> None:
    hass.states.async_set("light.annas_lamp", "on")
    hass.states.async_set("sensor.annas_phone", "home")
    async_expose_entity(hass, conversation.DOMAIN, "light.annas_lamp", True)
    async_expose_entity(hass, conversation.DOMAIN, "sensor.annas_phone", False)
    hass.config_entries.async_update_entry(entry, options={"mode": "confirm", "guard": ["light.annas_lamp"]})
    agent.breaks = True
    await says(hass, "My code is 4711.")
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["agent"] == {"model": "tiny", "version": "1.2.3", "mode": "act"}
    assert told["endpoint"]["host"] == "127.0.0.1" and told["entry"]["has_key"] is True
    assert told["options"] == {"mode": "confirm", "language": None, "guarded_entities": 1}
    assert told["exposed_entities"]["light"] == 1 and "sensor" not in told["exposed_entities"]
    (failure,) = told["last_failures"]
    assert (failure["said"], failure["cause"]) == ("The agent broke off.", "AgentError")
    assert agent.server is not None
    await agent.server.close()
    gone = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert gone["agent"] is None and gone["last_failures"][-1]["said"] == "The agent does not answer."
    for text in (json.dumps(told), json.dumps(gone)):
        assert not any(secret in text for secret in (KEY, "4711", "anna"))


@pytest.mark.parametrize(
    ("host", "shown"),
    [("localhost", True), ("192.168.0.2", True), ("::1", True), ("annas-pc.local", False), ("93.184.216.34", False)],
)
async def test_diagnostics_show_hosts_by_addresses_of_the_home_alone(host: str, shown: bool) -> None:
    assert (shown_host(host) == host) is shown


@pytest.mark.parametrize(
    "image", ["icon.png", "icon@2x.png", "logo.png", "logo@2x.png", "dark_logo.png", "dark_logo@2x.png"]
)
async def test_home_assistant_shows_the_pictures_of_the_component(
    hass: HomeAssistant, hass_client: Any, entry: MockConfigEntry, image: str
) -> None:
    assert await async_setup_component(hass, "brands", {})
    client = await hass_client()
    answer = await client.get(f"/api/brands/integration/homerl/{image}?placeholder=no")
    own = Path(__file__).parents[1] / "custom_components/homerl/brand" / image
    assert answer.status == 200 and await answer.read() == own.read_bytes()


async def test_another_key_is_asked_for(hass: HomeAssistant, agent: StandIn) -> None:
    entry = MockConfigEntry(domain=DOMAIN, title="homerl", data={CONF_URL: agent.url, CONF_API_KEY: "old"})
    entry.add_to_hass(hass)
    assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.SETUP_ERROR
    (flow,) = hass.config_entries.flow.async_progress()
    assert flow["context"]["source"] == "reauth"
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], {CONF_API_KEY: KEY})
    await hass.async_block_till_done()
    assert done["reason"] == "reauth_successful" and entry.state is ConfigEntryState.LOADED


async def test_another_address_can_be_given(hass: HomeAssistant, agent: StandIn, entry: MockConfigEntry) -> None:
    hass.config_entries.async_update_entry(entry, data={CONF_URL: "http://127.0.0.1:9/v1", CONF_API_KEY: KEY})
    flow = await entry.start_reconfigure_flow(hass)
    given = {CONF_URL: agent.url, CONF_API_KEY: KEY}
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], given)
    await hass.async_block_till_done()
    assert done["reason"] == "reconfigure_successful" and entry.data == given and entry.state is ConfigEntryState.LOADED


async def test_a_structure_is_told_in_words() -> None:
    from custom_components.homerl.ai_task import form_of

    told = form_of(vol.Schema({vol.Required("a", description="first"): NumberSelector(), vol.Optional("b"): TextSelector()}))
    assert "- a " in told and ": first" in told and "- b " in told and told.count("may be missing") == 1
