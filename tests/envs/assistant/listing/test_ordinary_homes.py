"""Homes as people have them: what is out of reach, what shows fractions, what speaks fahrenheit, what makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.entity_capabilities import CAPABILITIES, shipped_service_forms
from homerl.envs.assistant.listing.home_listing import SERVICES, STATES, Listing
from homerl.envs.assistant.listing.homeassistant_mapping import values_from_state
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from tests.envs.assistant.listing.making import alone, home_of
from tests.envs.assistant.listing.replay import listing

Row = dict[str, Any]
WARMTH = ("temperature", "current_temperature", "target_temp_low", "target_temp_high", "min_temp", "max_temp")


def fahrenheit(celsius: Any) -> Any:
    number = isinstance(celsius, (int, float)) and not isinstance(celsius, bool)
    return round(celsius * 1.8 + 32, 1) if number else celsius


def in_fahrenheit(row: Row) -> Row:
    """The state as a home shows it whose units are American."""
    state, attributes = row["state"], dict(row["attributes"])
    if attributes.get("temperature_unit") == "°C":
        attributes |= {name: fahrenheit(attributes[name]) for name in WARMTH if name in attributes}
        attributes["temperature_unit"] = "°F"
    if attributes.get("unit_of_measurement") == "°C":
        attributes |= {name: fahrenheit(attributes[name]) for name in ("min", "max") if name in attributes}
        attributes["unit_of_measurement"], state = "°F", str(fahrenheit(float(state)))
    return row | {"state": state, "attributes": attributes}


def silent(row: Row) -> Row:
    """The state as older versions show it: without the unit of its temperatures."""
    return row | {"attributes": {name: value for name, value in row["attributes"].items() if name != "temperature_unit"}}


def bare(row: Row) -> Row:
    """The state of what cannot be reached: only its limits are shown."""
    kept = {name: value for name, value in row["attributes"].items() if name in CAPABILITIES}
    return row | {"state": "unavailable", "attributes": kept}


def empty(row: Row) -> Row:
    """The state with null for all that is no limit."""
    return row | {"attributes": {name: value if name in CAPABILITIES else None for name, value in row["attributes"].items()}}


WAYS: dict[str, Callable[[Row], Row]] = {
    "unavailable": lambda row: row | {"state": "unavailable"},
    "unreachable": bare,
    "unknown": lambda row: row | {"state": "unknown"},
    "null": empty,
    "fahrenheit": in_fahrenheit,
    "fahrenheit, untold": lambda row: silent(in_fahrenheit(row)),
    "fahrenheit, unreachable": lambda row: bare(in_fahrenheit(row)),
}


@cache
def american(untold: bool = False) -> ImportedHome:
    rows = [in_fahrenheit(row) for row in listing().sources[STATES]]
    return home_of([silent(row) for row in rows] if untold else rows, "°F")


def spec_of(made: ImportedHome, did: str) -> DeviceSpec:
    return made.home.plan.devices_by_did[did].spec


def not_made(made: ImportedHome) -> list[str]:
    """The entities that no product of their own could be made of."""
    return [note.entity for note in made.notes if note.part == "product"]


@pytest.mark.parametrize(  # the home in fahrenheit, untold, is imported below too
    "way", [pytest.param(way, marks=[pytest.mark.long] * (way == "fahrenheit, untold")) for way in WAYS]
)
def test_every_entity_is_imported_in_whatever_state_it_is(way: str) -> None:
    rows = [WAYS[way](row) for row in listing().sources[STATES]]
    made = home_of(rows, "°F" if way.startswith("fahrenheit") else "°C")
    assert len(made.home.plan.devices) == len(rows) and not not_made(made)
    made.home.fork().advance(3600)


def test_a_cover_out_of_reach_is_imported_whole() -> None:
    made = alone("cover.blind", "unavailable", supported_features=255, device_class="blind")
    assert {"current_position", "current_tilt_position"} <= spec_of(made, "cover.blind").attribute_index.keys()
    assert made.home.read_value("cover.blind", "state") == "unavailable"


THERMOSTAT = {
    "hvac_modes": ["off", "heat", "cool", "heat_cool"],
    "min_temp": 5,
    "max_temp": 30,
    "supported_features": 387,
    "current_temperature": 19.5,
    "target_temp_low": 6,
    "target_temp_high": 28,
    "temperature": None,
}


def test_a_thermostat_remembers_its_range_within_its_own_limits() -> None:
    made = alone("climate.hall", "heat_cool", temperature_unit="°C", **THERMOSTAT)
    assert not not_made(made) and made.home.read_value("climate.hall", "target_temp_low") == 6
    made.home.call("climate.hall", "set_temperature", (), {"target_temp_low": 5, "target_temp_high": 29})
    assert made.home.read_value("climate.hall", "target_temp_low") == 5


def test_a_fraction_of_a_second_or_of_a_percent_moves_too() -> None:
    player = {"supported_features": 152463, "volume_level": 0.4, "media_position": 12.53, "media_duration": 200}
    made = alone("media_player.cast", "playing", **player)
    assert not not_made(made) and made.home.read_value("media_player.cast", "media_position") == 12.5
    made.home.advance(10)
    assert made.home.read_value("media_player.cast", "media_position") == 22.5
    made = alone("cover.awning", "open", supported_features=15, current_position=37.5)
    assert not not_made(made) and made.home.read_value("cover.awning", "current_position") == 37.5
    made.home.call("cover.awning", "set_cover_position", (), {"position": 40})
    made.home.advance(5)
    assert made.home.read_value("cover.awning", "current_position") == 40


def test_a_player_that_is_off_tells_fractions_later() -> None:
    made = alone("media_player.cast", "off", supported_features=152463)
    device = made.home.plan.devices_by_did["media_player.cast"]
    assert values_from_state(device, "playing", {"media_position": 61.27})["media_position"] == 61.3


def test_a_fan_of_three_speeds_is_stepped_by_any_percentage() -> None:
    """The step that a call names is a whole number, whatever that of its speeds is."""
    home = alone("fan.attic", "on", supported_features=49, percentage=33, percentage_step=33.333333333333336).home
    home.call("fan.attic", "increase_speed", (), {"percentage_step": 25})
    assert home.read_value("fan.attic", "percentage") == 58


def test_a_colour_is_told_once() -> None:
    """The same colour in other numbers would stay as it was when another is set."""
    shown = {"supported_color_modes": ["hs"], "color_mode": "hs", "hs_color": [0, 100], "xy_color": [0.7, 0.3]}
    state = alone("light.strip", "on", **shown).home.state_of("light.strip")
    assert state["hs_color"] == (0, 100) and "xy_color" not in state


def test_a_fan_has_a_third_of_its_speed() -> None:
    made = alone("fan.attic", "on", supported_features=49, percentage=33.3, percentage_step=33.3)
    assert not not_made(made) and made.home.read_value("fan.attic", "percentage") == 33.3


def test_a_boiler_may_be_hot() -> None:
    water = {"operation_list": ["off", "eco"], "min_temp": 30, "max_temp": 80, "supported_features": 3}
    made = alone("water_heater.boiler", "eco", **water, temperature=75, current_temperature=71, temperature_unit="°C")
    assert not not_made(made) and made.home.read_value("water_heater.boiler", "current_temperature") == 71


@pytest.mark.parametrize(
    "attributes",
    [
        {"supported_features": "all of them"},
        {"supported_features": 15, "supported_color_modes": 5},
        {"min": -1e300, "max": 1e300},
    ],
)
@pytest.mark.parametrize("domain", ["light", "number", "cover", "strange"])
def test_what_makes_no_sense_ends_no_import(domain: str, attributes: dict[str, Any]) -> None:
    sources = listing().sources
    name = f"{domain}.odd"
    row = {"entity_id": name, "state": "1", "attributes": attributes}
    offered = {name: [f"{domain}.{service}" for service in shipped_service_forms().get(domain, {})]}
    beside = sources[STATES][:20]  # the import of all takes long
    sources = sources | {STATES: [*beside, row], SERVICES: sources[SERVICES] | offered}
    made = import_home(Listing(version="1", sources=sources), everything=True)
    assert len(made.home.plan.devices) == len(beside) + 1
    assert set(not_made(made)) <= {name}


def test_what_cannot_be_made_is_a_plainer_device_and_is_noted() -> None:
    made = alone("number.odd", "1", min=-1e300, max=1e300)
    (note, *_) = [note for note in made.notes if note.part == "product"]
    assert note.entity == "number.odd" and "plainer" in note.why
    assert made.home.read_value("number.odd", "state") == "1"


@pytest.mark.parametrize("untold", [False, True])
def test_a_home_in_fahrenheit_shows_its_warmth(untold: bool) -> None:
    made = american(untold)
    for did, path, value, bounds in (
        ("climate.hvac", "current_temperature", 71.6, (-40, 140)),
        ("climate.hvac", "temperature", 69.8, (44.6, 95)),
        ("climate.ecobee", "target_temp_low", 69.8, (44.6, 95)),
        ("climate.ecobee", "low", 69.8, (44.6, 95)),
        ("weather.demo_weather_south", "temperature", 70.9, (-40, 140)),
        ("water_heater.demo_water_heater", "temperature", 118.9, (109.9, 140)),
        ("number.temperature_setting", "state", 71.6, (59, 95)),
    ):
        attribute = spec_of(made, did).attribute_index[path][1]
        assert (made.home.read_value(did, path), attribute.range, attribute.unit) == (value, bounds, "fahrenheit"), (
            did,
            path,
        )


def test_arguments_in_fahrenheit_have_their_bounds() -> None:
    for argument in spec_of(american(), "climate.ecobee").service_index["set_temperature"].service.arguments:
        if argument.type == "float":
            assert (argument.range, argument.unit) == ((44.6, 95), "fahrenheit")


def test_a_home_in_fahrenheit_follows_the_real_one() -> None:
    device = american().home.plan.devices_by_did["climate.hvac"]
    assert values_from_state(device, "cool", {"current_temperature": 75})["current_temperature"] == 75


def test_the_air_of_a_home_in_fahrenheit_is_as_warm_as_in_celsius() -> None:
    celsius = home_of(listing().sources[STATES]).home.fork()
    fahrenheit = american().home.fork()
    for home in (celsius, fahrenheit):
        home.advance(4 * 3600)
    for room in celsius.plan.rooms:
        assert fahrenheit.read_value(room.id, "temperature") == pytest.approx(
            celsius.read_value(room.id, "temperature"), abs=0.2
        )
        assert fahrenheit.read_value(room.id, "humidity") == pytest.approx(celsius.read_value(room.id, "humidity"), abs=0.5)


def test_what_heats_in_fahrenheit_heats_as_fast() -> None:
    water = {"operation_list": ["off", "eco"], "supported_features": 3}
    european = {"temperature": 60, "current_temperature": 40, "min_temp": 30, "max_temp": 80, "temperature_unit": "°C"}
    us = {"temperature": 140, "current_temperature": 104, "min_temp": 86, "max_temp": 176, "temperature_unit": "°F"}
    warm = []
    for units in (european, us):
        made = alone("water_heater.boiler", "eco", **water, **units)
        assert spec_of(made, "water_heater.boiler").attribute_index["temperature"][1].range == (
            units["min_temp"],
            units["max_temp"],
        )
        made.home.advance(120)
        warm.append(made.home.read_value("water_heater.boiler", "current_temperature"))
    assert warm[0] > 40 and warm[1] == pytest.approx(fahrenheit(warm[0]), abs=0.3)


def test_wind_is_in_the_unit_that_is_shown() -> None:
    made = alone("weather.here", "windy", temperature=20, wind_speed=8.5, wind_speed_unit="mph", temperature_unit="°C")
    wind = spec_of(made, "weather.here").attribute_index["wind_speed"][1]
    assert (wind.unit, wind.range, made.home.read_value("weather.here", "wind_speed")) == ("mph", (0, 124.3), 8.5)
