"""The calls that set one attribute of one device.

Invariants: a call is built from what can be read of the device now; every call is one that an agent could make.

The calls that move a variable of a room, such as its temperature (QT2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from homerl.envs.simuhome.sim.clusters.thermostat_and_fan import DEADBAND
from homerl.envs.simuhome.sim.clusters.vacuum import IDLE
from homerl.envs.simuhome.sim.device_catalogue import Struct
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.sim.service import HEAT_PUMP_RANGES

Action = dict[str, Any]
Way = Literal["usual", "writing", "toggling"]  # how attributes are set: by commands, by writes instead, by `Toggle`
WAYS: tuple[Way, ...] = ("usual", "writing", "toggling")
WRITTEN = (  # clusters whose attributes can be written as well, also values that no command takes
    "LaundryWasherMode", "DishwasherMode", "RVCRunMode", "RVCCleanMode", "RTCCMode", "Channel", "TemperatureControl",
    "WindowCovering",
)  # fmt: skip
SETPOINTS = ("OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint")


class DeviceCalls:
    """Builds calls for one device."""

    def __init__(self, home: MatterHome, device: MatterDevice, way: Way = "usual") -> None:
        self.home, self.device, self.way = home, device, way

    def present_value(self, cluster: str, attribute: str) -> Any:
        """The present value of an attribute."""
        return self.home.cluster_view(self.device.id, cluster)[attribute]

    def command_call(self, cluster: str, command: str, **args: Any) -> Action:
        """The call that runs a command."""
        return {"name": "execute_command", **self._cluster_fields(cluster), "command_id": command, "args": args}

    def write_call(self, cluster: str, attribute: str, value: Any) -> Action:
        """The call that writes an attribute."""
        return {"name": "write_attribute", **self._cluster_fields(cluster), "attribute_id": attribute, "value": value}

    def _cluster_fields(self, cluster: str) -> Action:
        endpoint = self.device.type.endpoint_of[cluster]
        return {"device_id": self.device.id, "endpoint_id": endpoint, "cluster_id": cluster}

    def switch_on_calls(self) -> list[Action]:
        """The call that switches the device on; an empty list if the device has no OnOff cluster."""
        return [self.command_call("OnOff", "On")] if "OnOff" in self.device.type.endpoint_of else []

    @property
    def is_off(self) -> bool:
        """Whether the device has a switch, and is off."""
        return "OnOff" in self.device.type.endpoint_of and self.present_value("OnOff", "OnOff") is not True

    def setpoint_calls(self, mode: int, target: float) -> list[Action]:
        """The calls that move a setpoint (`mode` 0: heating, 1: cooling) to `target`, in 0.01 °C, to the next tenth.

        The two setpoints must stay apart, so a write could be refused. The command `SetpointRaiseLower` checks this in
        mended mode only, so there the other setpoint is moved out of the way first.
        """
        now = self.present_value("Thermostat", SETPOINTS[mode])
        tenths = round((target - now) / 10)
        way = self._raise_lower_call(mode, tenths)
        return [way] if self.home.plan.strict else [*self._calls_that_clear(mode, now + 10 * tenths), way]

    def exact_setpoint_calls(self, mode: int, target: int) -> list[Action]:
        """The calls that make a setpoint `target`: a write, and before it whatever takes the other one out of its way.

        A command is used where it can reach `target`: always for heating, and for cooling if the other is in the way.
        """
        away = self._calls_that_clear(mode, target)
        in_tenths = (target - self.present_value("Thermostat", SETPOINTS[mode])) % 10 == 0
        if in_tenths and self.way != "writing" and (away or mode == 0):
            return self.setpoint_calls(mode, target)
        return [*away, self.write_call("Thermostat", SETPOINTS[mode], target)]

    def _calls_that_clear(self, mode: int, target: float) -> list[Action]:
        """The call that takes the other setpoint out of the way of this one, now and at `target`, unless it is."""
        now, other = (self.present_value("Thermostat", SETPOINTS[at]) for at in (mode, 1 - mode))
        if abs(target - other) >= DEADBAND and (target > other) is bool(mode):
            return []
        away = min(now, target) - DEADBAND if mode else max(now, target) + DEADBAND
        if self.way == "writing":
            return [self.write_call("Thermostat", SETPOINTS[1 - mode], away)]
        tenths = (away - other) / 10
        return [self._raise_lower_call(1 - mode, math.floor(tenths) if mode else math.ceil(tenths))]

    def _raise_lower_call(self, mode: int, tenths: int) -> Action:
        return self.command_call("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(tenths, 500)))


def needs_power(calls: DeviceCalls, clusters: set[str]) -> bool:
    """Whether the device must be switched on before these clusters can be set. A fan is always switched on."""
    if "FanControl" in clusters:
        return True
    power, dims = calls.device.type.power, calls.device.type.dims and "LevelControl" in clusters
    return calls.is_off and (dims or bool(clusters & (power.commands | power.writes.keys())))


def attribute_calls(calls: DeviceCalls, cluster: str, attribute: str, value: Any) -> Iterator[Action]:
    """The calls that give an attribute a value, for a device as it is now."""
    match cluster, attribute:
        case "OnOff", _ if calls.way == "toggling" and calls.is_off is bool(value):
            yield calls.command_call("OnOff", "Toggle")
        case "OnOff", _:
            yield calls.command_call("OnOff", "On" if value else "Off")
        case "LaundryWasherControls", _ if calls.way == "toggling" and value is None:  # as after it was switched off
            yield from (*calls.switch_on_calls(), calls.command_call("OnOff", "Off"))
        case _ if calls.way == "writing" and cluster in WRITTEN:
            yield calls.write_call(cluster, attribute, value)
        case "LevelControl", "CurrentLevel":
            options = {"OptionsMask": 1, "OptionsOverride": 1} if calls.is_off else {}
            yield calls.command_call("LevelControl", "MoveToLevel", Level=value, **options)
        case "FanControl", "PercentCurrent" | "SpeedCurrent":
            yield calls.write_call("FanControl", attribute.replace("Current", "Setting"), value)
        case "WindowCovering", "CurrentPositionLiftPercent100ths" | "TargetPositionLiftPercent100ths":
            yield calls.command_call("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=value)
        case "TemperatureControl", _:
            yield calls.command_call("TemperatureControl", "SetTemperature", target_temperature=value)
        case "Thermostat", "OccupiedHeatingSetpoint" | "OccupiedCoolingSetpoint":
            yield from calls.exact_setpoint_calls(SETPOINTS.index(attribute), value)
        case "LaundryWasherMode" | "DishwasherMode" | "RVCRunMode", "CurrentMode":
            if cluster == "RVCRunMode" and calls.present_value(cluster, attribute) not in (IDLE, value) and value != IDLE:
                yield calls.command_call("RVCOperationalState", "GoHome")
            yield calls.command_call(cluster, "ChangeToMode", new_mode=value)
        case "RVCCleanMode" | "RTCCMode", "CurrentMode":
            if cluster == "RVCCleanMode" and calls.present_value("RVCRunMode", "CurrentMode") != IDLE:
                yield calls.command_call("RVCOperationalState", "GoHome")
            yield calls.command_call(cluster, "ChangeToMode", mode=value)
        case "OperationalState", _:
            if value == 2 and calls.present_value(cluster, "OperationalState") != 1:
                yield from (*calls.switch_on_calls(), calls.command_call(cluster, "Start"))
            if value in (0, 1, 2):  # nobody can ask for another, such as an error
                yield calls.command_call(cluster, ("Stop", "Start", "Pause")[value])
        case "RVCOperationalState", _:
            yield from _vacuum_state_calls(calls, value)
        case "MediaPlayback", _:
            now = calls.present_value(cluster, "CurrentState")
            if now != 0 and value in (0, 1):
                yield calls.command_call(cluster, "Play")
            if value in (1, 2) and now != value:
                yield calls.command_call(cluster, "Pause" if value == 1 else "Stop")
        case "Channel", "CurrentChannel":  # a major number, or the first channel of the list with the wanted members
            members = value if isinstance(value, Mapping) else {"MajorNumber": value}
            listed = calls.present_value("Channel", "ChannelList") or ()
            found = next((one for one in listed if members.items() <= one.items()), members)
            minor = {"minor_number": found["MinorNumber"]} if found.get("MinorNumber") else {}
            yield calls.command_call(cluster, "ChangeChannelByNumber", major_number=found.get("MajorNumber"), **minor)
        case _:
            yield calls.write_call(cluster, attribute, value)


def _vacuum_state_calls(calls: DeviceCalls, state: int) -> Iterator[Action]:
    now = calls.present_value("RVCOperationalState", "OperationalState")
    if now == 1 and state in (0, 64, 66):
        yield calls.command_call("RVCRunMode", "ChangeToMode", new_mode=1)
    elif now == 2 and state in (0, 64, 66):
        yield calls.command_call("RVCOperationalState", "GoHome")
    if now == 2 and state == 1:
        yield calls.command_call("RVCOperationalState", "Resume")
    elif now not in (1, 2) and state in (1, 2):
        yield calls.command_call("RVCRunMode", "ChangeToMode", new_mode=2)
    if state == 2 and now != 2:
        yield calls.command_call("RVCOperationalState", "Pause")
    if now == 0 and state in (64, 66):
        yield calls.command_call("RVCOperationalState", "GoHome")


def moving_calls(home: MatterHome, room: str, variable: str, direction: str) -> list[Action]:
    """All calls in a room that move a variable in a direction (`increase` or `decrease`)."""
    up, value = direction == "increase", home.room_state(room)[variable]
    acts: list[Action] = []
    for device in home.plan.devices_by_room[room]:
        calls = DeviceCalls(home, device)
        match device.type.name, variable:
            case "air_conditioner", "temperature" if up:
                acts.append(calls.command_call("OnOff", "Off"))
            case "air_conditioner", "temperature":
                acts += [*calls.switch_on_calls(), calls.write_call("Thermostat", "SystemMode", 3)]
                acts += calls.setpoint_calls(1, value - 500)
                acts.append(calls.write_call("FanControl", "PercentSetting", 100))
            case "heat_pump", "temperature":
                acts.append(calls.write_call("Thermostat", "SystemMode", 4 if up else 0))
                adjusts = calls.present_value("DeviceEnergyManagement", "PowerAdjustmentCapability")
                if up and home.plan.strict and isinstance(adjusts, Struct):  # then strict mode does not raise a setpoint
                    for setpoint in reversed(SETPOINTS):  # the other one first, out of the way
                        most = HEAT_PUMP_RANGES["Thermostat", setpoint][1]
                        acts.append(calls.write_call("Thermostat", setpoint, most))
                elif up:
                    acts += calls.setpoint_calls(0, value + 500)
            case "on_off_light" | "dimmable_light", "illuminance":
                acts.append(calls.command_call("OnOff", "On" if up else "Off"))
                if up and "LevelControl" in device.type.endpoint_of:
                    acts.append(calls.command_call("LevelControl", "MoveToLevel", Level=254))
            case ("fan", "temperature") | ("humidifier" | "dehumidifier", "humidity") | ("air_purifier", "pm10") as mover:
                if up is (mover[0] == "humidifier"):  # the humidifier alone moves its variable up
                    acts += [*calls.switch_on_calls(), calls.write_call("FanControl", "PercentSetting", 100)]
                else:
                    acts.append(calls.command_call("OnOff", "Off"))
    return acts
