"""What the records of a real Home Assistant cover, and how far the imported home does the same."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from ha.normal import MOMENT, Normal
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.home_listing import Listing
from homerl.envs.assistant.listing.home_setup import select_entities
from tests.envs.assistant.listing.agreement import ComparedCall, agreement_share, compare_recorded_calls
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, recorded

LEAST = 0.97  # of the calls have the same main state after them


@pytest.fixture(scope="module")
def imported() -> ImportedHome:
    return import_home(listing())


@pytest.fixture(scope="module")
def compared(imported: ImportedHome) -> list[ComparedCall]:
    return list(compare_recorded_calls(imported.home, recorded("services")))


def tell(done: list[ComparedCall]) -> None:
    """Print how well two homes agree, and where they do not."""
    alike = sum(not one.attributes for one in done) / len(done)
    main = agreement_share(done)
    print(f"{len(done)} calls, main state equal in {main:.1%}, all further attributes in {alike:.1%}; main states:")
    print(*(f"- {one}" for one in done if not one.is_equal), sep="\n")


def test_each_exposed_entity_is_imported_with_its_services(imported: ImportedHome) -> None:
    devices = imported.home.plan.devices_by_did
    assert devices.keys() == {one.entity_id for one in select_entities(listing())} and len(devices) > 100
    noted = {(note.entity, note.part.rpartition(".")[2]) for note in imported.notes}
    hidden = {"browse_media", "search_media", "delete", "clean_spot", "send_command", "set_fan_speed"}
    for entity in select_entities(listing()):
        own = {one.partition(".")[2] for one in entity.services if one.startswith(f"{entity.domain}.")}
        missing = own - hidden - devices[entity.entity_id].spec.service_index.keys()
        assert all((entity.entity_id, name) in noted for name in missing), (entity.entity_id, missing)


def test_the_same_calls_give_the_same_states(compared: list[ComparedCall]) -> None:
    tell(compared)
    assert len(compared) > 1400 and agreement_share(compared) >= LEAST


def test_no_kind_of_device_is_mostly_wrong(compared: list[ComparedCall]) -> None:
    every, equal = Counter(), Counter()
    for one in compared:
        every[one.entity.partition(".")[0]] += 1
        equal[one.entity.partition(".")[0]] += one.is_equal
    assert {domain: equal[domain] / every[domain] for domain in every if equal[domain] / every[domain] < 0.75} == {}


def test_a_home_that_is_no_demo_does_the_same_too() -> None:
    """A home in Spanish, with helpers, groups, scripts and template devices, recorded by `check_homeassistant --casa`."""
    made = import_home(Listing.model_validate(recorded("casa_listing")))
    done = list(compare_recorded_calls(made.home, recorded("casa_services")))
    tell(done)
    assert len(made.home.plan.devices) >= 60 and len(done) > 800 and agreement_share(done) >= LEAST
    assert sum(not one.attributes for one in done) / len(done) >= 0.95
    assert not [note for note in made.notes if note.part == "automation"] and len(made.home.rules) > 20


def test_a_difference_says_what_is_there_and_here() -> None:
    one = ComparedCall("lock.a", "lock.open", {}, "open", "locked", ours="precondition: no")
    assert (
        not one.is_equal and str(one) == "lock.a lock.open {}: 'open' there, 'locked' here; ours refuses: precondition: no"
    )
    assert agreement_share([one, ComparedCall("lock.a", "lock.lock", {}, "locked", "locked")]) == 0.5


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
