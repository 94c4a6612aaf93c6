"""The tools that read sensors and the weather."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import device_shown, owned_shown, weather_shown
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool
from homerl.envs.personalhome.sim.tools.lookup import NAMES, find_room_ids, find_sensor


def get_owned_sensors(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All sensors: name, type and location."""
    state.note_shown(*(f"sensor:{device.did}" for device in state.sensors))
    return [owned_shown(device) for device in state.sensors]


def get_sensors(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What some sensors read now, by name. Raises `Refused` for an unknown sensor."""
    return {row["sensor"]: row for row in _read(state, [find_sensor(state, name) for name in arguments["sensor_names"]])}


def get_sensors_by_location(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the sensors of some rooms read now. Raises `Refused` for an unknown room."""
    wanted = find_room_ids(state, arguments["locations"])
    return _read(state, (device for device in state.sensors if device.room.id in wanted))


def get_weather(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The weather now, outside and inside."""
    state.note_shown("weather")
    return weather_shown(state)


def _read(state: HouseholdState, devices: Iterable[Device]) -> list[dict[str, Any]]:
    rows = []
    for device in devices:
        state.note_shown(f"sensor:{device.did}", f"state:{device.did}")
        rows.append(device_shown(device, state))
    return rows


TOOLS = (
    HouseholdTool(
        "get_owned_sensors",
        "All sensors of the household: name, type and room.",
        {},
        get_owned_sensors,
    ),
    HouseholdTool(
        "get_sensors",
        "What some sensors read now, by the sensor's name.",
        {"sensor_names": {**NAMES, "description": "names of sensors, as get_owned_sensors lists them"}},
        get_sensors,
        required=("sensor_names",),
    ),
    HouseholdTool(
        "get_sensors_by_location",
        "The sensors of some rooms, and what they read now.",
        {"locations": {**NAMES, "description": "names of rooms"}},
        get_sensors_by_location,
        required=("locations",),
    ),
    HouseholdTool(
        "get_weather",
        "The weather now. Outdoors: rain, snow, the share of sunshine from 0 to 1, temperature and wind. "
        "Indoors: dust (PM2.5), humidity, odour from 0 to 5, and temperature.",
        {},
        get_weather,
    ),
)
