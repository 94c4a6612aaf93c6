"""The served twin shows what Home Assistant shows now, and an agent reads of it what Home Assistant's own agents read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from pydantic import SecretStr

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, CONFIG, STATES, Listing
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.serving.real_home import HomeAssistantHome
from homerl.envs.core.world import tool_call_to_action
from homerl.envs.homeenv.sim.assist.api_and_prompt import assist_prompt
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, recorded, recorded_home

CONTEXT, CLOCK = "homeassistant__GetLiveContext", "llm__GetDateTime"
KNOWN = ("open", "closed", "opening", "closing")  # states of covers and valves
SECRET = "text.password"
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@cache
def home() -> Home:
    return recorded_home()


def listing_with(entity: str, state: str, **attributes: Any) -> Listing:
    """The recorded listing, with one entity in another state."""
    rows = [
        row | {"state": state, "attributes": row["attributes"] | attributes} if row["entity_id"] == entity else row
        for row in listing().sources[STATES]
    ]
    return listing().with_sources({STATES: rows})


def state_there(entity: str, state: str, **attributes: Any) -> dict[str, Any]:
    """A row of the recorded states, with another state. What is in none has no position."""
    (row,) = (row for row in listing().sources[STATES] if row["entity_id"] == entity)
    nowhere = {} if state in KNOWN else {"current_position": None}
    return row | {"state": state, "attributes": row["attributes"] | nowhere | attributes}


def told(of: Home, entity: str) -> str:
    """The state that an agent of Assist reads."""
    return next(one for one in entities_of_plan(of.plan) if one.id == entity).state_text(of)


def answer(of: Home, tool: str, **arguments: Any) -> str:
    env = HomeEnv(of, (), "assist")
    text, *_ = env.step(tool_call_to_action(tool, arguments, tool in env.tools_with_name))
    return text


def rows(text: str) -> list[dict[str, Any]]:
    """The list of entities in a text."""
    listed: list[dict[str, Any]] = yaml.safe_load(text[text.index("- names:") :].split("\n\n")[0])
    return listed


# What the agent reads


def test_the_prompt_is_the_recorded_one_row_by_row() -> None:
    real = recorded("tools")["prompts"][0]["messages"][0]["content"]["text"]
    for ours, theirs in zip(rows(assist_prompt(home())), rows(real), strict=True):
        assert ours == theirs
    assert assist_prompt(home()) == real


def test_a_home_file_keeps_what_the_agent_reads() -> None:
    again = home_from_json(json.loads(json.dumps(home_to_json(home()))), "home")
    assert assist_prompt(again) == assist_prompt(home())
    assert answer(again, CLOCK) == answer(home(), CLOCK)


def test_live_context_is_the_recorded_one_but_for_these_causes() -> None:
    theirs = next(one for one in recorded("assist")["calls"] if one["tool"] == CONTEXT and not one["arguments"])
    pairs = zip(rows(json.loads(answer(home(), CONTEXT))["result"]), rows(json.loads(theirs["text"])["result"]), strict=True)
    differing = {there["names"]: (here, there) for here, there in pairs if here != there}
    password = differing.pop("Password")
    assert (password[0]["state"], password[1]["state"]) == ("", "Hello world"), "contents of password fields are left out"
    digits = {name for name, (here, there) in differing.items() if as_numbers(here) == as_numbers(there)}
    assert differing.keys() == digits, "numbers are told with the digits of a number, 54.0 for 54"


def as_numbers(told: Any) -> Any:
    """A row with its texts as numbers, where they are some."""
    if isinstance(told, dict):
        return {key: as_numbers(part) for key, part in told.items()}
    try:
        return float(told)
    except (TypeError, ValueError):
        return told


@pytest.mark.parametrize(
    ("slots", "meant"),
    [
        ({"name": "Living Room Fan"}, ["fan.living_room_fan"]),
        ({"name": "kitchen lights"}, ["light.kitchen_lights"]),
        ({"name": "Chandelier"}, ["light.ceiling_lights"]),
        ({"name": "Ventilator", "area": "Lounge"}, ["fan.ceiling_fan"]),
        ({"area": "lounge", "domain": ["fan"]}, ["fan.ceiling_fan", "fan.living_room_fan", "fan.preset_only_limited_fan"]),
        ({"floor": "first_floor", "domain": ["light"]}, ["light.bed_light", "light.office_rgbw_lights"]),
        ({"device_class": ["garage"]}, ["cover.garage_door"]),
        ({"name": "Front Door"}, ["lock.front_door"]),
    ],
)
def test_the_names_of_home_assistant_are_understood(slots: Mapping[str, Any], meant: Iterable[str]) -> None:
    success = json.loads(answer(home(), "intent__HassTurnOn", **slots))["data"]["success"]
    assert sorted(one["id"] for one in success if one["type"] == "entity") == sorted(meant)


def test_what_is_in_no_area_is_found_in_none() -> None:
    assert "does not exist" in answer(home(), "intent__HassTurnOn", area="home", domain=["lock"])


def test_floors_are_called_as_there() -> None:
    floors = [
        {"floor_id": "dg", "name": "Dachgeschoss", "aliases": ["Oben"], "level": 2},
        {"floor_id": "keller", "name": "Keller", "aliases": [], "level": None},
    ]
    sources = listing().sources
    areas = [
        area | {"floor_id": "dg" if area["floor_id"] == "first_floor" else "keller"}
        for area in sources["config/area_registry/list"]
    ]
    changed = {"config/floor_registry/list": floors, "config/area_registry/list": areas}
    made = import_home(listing().with_sources(changed)).home
    for floor in ("oben", "dg", "Dachgeschoss"):
        data = json.loads(answer(made, "intent__HassTurnOn", floor=floor, domain=["light"]))["data"]
        assert {"name": "Dachgeschoss", "type": "floor", "id": "dg"} in data["success"]
        assert {"light.bed_light", "light.office_rgbw_lights"} <= {one["id"] for one in data["success"]}


# States

STATES_THERE = {
    "media_player.bedroom": ("off", "on", "idle", "playing", "paused", "standby", "buffering"),
    "lock.front_door": ("locked", "locking", "unlocked", "unlocking", "opening", "open", "jammed"),
    "lock.openable_lock": ("locked", "locking", "unlocked", "unlocking", "opening", "open", "jammed"),
    "alarm_control_panel.security": (
        "disarmed",
        "disarming",
        "arming",
        "armed_home",
        "armed_away",
        "armed_night",
        "armed_vacation",
        "pending",
        "armed_custom_bypass",
        "triggered",
    ),
    "vacuum.demo_vacuum_0_ground_floor": ("cleaning", "docked", "paused", "idle", "returning", "error"),
    "lawn_mower.my_lawn_mower": ("mowing", "docked", "paused", "returning", "error"),
    "cover.garage_door": ("open", "closed", "opening", "closing"),
    "cover.hall_window": ("open",),
    "valve.front_garden": ("open", "closed"),
    "weather.demo_weather_north": ("exceptional", "lightning-rainy", "snowy-rainy", "windy-variant"),
    "timer.pizza": ("idle",),
    "siren.siren": ("on", "off"),
    "climate.hvac": ("off", "heat", "cool"),
    "water_heater.demo_water_heater": ("off", "eco"),
}
DEAD = ("unavailable", "unknown")


@cache
def in_first_states() -> Home:
    rows = [row | {"state": STATES_THERE.get(row["entity_id"], [row["state"]])[0]} for row in listing().sources[STATES]]
    return import_home(listing().with_sources({STATES: rows})).home


@pytest.mark.parametrize("entity", STATES_THERE)
def test_the_twin_shows_every_state_of_home_assistant(entity: str) -> None:
    first, *others = STATES_THERE[entity]
    made = in_first_states()
    for state in (*others, *DEAD, first):
        made = refresh_home(made, [state_there(entity, state)])
        now = told(made, entity)
        assert now in DEAD if state == "unknown" else now == state


@pytest.mark.parametrize("state", [*DEAD, "a state that nobody knows"])
def test_no_entity_keeps_an_old_state(state: str) -> None:
    gone = [state_there(did, state) for did in home().plan.devices_by_did]
    fresh = refresh_home(home(), gone)
    for device in fresh.plan.devices:
        free = device.spec.attribute_index["state"][1].options is None  # any text is a state
        now = told(fresh, device.did)
        hidden = device.did == SECRET and state not in DEAD
        assert now == "" if hidden else now in DEAD or (free and now == state), device.did
    fresh.fork().advance(60)
    there = [row for row in listing().sources[STATES] if row["entity_id"] in fresh.plan.devices_by_did]
    assert answer(refresh_home(fresh, there), CONTEXT) == answer(home(), CONTEXT)


def test_what_is_imported_while_it_is_gone_comes_back() -> None:
    rows_gone = [row | {"state": "unavailable", "attributes": {}} for row in listing().sources[STATES]]
    made = import_home(listing().with_sources({STATES: rows_gone})).home
    fresh = refresh_home(made, [state_there(entity, states[0]) for entity, states in STATES_THERE.items()])
    for entity, (first, *_) in STATES_THERE.items():
        assert told(made, entity) == "unavailable" and told(fresh, entity) == first


def test_an_entity_that_tells_nothing_has_no_values() -> None:
    fresh = refresh_home(home(), [{"entity_id": "cover.hall_window", "state": "unavailable", "attributes": {}}])
    (row,) = rows(json.loads(answer(fresh, CONTEXT, name="Hall Window"))["result"])
    assert row["state"] == "unavailable" and "attributes" not in row


TOLD = {"current_temperature": 21.5, "temperature": 45}


def test_a_value_that_is_not_told_any_more_is_null() -> None:
    gone = {"climate.heatpump": "heat", "water_heater.demo_water_heater": "eco"}
    rows_there = [state_there(did, state, current_temperature=None, temperature=None) for did, state in gone.items()]
    known = refresh_home(home(), [row | {"attributes": row["attributes"] | TOLD} for row in rows_there])
    assert all(known.read_value(did, "current_temperature") == 21.5 for did in gone)
    fresh = refresh_home(known, rows_there)
    assert all(fresh.read_value(did, "current_temperature") is None for did in gone)
    assert all(fresh.read_value(did, "temperature") is None for did in gone)
    fresh.advance(600)


SWITCHED = [
    ("light.bed_light", "turn_on", "on"),
    ("cover.garage_door", "open_cover", "open"),
    ("lock.front_door", "lock", "locked"),
    ("siren.siren", "turn_off", "off"),
    ("vacuum.demo_vacuum_0_ground_floor", "start", "cleaning"),
]


def test_what_is_in_an_unknown_state_can_be_switched() -> None:
    for entity, service, after in SWITCHED:
        fresh = refresh_home(home(), [state_there(entity, "unknown")])
        fresh.call(entity, service)
        assert told(fresh, entity) == after


def test_what_is_imported_with_an_unfitting_value_is_noted() -> None:
    notes = import_home(listing_with("light.bed_light", "on", brightness="very")).notes
    assert [note.why for note in notes if (note.entity, note.part) == ("light.bed_light", "attribute brightness")] == [
        "its value 'very' does not fit; here it begins as None"
    ]


# Privacy and time


def test_a_refresh_leaves_out_what_an_import_leaves_out() -> None:
    made = import_home(listing_with("person.anna", "home"), everything=True).home
    fresh = refresh_home(made, [state_there("person.anna", "Work"), state_there(SECRET, "hunter2")])
    assert fresh.read_value("person.anna", "state") == "not_home"
    assert "hunter2" not in json.dumps(home_to_json(fresh)) + answer(fresh, CONTEXT)


@pytest.mark.parametrize(
    ("moment", "told_there"),
    [
        (NOON, {"date": "2026-07-01", "time": "14:00:00", "timezone": "CEST", "weekday": "Wednesday"}),
        (
            datetime(2026, 12, 31, 23, 30, tzinfo=UTC),
            {"date": "2027-01-01", "time": "00:30:00", "timezone": "CET", "weekday": "Friday"},
        ),
    ],
)
def test_the_clock_shows_the_moment_of_the_refresh_in_the_homes_zone(
    moment: datetime, told_there: Mapping[str, str]
) -> None:
    assert json.loads(answer(refresh_home(home(), [], moment), CLOCK)) == told_there


def test_a_served_twin_is_at_the_present_moment() -> None:
    with Replay() as server:
        fresh = asyncio.run(HomeAssistantHome(server.url, SecretStr(TOKEN)).refresh_twin(home()))
    now = datetime.now(ZoneInfo("Europe/Berlin")).replace(tzinfo=UTC).timestamp()
    assert now - 60 < fresh.clock <= now


def test_what_home_assistant_does_not_have_any_more_is_unavailable() -> None:
    """It was renamed or removed, or Home Assistant is starting: what was true before is not told, and nothing is called."""
    gone = ("lock.front_door", "cover.garage_door", "sensor.outside_temperature")
    rows = [row for row in listing().sources[STATES] if row["entity_id"] not in gone]
    with Replay(listing().with_sources({STATES: rows})) as server:
        fresh = asyncio.run(HomeAssistantHome(server.url, SecretStr(TOKEN)).refresh_twin(home()))
    assert [fresh.read_value(entity, "state") for entity in gone] == ["unavailable", "unavailable", None]
    with pytest.raises(Refused, match="cannot be reached"):
        fresh.call("lock.front_door", "unlock")
    back = refresh_home(fresh, listing().sources[STATES])
    assert [back.read_value(entity, "state") for entity in gone] == [home().read_value(entity, "state") for entity in gone]


def test_a_home_without_a_zone_is_in_utc() -> None:
    config = {key: value for key, value in listing().sources[CONFIG].items() if key != "time_zone"}
    made = import_home(listing().with_sources({CONFIG: config})).home
    assert json.loads(answer(refresh_home(made, [], NOON), CLOCK))["timezone"] == "UTC"
    assert json.loads(answer(refresh_home(made, [], NOON), CLOCK))["time"] == "12:00:00"


def test_what_happened_outside_triggers_nothing_in_the_twin() -> None:
    name, motion, light = (
        "automation.hall_light_at_the_door",
        "binary_sensor.movement_backyard",
        "light.entrance_color_white_lights",
    )
    moved = {"trigger": "state", "entity_id": motion, "to": "on"}
    at_noon = {"trigger": "time", "at": "12:00:00"}
    text = {"triggers": [moved, at_noon], "actions": [{"action": "light.turn_off", "target": {"entity_id": light}}]}
    still = listing_with(motion, "off")
    made = import_home(still.with_sources({AUTOMATIONS: {name: text}})).home
    assert len(made.rules) == 2
    fresh = refresh_home(made, [state_there(motion, "on")], NOON)
    assert not fresh.fork().advance(120), "it moved, and noon was two hours ago"
    still_there = refresh_home(fresh, [state_there(motion, "off")])
    assert refresh_home(still_there, [state_there(motion, "off")]).state_key() == still_there.state_key()
    still_there.advance(60)
    assert len(still_there.fork().advance(23 * 3600)) == 1, "tomorrow there is a noon again"
