"""Calls and states between a home and its Home Assistant."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from draws import few
from hypothesis import example, given
from hypothesis import strategies as st

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS
from homerl.envs.assistant.listing.homeassistant_mapping import (
    from_homeassistant,
    refresh_home,
    to_homeassistant,
    values_from_state,
)
from homerl.envs.assistant.privacy import hide_secret_values
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import Link
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.replay import listing, recorded, recorded_home


@cache
def home() -> Home:
    return recorded_home()


@cache
def callable_services() -> list[tuple[str, str]]:
    return sorted(home().plan.compiled_services)


def drawn(argument, rng: random.Random):
    """A value of an argument; of one that names rooms, rooms of the home."""
    value, room = argument.sample_value(rng), rng.choice(home().plan.rooms).id
    return value if not argument.rooms else room if isinstance(value, str) else type(value)([room])


@few(120, 300)
@given(place=st.integers(0, 10_000), seed=st.integers(0, 1000))
@example(place=6144, seed=0)  # rooms to clean
def test_a_call_there_and_back_is_the_same_call(place: int, seed: int) -> None:
    did, service = callable_services()[place % len(callable_services())]
    rng = random.Random(seed)
    declared = home().plan.compiled_services[did, service][0].service.arguments
    arguments = {one.name: drawn(one, rng) for one in declared if one.required or rng.random() < 0.5}
    if {"date", "time", "datetime"} & arguments.keys():
        return  # their texts are drawn without a meaning
    domain, name, data, target = to_homeassistant(home(), did, service, arguments)
    assert target == {"entity_id": did} and domain == did.partition(".")[0]
    back, given_back = from_homeassistant(home(), did, f"{domain}.{name}", data)
    compiled = home().plan.compiled_services[did, service][0]
    assert back == service and compiled.bind_arguments((), given_back) == compiled.bind_arguments((), arguments)


@few(50, 100)
@given(number=st.integers(0, 2000))
@example(number=1189)  # a password field
def test_a_refreshed_home_shows_what_the_real_one_shows(number: int) -> None:
    calls = [call for call in recorded("services") if call["entity"] in home().plan.devices_by_did and "after" in call]
    call = calls[number % len(calls)]
    fresh = refresh_home(home(), [{"entity_id": call["entity"], **call["after"]}])
    device = fresh.plan.devices_by_did[call["entity"]]
    state, attributes = hide_secret_values(device.did, call["after"]["state"], call["after"]["attributes"])
    shown = values_from_state(device, state, attributes)
    index = device.spec.attribute_index
    for path, value in shown.items():
        if index[path][1].derived is None:
            assert fresh.read_value(device.did, path) == value
    assert refresh_home(fresh, [{"entity_id": call["entity"], **call["after"]}]).state_key() == fresh.state_key()


def test_a_refresh_leaves_the_home_as_it_was() -> None:
    before = home().state_key()
    fresh = refresh_home(home(), [{"entity_id": "light.bed_light", "state": "on", "attributes": {"brightness": 12}}])
    assert home().state_key() == before != fresh.state_key()
    assert fresh.read_value("light.bed_light", "brightness") == 12


def test_states_of_the_listing_change_nothing_that_can_be_set() -> None:
    fresh = refresh_home(home(), listing().sources["get_states"])
    assert not home().diff(fresh)


def test_a_light_that_went_off_by_itself_keeps_its_brightness() -> None:
    on = {
        "entity_id": "light.bed_light",
        "state": "on",
        "attributes": {"brightness": 77, "color_mode": "hs", "hs_color": [10, 20]},
    }
    off = {"entity_id": "light.bed_light", "state": "off", "attributes": {"brightness": None, "hs_color": None}}
    fresh = refresh_home(refresh_home(home(), [on]), [off])
    assert fresh.read_value("light.bed_light", "state") == "off"
    fresh.call("light.bed_light", "turn_on")
    assert fresh.read_value("light.bed_light", "brightness") == 77


@pytest.mark.parametrize("mode", ["hs", "xy", "rgb", "rgbw", "rgbww"])
def test_a_coloured_light_shows_its_colour_whatever_it_is_set_by(mode: str) -> None:
    """Most lamps tell their colour as `xy`, and Home Assistant shows hue and saturation beside it."""
    attributes = {
        "brightness": 77,
        "color_mode": mode,
        "hs_color": [0, 100],
        "rgb_color": [255, 0, 0],
        "color_temp_kelvin": None,
    }
    fresh = refresh_home(home(), [{"entity_id": "light.bed_light", "state": "on", "attributes": attributes}])
    assert fresh.read_value("light.bed_light", "hs_color") == (0, 100) and fresh.read_value(
        "light.bed_light", "rgb_color"
    ) == (255, 0, 0)
    assert fresh.read_value("light.bed_light", "color_temp_kelvin") is None
    fresh.call("light.bed_light", "turn_on", (), {"brightness": 200})
    assert fresh.read_value("light.bed_light", "hs_color") == (0, 100)


def test_an_unknown_entity_is_passed_over() -> None:
    assert (
        refresh_home(home(), [{"entity_id": "light.new", "state": "on", "attributes": {}}]).state_key() == home().state_key()
    )


@pytest.mark.parametrize("triggers", [1, 2])
def test_an_automation_is_enabled_as_its_own_state_says(triggers: int) -> None:
    name = "automation.hall_light_at_the_door"
    movement = {"trigger": "state", "entity_id": "binary_sensor.movement_backyard", "to": "on"}
    light = {"action": "light.turn_on", "target": {"entity_id": "light.bed_light"}}
    text = {"triggers": [movement, movement | {"for": 5}][:triggers], "actions": [light]}
    made = import_home(listing().with_sources({AUTOMATIONS: {name: text}})).home
    for state, enabled in (("off", False), ("unavailable", False), ("on", True), ("unknown", True)):
        made = refresh_home(made, [{"entity_id": name, "state": state, "attributes": {}}])
        assert [rule.progress.enabled for rule in made.rules] == [enabled] * triggers


def test_what_was_not_given_is_not_sent() -> None:
    call = to_homeassistant(home(), "light.bed_light", "turn_on", {"brightness_pct": 40, "effect": None})
    assert call == ("light", "turn_on", {"brightness_pct": 40}, {"entity_id": "light.bed_light"})


@pytest.mark.parametrize(
    ("entity", "service", "data", "ours"),
    [
        ("light.bed_light", "homeassistant.turn_off", {}, ("turn_off", {})),
        ("light.bed_light", "light.turn_on", {"brightness": 300}, ("turn_on", {"brightness": 255})),
        ("light.bed_light", "light.turn_on", {"transition": 2, "white": 10}, ("turn_on", {})),
        ("light.bed_light", "light.turn_on", {"brightness_pct": "50"}, ("turn_on", {"brightness_pct": 50})),
        ("timer.pizza", "timer.start", {"duration": "00:10:00"}, ("start", {"duration": 600})),
        ("time.time", "time.set_value", {"time": "7:30"}, ("set_value", {"time": "07:30:00"})),
        (
            "media_player.bedroom",
            "media_player.play_media",
            {"media": {"media_content_id": "a", "media_content_type": "music"}},
            ("play_media", {"media_content_id": "a", "media_content_type": "music"}),
        ),
    ],
)
def test_a_call_of_home_assistant_is_ours(entity: str, service: str, data: dict[str, Any], ours: Any) -> None:
    name, arguments = from_homeassistant(home(), entity, service, data)
    assert name == ours[0] and ours[1].items() <= arguments.items()
    assert not {"white", "media"} & arguments.keys()


@pytest.mark.parametrize(
    ("entity", "service", "data", "rule"),
    [
        ("light.gone", "light.turn_on", {}, "unknown_device"),
        ("light.bed_light", "light.glow", {}, "unknown_service"),
        ("switch.ac", "light.turn_on", {}, "unknown_service"),
        ("time.time", "time.set_value", {"time": "noon"}, "out_of_range"),
    ],
)
def test_a_call_that_means_nothing_here_is_refused(entity: str, service: str, data: dict[str, Any], rule: str) -> None:
    with pytest.raises(Refused) as refused:
        from_homeassistant(home(), entity, service, data)
    assert refused.value.rule == rule


def test_names_that_differ_are_translated() -> None:
    device = home().plan.devices_by_did["light.bed_light"]
    link = Link(attributes={"brightness": "Helligkeit"})
    assert values_from_state(device, "on", {"Helligkeit": 9}, link)["brightness"] == 9


def test_what_cannot_be_used_is_unknown() -> None:
    device = home().plan.devices_by_did["light.bed_light"]
    shown = values_from_state(device, "glowing", {"brightness": "very", "color_temp_kelvin": 3000})
    assert shown["state"] == "unknown" and shown["brightness"] is None and shown["color_temp_kelvin"] == 3000
