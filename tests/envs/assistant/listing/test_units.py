"""The units in which homes measure, and dates, times and durations as Home Assistant writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, parse_clock_duration, to_homeassistant
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.listing.product_narrowing import CONVERSIONS
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone

HEATING = {"hvac_modes": ["heat", "off"], "min_temp": 45, "max_temp": 95, "temperature": 68, "current_temperature": 66}


def stored(**data: Any) -> str:
    return json.dumps({"version": 1, "key": "core.config", "data": data})


def imported(folder: Path, files: dict[str, str], *, sensors: tuple[str, ...] = (), **changed: Any) -> ImportedHome:
    states: list[dict[str, Any]] = [{"entity_id": "climate.a", "state": "heat", "attributes": HEATING | changed}]
    for number, unit in enumerate(sensors):
        told = {"device_class": "temperature", "unit_of_measurement": unit}
        states.append({"entity_id": f"sensor.t{number}", "state": "20.5", "attributes": told})
    for name, text in (files | {"states.json": json.dumps(states)}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return import_home(load_listing(folder), everything=True)


def unit_of(made: ImportedHome) -> str | None:
    return made.home.plan.devices_by_did["climate.a"].spec.attribute_index["temperature"][1].unit


def unsaid(made: ImportedHome) -> list[str]:
    return [note.why for note in made.notes if note.part == "unit_system"]


FILES = {
    "REST": ("config.json", lambda name, units: json.dumps({"unit_system": units})),
    "storage": ("core.config", lambda name, units: stored(unit_system_v2=name)),
    "storage, both": ("core.config", lambda name, units: stored(unit_system_v2=name, unit_system="metric")),
    "name alone": ("config.json", lambda name, units: json.dumps({"unit_system": name})),
}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize(
    ("name", "units", "unit"),
    [
        ("metric", {"temperature": "°C", "length": "km"}, "celsius"),
        ("us_customary", {"temperature": "°F", "length": "mi"}, "fahrenheit"),
        ("imperial", {"temperature": "°F"}, "fahrenheit"),
    ],
)
def test_a_home_measures_as_it_is_told(tmp_path: Path, form: str, name: str, units: dict[str, str], unit: str) -> None:
    file, text = FILES[form]
    made = imported(tmp_path, {file: text(name, units)}, sensors=("°C", "°F"))
    assert unit_of(made) == unit and not unsaid(made)


@pytest.mark.parametrize(
    "modes", [["heat", "off", "auto"], ["heat", "cool", "auto", "off"], ["heat_cool", "off"], ["cool", "dry"]]
)
@pytest.mark.parametrize(("system", "unit"), [("metric", "celsius"), ("us_customary", "fahrenheit")])
def test_no_thermostat_measures_otherwise_than_its_home(tmp_path: Path, modes: list[str], system: str, unit: str) -> None:
    for features in (1, 17, 385, 401):
        changed = {"hvac_modes": modes, "supported_features": features, "hvac_action": "idle"}
        assert unit_of(imported(tmp_path, {"core.config": stored(unit_system_v2=system)}, **changed)) == unit


@pytest.mark.parametrize(
    "config", [None, {}, {"unit_system": None}, {"unit_system": {"length": "km"}}, {"unit_system": "cgs"}]
)
@pytest.mark.parametrize(
    ("sensors", "unit"), [((), "celsius"), (("°F",), "fahrenheit"), (("°C",), "celsius"), (("°C", "°F"), "celsius")]
)
def test_where_nothing_tells_the_sensors_decide_and_a_note_says_so(
    tmp_path: Path, config: dict[str, Any] | None, sensors: tuple[str, ...], unit: str
) -> None:
    files = {} if config is None else {"config.json": json.dumps(config)}
    made = imported(tmp_path, files, sensors=sensors)
    assert unit_of(made) == unit
    assert any("climate.a" in why and f"°{unit[0].upper()}" in why for why in unsaid(made))


@pytest.mark.parametrize(("unit", "metres"), [("mph", 1609.344), ("m/s", 3600.0), ("kn", 1852.0), ("ft/s", 3600 * 0.3048)])
def test_a_wind_speed_becomes_what_a_home_measures(unit: str, metres: float) -> None:
    """`metres` are those of an hour at speed 1 in the unit. Home Assistant shows any of these units."""
    for speed in (0, 5, 36, 120):
        assert CONVERSIONS["km/h", unit].convert_value(speed) == pytest.approx(1000 * speed / metres, abs=0.06)


BOTH = {"has_date": True, "has_time": True, "year": 2026, "hour": 9}


@pytest.mark.parametrize(
    ("entity", "state", "attributes", "data", "shown"),
    [
        ("input_datetime.a", "2026-12-01 09:30:00", BOTH, {"datetime": "2027-02-03T04:05"}, "2027-02-03 04:05:00"),
        ("input_datetime.a", "unknown", BOTH, {"date": "2027-02-03", "time": "4:05"}, "2027-02-03 04:05:00"),
        ("input_datetime.a", "unknown", BOTH, {"timestamp": 0}, "1970-01-01 01:00:00"),
        ("input_datetime.a", "2026-12-01", BOTH | {"has_time": False}, {"datetime": "2027-02-03 04:05:06"}, "2027-02-03"),
        ("input_datetime.a", "2026-12-01", BOTH | {"has_time": False}, {"date": "2027-02-03", "time": "1:00"}, "2027-02-03"),
        ("input_datetime.a", "09:30:00", BOTH | {"has_date": False}, {"time": "7:15"}, "07:15:00"),
        ("input_datetime.a", "09:30:00", BOTH | {"has_date": False}, {"datetime": "2027-02-03 04:05:06"}, "04:05:06"),
        ("datetime.a", "2020-01-01T12:00:00+00:00", {}, {"datetime": "2026-12-24 18:30"}, "2026-12-24T17:30:00+00:00"),
        ("date.a", "2020-01-01", {}, {"date": "2026-12-24"}, "2026-12-24"),
        ("time.a", "12:00:00", {}, {"time": "7:30"}, "07:30:00"),
    ],
)
def test_a_moment_is_set_as_there(entity: str, state: str, attributes: dict[str, Any], data: Any, shown: str) -> None:
    home = alone(entity, state, **attributes).home
    setting = "set_datetime" if entity.startswith("input") else "set_value"
    service, arguments = from_homeassistant(home, entity, f"{entity.partition('.')[0]}.{setting}", data)
    home.call(entity, service, (), arguments)
    assert home.read_value(entity, "state") == shown and "hour" not in home.state_of(entity)
    assert list(to_homeassistant(home, entity, service, arguments).data.values()) == [shown]


def test_an_agents_own_way_of_writing_is_the_same() -> None:
    home = alone("input_datetime.a", "2026-12-01 09:30:00", **BOTH).home
    home.call("input_datetime.a", "set_datetime", (), {"datetime": "2027-02-03T04:05:06Z"})
    assert home.read_value("input_datetime.a", "state") == "2027-02-03 04:05:06"


@pytest.mark.parametrize(
    "data", [{"time": "7:00"}, {"datetime": "soon"}, {"timestamp": "1e99"}, {"date": "2027-02-03", "time": "noon"}]
)
def test_what_tells_no_whole_moment_is_refused(data: dict[str, Any]) -> None:
    home = alone("input_datetime.a", "2026-12-01 09:30:00", **BOTH).home
    with pytest.raises(Refused):
        from_homeassistant(home, "input_datetime.a", "input_datetime.set_datetime", data)


@given(total=st.integers(0, 10**7), less=st.booleans())
def test_a_duration_is_its_seconds(total: int, less: bool) -> None:
    text = f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"
    assert parse_clock_duration(f"-{text}" if less else text) == (-total if less else total)


@pytest.mark.parametrize(
    ("text", "total"), [("1 day, 2:00:00", 93600), ("0:00:01.5", 1), ("soon", None), ("", None), ("7", None)]
)
def test_other_durations(text: str, total: int | None) -> None:
    assert parse_clock_duration(text) == total
