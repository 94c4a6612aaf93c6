"""The calls that move a variable of a room, such as its temperature (QT2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from homerl.envs.simuhome.sim.device_calls import SETPOINTS, Action, DeviceCalls
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.sim.service import HEAT_PUMP_RANGES
from homerl.envs.simuhome.sim.spec import Struct

ADJUSTS = "PowerAdjustmentCapability"  # with it, strict mode refuses to raise a heat pump's setpoint


def moving_calls(home: MatterHome, room: str, variable: str, direction: str) -> list[Action]:
    """All calls in a room that move a variable in a direction (`increase` or `decrease`)."""
    up, value = direction == "increase", home.room_state(room)[variable]
    acts: list[Action] = []
    for device in home.plan.devices_by_room[room]:
        if lever := _MOVERS.get((device.type.name, variable)):
            acts += lever(DeviceCalls(home, device), up, value)
    return acts


def _air_conditioner(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    if up:
        yield calls.command_call("OnOff", "Off")
        return
    yield from (
        *calls.switch_on_calls(),
        calls.write_call("Thermostat", "SystemMode", 3),
        *calls.setpoint_calls(1, value - 500),
    )
    yield calls.write_call("FanControl", "PercentSetting", 100)


def _heat_pump(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    yield calls.write_call("Thermostat", "SystemMode", 4 if up else 0)
    if up and calls.home.plan.strict and isinstance(calls.present_value("DeviceEnergyManagement", ADJUSTS), Struct):
        for setpoint in reversed(SETPOINTS):  # the other one first, out of the way
            yield calls.write_call("Thermostat", setpoint, HEAT_PUMP_RANGES["Thermostat", setpoint][1])
    elif up:
        yield from calls.setpoint_calls(0, value + 500)


def _set_fan(calls: DeviceCalls, helps: bool) -> Iterator[Action]:
    if helps:
        yield from (*calls.switch_on_calls(), calls.write_call("FanControl", "PercentSetting", 100))
    else:
        yield calls.command_call("OnOff", "Off")


def _light(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    yield calls.command_call("OnOff", "On" if up else "Off")
    if up and "LevelControl" in calls.device.type.endpoint_of:
        yield calls.command_call("LevelControl", "MoveToLevel", Level=254)


_MOVERS: Mapping[tuple[str, str], Any] = {
    ("air_conditioner", "temperature"): _air_conditioner,
    ("heat_pump", "temperature"): _heat_pump,
    ("fan", "temperature"): lambda calls, up, _: _set_fan(calls, not up),
    ("humidifier", "humidity"): lambda calls, up, _: _set_fan(calls, up),
    ("dehumidifier", "humidity"): lambda calls, up, _: _set_fan(calls, not up),
    ("air_purifier", "pm10"): lambda calls, up, _: _set_fan(calls, not up),
    ("on_off_light", "illuminance"): _light,
    ("dimmable_light", "illuminance"): _light,
}
