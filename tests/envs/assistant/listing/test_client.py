"""The client against recorded answers of a real Home Assistant, and against servers that are none."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from running import running
from starlette.applications import Starlette

from homerl.envs.assistant.listing.home_listing import ENTRIES, SERVICES
from homerl.envs.assistant.listing.homeassistant_client import (
    HomeAssistantClient,
    HomeAssistantError,
    connect_client,
    read_token,
)
from tests.envs.assistant.listing.replay import TOKEN, Replay, recorded
from tests.envs.assistant.listing.replay import listing as recorded_listing


@pytest.fixture(scope="module")
def home() -> Iterator[Replay]:
    with Replay() as replay:
        yield replay


def ask(
    url: str, question: Callable[[HomeAssistantClient], Awaitable[Any]], token: str = TOKEN, patience: float = 20
) -> Any:
    """What one question is answered over a connection of its own."""

    async def asked() -> Any:
        async with connect_client(url, SecretStr(token), patience) as client:
            return await question(client)

    return asyncio.run(asked())


def refusal(url: str, question: Callable[[HomeAssistantClient], Awaitable[Any]], **how: Any) -> HomeAssistantError:
    with pytest.raises(HomeAssistantError) as raised:
        ask(url, question, **how)
    return raised.value


async def version(client: HomeAssistantClient) -> str:
    return client.version


def test_a_listing_is_what_home_assistant_said(home: Replay) -> None:
    assert ask(home.url, lambda client: client.read_listing()) == recorded_listing()


def test_states_are_those_of_the_home(home: Replay) -> None:
    states = ask(home.url, lambda client: client.read_states())
    assert {"light.bed_light", "lock.front_door"} <= {state["entity_id"] for state in states}


def test_a_service_call_names_its_target_and_data(home: Replay) -> None:
    data, target = {"brightness_pct": 30}, {"entity_id": "light.bed_light"}
    ask(home.url, lambda client: client.call_service("light", "turn_on", data, target))
    sent = dict(home.seen[-1])
    del sent["id"]
    assert sent == {"type": "call_service", "domain": "light", "service": "turn_on", "service_data": data, "target": target}


def test_a_service_that_answers_gives_its_answer(home: Replay) -> None:
    given = ask(
        home.url, lambda client: client.call_service("todo", "get_items", {}, {"entity_id": "todo.chores"}, returns=True)
    )
    assert [item["summary"] for item in given["todo.chores"]["items"]]


def test_a_sentence_is_answered(home: Replay) -> None:
    asked = {"text": "Turn on the kitchen lights", "language": "en"}
    answer = ask(home.url, lambda client: client.call_command("conversation/process", **asked))
    assert answer["response"]["response_type"] == "action_done"


def test_commands_asked_at_once_get_their_own_answers(home: Replay) -> None:
    async def both(client: HomeAssistantClient) -> Any:
        return await asyncio.gather(client.call_command("config/floor_registry/list"), client.call_command("get_config"))

    floors, config = ask(home.url, both)
    assert [floor["name"] for floor in floors] and config["time_zone"]


def test_home_assistants_refusal_is_told_with_the_call() -> None:
    call = next(call for call in recorded("services") if "error" in call["outcome"])
    domain, service = call["service"].split(".")
    with Replay() as home:
        error = refusal(
            home.url, lambda client: client.call_service(domain, service, call["data"], {"entity_id": call["entity"]})
        )
    assert f"`call_service {call['service']}`" in str(error) and call["outcome"]["error"] in str(error)
    assert (error.code, error.said) == (call["outcome"]["code"], call["outcome"]["error"])


def test_an_old_home_assistant_is_told_by_its_version() -> None:
    with Replay(lacks=frozenset({SERVICES})) as home:
        error = refusal(home.url, lambda client: client.read_listing())
    assert f"Home Assistant {recorded_listing().version}" in str(error)
    assert f"does not know the command `{SERVICES}`. Update it" in str(error)


def test_no_answer_in_time_is_an_error_and_the_next_command_gets_its_own() -> None:
    async def twice(client: HomeAssistantClient) -> Any:
        with pytest.raises(HomeAssistantError, match=r"gave no answer to `get_config` within 0\.3 s"):
            await client.call_command("get_config")
        return await client.call_command("config/label_registry/list")

    with Replay(silent=frozenset({"get_config"})) as home:
        assert ask(home.url, twice, patience=0.3) == recorded_listing().sources["config/label_registry/list"]


def test_a_closed_connection_is_told() -> None:
    with Replay(hangs_up=frozenset({"get_config"})) as home:
        error = refusal(home.url, lambda client: client.call_command("get_config"))
    assert "closed the connection at `get_config`. Has Home Assistant stopped?" in str(error)


def test_an_answer_that_is_no_message_is_told() -> None:
    with Replay(garbled=frozenset({"get_config"})) as home:
        error = refusal(home.url, lambda client: client.call_command("get_config"))
    assert "answered `get_config` with what is no message" in str(error)


def test_nobody_at_the_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    assert f"{url} cannot be reached" in str(refusal(url, version))


def test_a_port_that_cannot_be_is_told() -> None:
    assert "http://127.0.0.1:99999 cannot be reached" in str(refusal("http://127.0.0.1:99999", version))


def test_a_slash_behind_the_address_does_no_harm(home: Replay) -> None:
    assert ask(f"{home.url}/", version) == recorded_listing().version


@pytest.mark.parametrize("page", ["/lovelace/0", "/dashboard-home/kitchen", "/config/"])
def test_the_address_of_a_page_is_understood(home: Replay, page: str) -> None:
    async def greeted() -> str:
        async with connect_client(f"{home.url}{page}", SecretStr(TOKEN)) as client:
            return client.url

    assert asyncio.run(greeted()) == home.url


def test_another_program_at_the_port_is_told() -> None:
    with running(Starlette()) as port:
        assert "not as Home Assistant does" in str(refusal(f"http://127.0.0.1:{port}/elsewhere", version))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_and_not_followed(home: Replay, status: int) -> None:
    async def redirected() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            place = f"{home.url.replace('http', 'ws')}/api/websocket?token=secret"
            writer.write(f"HTTP/1.1 {status} Elsewhere\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(HomeAssistantError) as raised:
                async with connect_client(url, SecretStr(TOKEN), 20):
                    pass
            return str(raised.value)

    said = asyncio.run(redirected())
    place = f"{home.url.replace('http', 'ws')}/api/websocket"
    assert f"HTTP {status}, a redirect to {place}. It is not followed" in said and "secret" not in said


@pytest.mark.parametrize(
    "url",
    [
        "homeassistant.local:8123",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:port",
        "http://[::1",
        "http://a b",
        "http://me:secret@127.0.0.1:8123",
        "http://127.0.0.1:8123?token=secret",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    error = str(refusal(url, version))
    assert "is no address of a Home Assistant" in error and "secret" not in error


def test_a_wrong_token_is_refused_everywhere(home: Replay) -> None:
    error = refusal(home.url, version, token="wrong")
    assert "refused the token" in str(error) and error.code == "auth_invalid"
    for path in ("/api/states", "/api/states/light.bed_light"):
        assert httpx.get(home.url + path, headers={"Authorization": "Bearer wrong"}, trust_env=False).status_code == 401


def test_a_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HA_TOKEN", " abc\n")
    assert read_token("HA_TOKEN").get_secret_value() == "abc"
    monkeypatch.delenv("HA_TOKEN")
    with pytest.raises(HomeAssistantError, match="The environment variable HA_TOKEN holds no token"):
        read_token("HA_TOKEN")


def test_a_token_is_told_to_nobody(home: Replay, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HA_TOKEN", TOKEN)
    assert TOKEN not in repr(read_token("HA_TOKEN"))

    async def shown(client: HomeAssistantClient) -> str:
        await client.read_states()
        return f"{client!r} {vars(client)}"

    texts = [
        ask(home.url, shown),
        str(refusal(home.url, lambda client: client.call_command("no/such/command"))),
        caplog.text,
    ]
    wrong = refusal(home.url, version, token="a-wrong-token")
    assert not any(TOKEN in text for text in texts)
    assert "a-wrong-token" not in f"{wrong} {wrong!r} {caplog.text}"


def test_the_records_hold_no_secret() -> None:
    for state in recorded_listing().sources["get_states"]:
        assert set(state["attributes"].get("access_token", "0")) == {"0"}


def test_a_listing_knows_each_registered_entity_in_full() -> None:
    sources = recorded_listing().sources
    assert sources[ENTRIES].keys() == {entity["entity_id"] for entity in sources["config/entity_registry/list"]}
