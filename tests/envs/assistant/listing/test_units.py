"""In which units a home measures, whatever says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.listing.unit_conversion import CONVERSIONS

HEATING = {"hvac_modes": ["heat", "off"], "min_temp": 45, "max_temp": 95, "temperature": 68, "current_temperature": 66}
CONFIGURATION = """
default_config:
homeassistant:
  name: Home
  unit_system: {}
  latitude: !secret latitude
  packages: !include_dir_named packages
automation: !include automations.yaml
frontend:
  themes: !include_dir_merge_named themes
sensor:
  - !include a.yaml
"""


def stored(**data: Any) -> str:
    return json.dumps({"version": 1, "key": "core.config", "data": data})


def imported(folder: Path, files: dict[str, str], *, sensors: tuple[str, ...] = ()) -> ImportedHome:
    states: list[dict[str, Any]] = [{"entity_id": "climate.a", "state": "heat", "attributes": HEATING}]
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
    "YAML": ("configuration.yaml", lambda name, units: CONFIGURATION.format(name)),
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
