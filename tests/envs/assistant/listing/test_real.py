"""The client, and what the records claim, against a real Home Assistant (`scripts/check_homeassistant` starts one)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from ha.services import services
from homerl.envs.assistant.home_import import ImportedHome, fetch_listing, import_home
from homerl.envs.assistant.listing.home_listing import Listing
from homerl.envs.assistant.listing.home_setup import select_entities
from homerl.envs.assistant.listing.homeassistant_client import (
    HomeAssistantClient,
    HomeAssistantError,
    connect_client,
    read_token,
)
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home, to_homeassistant, values_from_state
from tests.envs.assistant.listing.agreement import agreement_share, compare_recorded_calls
from tests.envs.assistant.listing.replay import listing as recorded_listing
from tests.envs.assistant.listing.replay import recorded

URL = os.environ.get("HOMERL_HA_URL", "")
pytestmark = [
    pytest.mark.homeassistant,
    pytest.mark.skipif(not URL, reason="no HOMERL_HA_URL: scripts/check_homeassistant starts a real Home Assistant"),
]


def ask(question: Callable[[HomeAssistantClient], Awaitable[Any]], token: SecretStr | None = None) -> Any:
    """What one question is answered over a connection of its own."""

    async def asked() -> Any:
        async with connect_client(URL, token or read_token("HA_TOKEN")) as client:
            return await question(client)

    return asyncio.run(asked())


@pytest.fixture(scope="module")
def imported() -> ImportedHome:
    return import_home(fetch_listing(URL, "HA_TOKEN"))


def state_of(entity: str) -> dict[str, Any]:
    states: list[dict[str, Any]] = ask(lambda client: client.read_states())
    return next(state for state in states if state["entity_id"] == entity)


def test_its_home_is_the_recorded_one() -> None:
    listing: Listing = ask(lambda client: client.read_listing())
    old = recorded_listing()
    assert listing.version == old.version, "another version: renew the records with `scripts/check_homeassistant --record`"
    assert listing.sources.keys() == old.sources.keys()
    for name in ("config/area_registry/list", "config/floor_registry/list", "config/device_registry/list"):
        assert sorted(row["name"] for row in listing.sources[name]) == sorted(row["name"] for row in old.sources[name])
    assert listing.sources["homeassistant/expose_entity/list"] == old.sources["homeassistant/expose_entity/list"]
    assert Listing.model_validate_json(listing.model_dump_json()) == listing


def test_a_service_call_changes_the_lamp() -> None:
    target = {"entity_id": "light.bed_light"}
    ask(lambda client: client.call_service("light", "turn_on", {"brightness": 99}, target))
    assert state_of("light.bed_light")["attributes"]["brightness"] == 99
    ask(lambda client: client.call_service("light", "turn_off", {}, target))
    assert state_of("light.bed_light")["state"] == "off"


def test_a_sentence_changes_the_lamp() -> None:
    answer = ask(lambda client: client.call_command("conversation/process", text="turn on the bed light", language="en"))
    assert answer["response"]["response_type"] == "action_done"
    assert state_of("light.bed_light")["state"] == "on"


def test_a_refusal_is_home_assistants() -> None:
    with pytest.raises(HomeAssistantError) as raised:
        ask(
            lambda client: client.call_service("light", "turn_on", {"brightness_pct": 130}, {"entity_id": "light.bed_light"})
        )
    assert raised.value.code == "invalid_format" and str(raised.value.said) in str(raised.value)


def test_an_unknown_command_is_told_by_the_version() -> None:
    with pytest.raises(HomeAssistantError, match=r"Home Assistant \S+ at \S+ does not know the command `no/such/command`"):
        ask(lambda client: client.call_command("no/such/command"))


def test_a_wrong_token_is_refused() -> None:
    with pytest.raises(HomeAssistantError, match="refused the token") as raised:
        ask(lambda client: client.read_states(), SecretStr("wrong"))
    assert raised.value.code == "auth_invalid"


def test_its_assist_tools_are_the_recorded_ones() -> None:
    head = {"Authorization": f"Bearer {read_token('HA_TOKEN').get_secret_value()}", "Accept": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx.post(f"{URL}/api/mcp/assist", json=body, headers=head, trust_env=False, timeout=60).json()
    assert answer["result"]["tools"] == recorded("tools")["tools"]


def test_its_home_is_imported_whole(imported: ImportedHome) -> None:
    listing: Listing = ask(lambda client: client.read_listing())
    assert imported.home.plan.devices_by_did.keys() == {one.entity_id for one in select_entities(listing)}
    assert imported.home.rules, "the automation of the demo home is read, for the token is an administrator's"


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("light.bed_light", "turn_on", {"brightness_pct": 40}),
    ("light.bed_light", "turn_on", {"color_temp_kelvin": 4000, "brightness": 77}),
    ("light.bed_light", "turn_off", {}),
    ("fan.living_room_fan", "set_percentage", {"percentage": 66}),
    ("climate.hvac", "set_temperature", {"temperature": 22.5}),
    ("climate.hvac", "set_hvac_mode", {"hvac_mode": "heat"}),
    ("media_player.bedroom", "volume_set", {"volume_level": 0.25}),
    ("switch.ac", "toggle", {}),
    ("input_number.target_humidity", "increment", {}),
    ("input_select.house_mode", "select_option", {"option": "Away"}),
    ("lock.front_door", "unlock", {}),
    ("vacuum.demo_vacuum_0_ground_floor", "start", {}),
]


@pytest.mark.parametrize(("did", "service", "arguments"), CALLS)
def test_a_call_of_the_imported_home_does_the_same_there(
    imported: ImportedHome, did: str, service: str, arguments: dict[str, Any]
) -> None:
    twin = refresh_home(imported.home, ask(lambda client: client.read_states()))
    call = to_homeassistant(twin, did, service, arguments)
    twin.call(did, service, (), arguments)
    ask(lambda client: client.call_service(call.domain, call.service, call.data, call.target))
    twin.advance(10)
    time.sleep(3)  # a lock takes two seconds
    real = state_of(did)
    assert values_from_state(twin.plan.devices_by_did[did], real["state"], real["attributes"])["state"] == twin.read_value(
        did, "state"
    )


@pytest.mark.timeout(900)
def test_every_call_gives_the_same_state_there(imported: ImportedHome) -> None:
    """It stands last, for it leaves the home changed; it makes the calls of the records, which takes minutes."""
    token = read_token("HA_TOKEN")
    head = {"Authorization": f"Bearer {token.get_secret_value()}"}

    async def made() -> list[dict[str, Any]]:
        async with (
            connect_client(URL, token) as client,
            httpx.AsyncClient(base_url=URL, headers=head, trust_env=False, timeout=60) as http,
        ):
            return await services(URL, token, http, client)

    compared = list(compare_recorded_calls(imported.home, asyncio.run(made())))
    print(f"{len(compared)} calls, main state equal in {agreement_share(compared):.1%}; those that differ:")
    print("\n".join(f"- {one}" for one in compared if not one.is_equal))
    assert len(compared) > 1400 and agreement_share(compared) >= 0.97
