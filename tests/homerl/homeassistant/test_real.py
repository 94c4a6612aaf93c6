"""The client, and what the records claim, against a real Home Assistant (`scripts/check_homeassistant` starts one)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from homerl.homeassistant.client import Client, connect, token_from
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.listing import Listing
from tests.homerl.homeassistant.replay import listing as recorded_listing
from tests.homerl.homeassistant.replay import recorded

URL = os.environ.get("HOMERL_HA_URL", "")
pytestmark = [
    pytest.mark.homeassistant,
    pytest.mark.skipif(not URL, reason="no HOMERL_HA_URL: scripts/check_homeassistant starts a real Home Assistant"),
]


def ask(question: Callable[[Client], Awaitable[Any]], token: SecretStr | None = None) -> Any:
    """What one question is answered over a connection of its own."""

    async def asked() -> Any:
        async with connect(URL, token or token_from("HA_TOKEN")) as client:
            return await question(client)

    return asyncio.run(asked())


def state_of(entity: str) -> dict[str, Any]:
    states: list[dict[str, Any]] = ask(lambda client: client.states())
    return next(state for state in states if state["entity_id"] == entity)


def test_its_home_is_the_recorded_one() -> None:
    listing: Listing = ask(lambda client: client.listing())
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
    ask(lambda client: client.call_service("light", "turn_off", target=target))
    assert state_of("light.bed_light")["state"] == "off"


def test_a_sentence_changes_the_lamp() -> None:
    answer = ask(lambda client: client.converse("turn on the bed light", language="en"))
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
        ask(lambda client: client.call("no/such/command"))


def test_a_wrong_token_is_refused() -> None:
    with pytest.raises(HomeAssistantError, match="refused the token") as raised:
        ask(lambda client: client.states(), SecretStr("wrong"))
    assert raised.value.code == "auth_invalid"


def test_its_assist_tools_are_the_recorded_ones() -> None:
    head = {"Authorization": f"Bearer {token_from('HA_TOKEN').get_secret_value()}", "Accept": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx.post(f"{URL}/api/mcp/assist", json=body, headers=head, trust_env=False, timeout=60).json()
    assert answer["result"]["tools"] == recorded("tools")["tools"]
