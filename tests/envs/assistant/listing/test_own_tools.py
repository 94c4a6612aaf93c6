"""The tools that the entities of a home make, beside the recorded ones: schemas, answers, and what they call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import ENTRIES, EXPOSED, FORMS, SERVICES, STATES, Listing
from homerl.envs.core.world import tool_call_to_action
from homerl.envs.homeenv.sim.assist.api_and_prompt import assist_prompt
from homerl.envs.homeenv.sim.assist.assist_tools import ITEMS, PLAY, SEARCH, offered_assist_tools
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.listing.replay import listing, recorded

FIELDS = {
    "minutes": {"required": True, "description": "How long", "selector": {"number": {"min": 1, "max": 90}}},
    "colour": {"selector": {"select": {"options": ["red", "blue"]}}},
    "loud": {"selector": {"boolean": {}}},
}


def with_entities(of: Listing, *rows: Mapping[str, Any], forms: Mapping[str, Any] | None = None, **services: Any) -> Listing:
    """A listing with more entities, exposed; `services` by the object id of each."""
    sources = of.sources
    offers = {row["entity_id"]: services.get(row["entity_id"].partition(".")[2], []) for row in rows}
    exposed = {row["entity_id"]: {"conversation": True} for row in rows}
    told = {
        STATES: [*sources[STATES], *rows],
        SERVICES: sources[SERVICES] | offers,
        EXPOSED: {"exposed_entities": sources[EXPOSED]["exposed_entities"] | exposed},
        FORMS: {**sources[FORMS], "script": {**sources[FORMS]["script"], **(forms or {})}},
    }
    return of.with_sources(told)


def only(of: Listing, *domains: str) -> Listing:
    """A listing in which the entities of these domains alone are exposed."""
    kept = {name: to for name, to in of.sources[EXPOSED]["exposed_entities"].items() if name.partition(".")[0] in domains}
    entries = {name: entry and {**entry, "options": {}} for name, entry in of.sources[ENTRIES].items()}
    return of.with_sources({EXPOSED: {"exposed_entities": kept}, ENTRIES: entries})


@pytest.fixture(scope="module")
def small() -> Home:
    return import_home(only(listing(), "todo", "calendar", "script", "vacuum")).home


def call(env: HomeEnv, tool: str, **arguments: Any) -> tuple[str, Mapping[str, Any]]:
    text, _, _, _, info = env.step(tool_call_to_action(tool, arguments, tool in env.tools_with_name))
    return text, info


def test_the_tools_of_the_recorded_home_are_offered_as_they_were_there() -> None:
    """All 32 of them, in their order, with the names of its lists and calendars and its script."""
    tools = offered_assist_tools(import_home(listing()).home)
    ours = [tool.function_schema()["function"] for tool in tools]
    theirs = recorded("tools")["tools"]
    assert [one.hints.read_only for one in tools] == [one["annotations"]["readOnlyHint"] for one in theirs]
    assert [one.hints.destructive for one in tools] == [one["annotations"]["destructiveHint"] for one in theirs]
    assert [one["name"] for one in ours] == [one["name"] for one in theirs]
    for one, there in zip(ours, theirs):
        assert (one["description"], sorted(one["parameters"])) == (there["description"], sorted(there["inputSchema"]))
        assert one["parameters"] == there["inputSchema"], one["name"]


@pytest.mark.parametrize("domain", ["todo", "script"])
def test_calls_are_answered_as_they_were_there(small: Home, domain: str) -> None:
    """One after another: what stands on a list afterwards depends on what was called before."""
    env = HomeEnv(small, toolset="assist")
    for one in recorded("assist")["calls"]:
        if one["tool"].partition("__")[0] == domain:
            text, info = call(env, one["tool"], **one["arguments"])
            assert bool(info["blocked"]) == one["failed"], one
            assert without_uids(text) == without_uids(one["text"])


def without_uids(text: str) -> Any:
    if not text.startswith("{"):
        return text
    told = json.loads(text)
    return sorted((item["status"], item["summary"]) for item in told["items"]) if "items" in told else told


def test_a_vacuum_is_sent_to_a_room_by_its_own_service(small: Home) -> None:
    env = HomeEnv(small, toolset="assist")
    text, _ = call(env, "vacuum__HassVacuumCleanArea", area="lounge", name="Demo vacuum 0 ground floor")
    assert json.loads(text)["data"]["success"] == [
        {"name": "Living Room", "type": "area", "id": "living_room"},
        {"name": "Demo vacuum 0 ground floor", "type": "entity", "id": "vacuum.demo_vacuum_0_ground_floor"},
    ]
    assert env.engine.home.read_value("vacuum.demo_vacuum_0_ground_floor", "state") == "cleaning"
    _, info = call(env, "vacuum__HassVacuumCleanArea", area="Nowhere")
    assert info["blocked"]["rule"] == "unknown_room"


@pytest.fixture(scope="module")
def rich() -> Home:
    """A home with a script that has fields, a satellite that speaks, and a player that can be searched."""
    script = {
        "entity_id": "script.tea",
        "state": "off",
        "attributes": {"friendly_name": "Tea", "current": 0, "mode": "single"},
    }
    satellite = {
        "entity_id": "assist_satellite.kitchen",
        "state": "idle",
        "attributes": {"friendly_name": "Kitchen voice", "supported_features": 3},
    }
    player = {
        "entity_id": "media_player.radio",
        "state": "idle",
        "attributes": {"friendly_name": "Radio", "supported_features": 512 | 4194304 | 16384},
    }
    told = with_entities(
        only(listing()),
        script,
        satellite,
        player,
        forms={"tea": {"name": "Tea", "description": "Makes tea", "fields": FIELDS}},
        tea=["script.turn_on", "script.turn_off", "script.toggle"],
        kitchen=["assist_satellite.announce"],
        radio=["media_player.play_media", "media_player.search_media", "media_player.media_play"],
    )
    return import_home(told).home


def test_a_script_with_fields_is_a_tool_with_typed_arguments(rich: Home) -> None:
    (tea,) = (tool.function_schema()["function"] for tool in offered_assist_tools(rich) if tool.name == "script__tea")
    assert tea["description"] == "Makes tea. Aliases: ['Tea']"
    assert tea["parameters"]["required"] == ["minutes"] and tea["parameters"]["properties"] == {
        "minutes": {"type": "number", "minimum": 1, "maximum": 90},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "loud": {"type": "boolean"},
    }
    env = HomeEnv(rich, toolset="assist")
    assert call(env, "script__tea", minutes=5, colour="red")[0] == '{"result": {}}'
    for wrong in ({}, {"minutes": 500}, {"minutes": 5, "colour": "green"}):
        assert call(env, "script__tea", **wrong)[1]["blocked"], wrong


def test_media_are_looked_for_and_played_on_a_player_that_can(rich: Home, small: Home) -> None:
    assert {SEARCH, PLAY} <= {tool.name for tool in offered_assist_tools(rich)}
    assert not {SEARCH, PLAY} & {tool.name for tool in offered_assist_tools(small)}
    env = HomeEnv(rich, toolset="assist")
    assert call(env, SEARCH, search_query="Bach")[0] == '{"results": []}'
    assert (
        call(env, PLAY, media_content_id="bach-1", media_content_type="music", player_name="Radio")[0] == '{"success": true}'
    )
    assert env.engine.home.read_value("media_player.radio", "state") == "playing"
    assert call(env, PLAY, media_content_id="x", media_content_type="music", player_name="TV")[1]["blocked"]


def test_an_item_of_a_list_may_be_as_people_say_it(small: Home) -> None:
    env = HomeEnv(small, toolset="assist")
    call(env, "todo__HassListAddItem", name="Chores", item=" sweep ")
    assert json.loads(call(env, ITEMS, todo_list="Chores")[0])["items"] == [{"summary": "Sweep", "status": "needs_action"}]
    call(env, "todo__HassListCompleteItem", name="chores", item="SWEEP")
    assert env.engine.home.read_value("todo.chores", "completed") == ("Sweep",)
    assert call(env, ITEMS, todo_list="No list")[1]["blocked"]["rule"] == "out_of_range"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("🔥 Kamin", '"\\U0001F525 Kamin"'),  # as libyaml does, by which Home Assistant writes
        ('Opa\'s "Lampe"', 'Opa\'s "Lampe"'),
        ("Küche: Licht", "'Küche: Licht'"),
        ("- Licht # 1", "'- Licht # 1'"),
        ("on", "'on'"),
    ],
)
def test_names_stand_in_the_prompt_as_home_assistant_writes_them(name: str, written: str) -> None:
    row = {"entity_id": "light.x", "state": "off", "attributes": {"friendly_name": name, "supported_color_modes": ["onoff"]}}
    home = import_home(with_entities(only(listing()), row, x=["light.turn_on", "light.turn_off"])).home
    assert f"\n- names: {written}\n  domain: light\n" in assist_prompt(home)
    text, info = call(HomeEnv(home, toolset="assist"), "intent__HassTurnOn", name=name)
    assert not info["blocked"] and json.loads(text)["data"]["success"][0]["name"] == name.strip()
