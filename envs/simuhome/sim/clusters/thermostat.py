"""The cluster Thermostat: setpoints and modes of air conditioners and heat pumps. Temperatures are in 0.01 °C."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import register_command, register_write, store_attribute
from homerl.envs.simuhome.sim.results import is_integer, refuse_unless

DEADBAND = 25  # the least distance of the two setpoints, in 0.01 °C
HEATING, COOLING = "OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint"
MODES = (0, 1, 3, 4)


@register_write("Thermostat", HEATING, COOLING)
def write_setpoint(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Set a setpoint, in 0.01 °C. The cooling setpoint must be at least `DEADBAND` above the heating setpoint."""
    refuse_unless(is_integer(value), "VALIDATION_ERROR", f"{attribute} takes an integer")
    refuse_unless(700 <= value <= 3200, "VALIDATION_ERROR", f"{attribute} is not in 700..3200")
    heating = value if attribute == HEATING else view[HEATING]
    cooling = value if attribute == COOLING else view[COOLING]
    refuse_unless(cooling - heating >= DEADBAND, "VALIDATION_ERROR", "the setpoints come too close", "Deadband violation")
    return store_attribute(view, attribute, value)


@register_write("Thermostat", "SystemMode")
def write_system_mode(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Set the system mode. In mended mode it must be one of `MODES`."""
    refuse_unless(not isinstance(value, (list, dict)), "VALIDATION_ERROR", "SystemMode takes a number")
    refuse_unless(view.is_strict or value in MODES, "VALIDATION_ERROR", f"SystemMode is one of {MODES}")
    return store_attribute(view, "SystemMode", value)


@register_command("Thermostat", "SetpointRaiseLower")
def setpoint_raise_lower(view: ClusterView, Mode: Any, Amount: Any) -> None:
    """Change the heating (`Mode` 0) or cooling (1) setpoint by `Amount` tenths of a degree, within its bounds.

    In mended mode the setpoints must stay `DEADBAND` apart. In strict mode this command does not check it.
    """
    refuse_unless(is_integer(Mode) and is_integer(Amount), "VALIDATION_ERROR", "Mode and Amount are integers")
    refuse_unless(Mode in (0, 1), "VALIDATION_ERROR", "Mode is 0 (heating) or 1 (cooling)")
    refuse_unless(-500 <= Amount <= 500, "VALIDATION_ERROR", "Amount is not in -500..500")
    attribute, low, high = (HEATING, 700, 3000) if Mode == 0 else (COOLING, 1600, 3200)
    value = max(low, min(view[attribute] + 10 * Amount, high))
    if not view.is_strict:
        other = view[COOLING] - value if Mode == 0 else value - view[HEATING]
        refuse_unless(other >= DEADBAND, "VALIDATION_ERROR", "the setpoints come too close", "Deadband violation")
    view[attribute] = value
