"""Thermostat: setpoints and modes of air conditioners and heat pumps."""

from __future__ import annotations

from typing import Any

from envs.simuhome.home import View
from envs.simuhome.registry import command, store, write
from envs.simuhome.results import is_integer, need
from envs.simuhome.spec import Struct

DEADBAND = 25
HEATING, COOLING = "OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint"
MODES = (0, 1, 3, 4)


@write("Thermostat", HEATING, COOLING)
def write_setpoint(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Set a setpoint in hundredths of a degree celsius, `DEADBAND` away from the other one."""
    need(is_integer(value), "VALIDATION_ERROR", f"{attribute} takes an integer")
    need(700 <= value <= 3200, "VALIDATION_ERROR", f"{attribute} is not in 700..3200")
    heating = value if attribute == HEATING else view[HEATING]
    cooling = value if attribute == COOLING else view[COOLING]
    if view.strict and attribute == COOLING:
        apart = value - heating  # its own slip: the two are swapped
    elif view.strict:
        apart = cooling - value
    else:
        apart = cooling - heating
    need(apart >= DEADBAND, "VALIDATION_ERROR", "the setpoints come too close", "Deadband violation")
    return store(view, attribute, value)


@write("Thermostat", "SystemMode")
def write_mode(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Set the mode; not strict, one of `MODES`."""
    need(not isinstance(value, (list, dict)), "VALIDATION_ERROR", "SystemMode takes a number")
    need(view.strict or value in MODES, "VALIDATION_ERROR", f"SystemMode is one of {MODES}")
    return store(view, "SystemMode", value)


@command("Thermostat", "SetpointRaiseLower")
def setpoint_raise_lower(view: View, Mode: Any, Amount: Any) -> None:
    """Change the heating (Mode 0) or cooling (1) setpoint by Amount tenths of a degree, within its bounds."""
    if view.strict and view.has("DeviceEnergyManagement"):
        adjustable = not isinstance(view.beside("DeviceEnergyManagement")["PowerAdjustmentCapability"], Struct)
        need(adjustable, "DEPENDENCY_VIOLATION", "the heat pump cannot adjust its power")
    need(is_integer(Mode) and is_integer(Amount), "VALIDATION_ERROR", "Mode and Amount are integers")
    need(Mode in (0, 1), "VALIDATION_ERROR", "Mode is 0 (heating) or 1 (cooling)")
    need(-500 <= Amount <= 500, "VALIDATION_ERROR", "Amount is not in -500..500")
    attribute, low, high = (HEATING, 700, 3000) if Mode == 0 else (COOLING, 1600, 3200)
    value = max(low, min(view[attribute] + 10 * Amount, high))
    if not view.strict:
        other = view[COOLING] - value if Mode == 0 else value - view[HEATING]
        need(other >= DEADBAND, "VALIDATION_ERROR", "the setpoints come too close", "Deadband violation")
    view[attribute] = value
