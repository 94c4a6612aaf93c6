"""What the records of a real Home Assistant cover, and how a record is made equal to the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from ha.normal import MOMENT, Normal
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, recorded

CONTROLLED = frozenset(
    "alarm_control_panel automation button climate counter cover date datetime fan humidifier input_boolean input_button "
    "input_datetime input_number input_select input_text lawn_mower light lock media_player notify number remote scene "
    "schedule script select siren switch text time timer todo vacuum valve water_heater weather".split()
)


@pytest.fixture(scope="module")
def services() -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = recorded("services")
    return calls


def test_every_controllable_entity_is_called(services: list[dict[str, Any]]) -> None:
    called = {call["entity"] for call in services}
    assert {entity.entity_id for entity in listing().entities if entity.domain in CONTROLLED} <= called
    assert len(services) > 1000


def test_every_service_of_an_entity_is_called(services: list[dict[str, Any]]) -> None:
    called = {(call["entity"], call["service"]) for call in services}
    left = {
        (entity.entity_id, service)
        for entity in listing().entities
        for service in entity.services
        if entity.domain in CONTROLLED - {"automation", "media_player", "scene"} and service.startswith(f"{entity.domain}.")
    }
    assert left <= called


def test_calls_succeed_and_fail(services: list[dict[str, Any]]) -> None:
    failed = [call for call in services if "error" in call["outcome"]]
    assert 100 < len(failed) < len(services) / 2
    codes = {call["outcome"]["code"] for call in failed}
    assert {"invalid_format", "not_found", "service_validation_error"} <= codes
    assert all(call["before"] == call["after"] for call in failed if "after" in call)


def test_a_refused_call_leaves_the_state(services: list[dict[str, Any]]) -> None:
    invalid = [call for call in services if call["outcome"].get("code") == "invalid_format"]
    assert invalid and all(call["before"] == call.get("settled", call["after"]) for call in invalid)


def test_what_moves_is_seen_on_its_way_and_at_rest(services: list[dict[str, Any]]) -> None:
    opened = [call for call in services if (call["entity"], call["service"]) == ("cover.hall_window", "cover.open_cover")]
    assert any(
        call["after"]["state"] == "opening" and call["settled"]["attributes"]["current_position"] == 100 for call in opened
    )


def test_the_tools_that_are_called_are_shown() -> None:
    shown = {tool["name"] for tool in recorded("tools")["tools"]}
    assert {"intent__HassTurnOn", "light__HassLightSet", "homeassistant__GetLiveContext"} <= shown
    assert shown <= {call["tool"] for call in recorded("assist")["calls"]}


def test_the_prompt_names_the_devices() -> None:
    (prompt,) = recorded("tools")["prompts"]
    text = prompt["messages"][0]["content"]["text"]
    assert "names: Ceiling Lights, Big light, Chandelier" in text and "sun" not in text.lower()


def test_the_replay_answers_tool_calls_as_recorded() -> None:
    call = next(call for call in recorded("assist")["calls"] if call["changed"])
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": call["tool"], "arguments": call["arguments"]},
    }
    with Replay() as home:
        head = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{home.url}/api/mcp/assist", json=body, headers=head, trust_env=False).json()
        assert httpx.post(f"{home.url}/api/mcp/assist", json=body, trust_env=False).status_code == 401
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, call["text"])


def answer(hours: float, number: int, secret: str, areas: list[str]) -> dict[str, Any]:
    """An answer of a home that was asked at a time, and drew its ids and secrets."""
    at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    rows = [{"area_id": area, "id": f"{number + ord(area[0]):032x}", "created_at": hours} for area in areas]
    state = {"entity_id": "sun.sun", "state": f"{hours}", "last_changed": at, "attributes": {"since": f"{at} / {secret}"}}
    return {"areas": rows, "states": [state, {"entity_id": "geo_location.fire", "last_changed": at}]}


def test_two_records_of_one_home_are_equal() -> None:
    one, two = answer(1, 7, "a" * 64, ["hall", "attic"]), answer(9.5, 900, "b" * 64, ["attic", "hall"])
    assert Normal()(one) == Normal()(two)


def test_a_record_tells_homes_apart() -> None:
    one, two = answer(1, 7, "a" * 64, ["hall", "attic"]), answer(1, 7, "a" * 64, ["hall", "cellar"])
    assert Normal()(one) != Normal()(two)


def test_a_record_keeps_times_far_from_now_and_hides_secrets() -> None:
    kept = Normal()({"date": "2020-01-01 12:00:00", "at": datetime.now(UTC).isoformat(), "picture": f"/a?token={'c' * 64}"})
    assert kept == {"date": "2020-01-01 12:00:00", "at": MOMENT, "picture": f"/a?token={'0' * 64}"}


@pytest.mark.parametrize(("left", "kept"), [("0:07:51", "0:08:00"), ("0:08:00", "0:08:00"), ("1:59:59", "2:00:00")])
def test_a_record_rounds_what_a_timer_has_left(left: str, kept: str) -> None:
    assert Normal()({"remaining": left}) == {"remaining": kept}


def test_an_id_keeps_its_number_over_answers() -> None:
    normal = Normal()
    first, second = normal({"id": "f" * 32}), normal({"other": "e" * 32, "id": "f" * 32})
    assert first["id"] == second["id"] != second["other"]
