"""The clusters Thermostat, FanControl, TemperatureControl and WindowCovering.

Temperatures are in 0.01 °C, the speed of a fan is in percent, and positions of blinds are in 0.01 %, from 0 (open) to
10000 (closed). `#motion` of a blind is (start position, target position, passes in all, passes so far), or None if it
stands still.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import (
    command_result,
    register_command,
    register_passes,
    register_write,
    store_attribute,
)
from homerl.envs.simuhome.sim.home import ClusterView, OperationError, is_integer, refuse_unless

DEADBAND = 25  # the least distance of the two setpoints, in 0.01 °C
HEATING, COOLING = "OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint"
MODES = (0, 1, 3, 4)  # Matter's SystemModeEnum: off, auto, cool, heat


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
    # The bounds differ from those of a write, as in the released program.
    attribute, low, high = (HEATING, 700, 3000) if Mode == 0 else (COOLING, 1600, 3200)
    value = max(low, min(view[attribute] + 10 * Amount, high))
    if not view.is_strict:
        other = view[COOLING] - value if Mode == 0 else value - view[HEATING]
        refuse_unless(other >= DEADBAND, "VALIDATION_ERROR", "the setpoints come too close", "Deadband violation")
    view[attribute] = value


PERCENT = {0: 0, 1: 33, 2: 66, 3: 100, 4: 100, 6: 100}  # speed of each mode; On (4) and Smart (6) run as High


def _set_percent(view: ClusterView, percent: int) -> dict[str, Any]:
    refuse_unless(0 <= percent <= 100, "VALIDATION_ERROR", f"{percent} is not in 0..100")
    view["PercentSetting"] = view["PercentCurrent"] = percent
    # Matter's FanModeEnum: off, low, medium, high.
    view.set_enum("FanMode", 0 if percent == 0 else 1 if percent <= 33 else 2 if percent <= 66 else 3)
    return {"cluster": "FanControl", "attribute": "PercentSetting", "new_value": percent}


@register_write("FanControl", "PercentSetting")
def write_fan_percent(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Set the speed in percent. None changes nothing."""
    if value is None:
        return {"cluster": "FanControl", "attribute": "PercentSetting", "unchanged": True}
    try:
        percent = int(value)
    except (TypeError, ValueError, OverflowError):
        raise OperationError("VALIDATION_ERROR", f"PercentSetting takes an integer, not {value!r}") from None
    return _set_percent(view, percent)


@register_write("FanControl", "FanMode")
def write_fan_mode(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Set the speed by its mode, as listed in `PERCENT`."""
    known = isinstance(value, (int, float)) and value in PERCENT
    refuse_unless(known, "VALIDATION_ERROR", f"FanMode {value!r} is unknown or unsupported")
    data = _set_percent(view, PERCENT[value])
    if value == 0:
        return data | {"attribute": "FanMode", "new_value": 0}
    return data if view.is_strict else data | {"attribute": "FanMode", "new_value": view["FanMode"]}


@register_command("FanControl", "Step")
def step_fan(view: ClusterView, Direction: Any, Wrap: Any, LowestOff: Any) -> dict[str, Any]:
    """Go to the next speed step up (`Direction` 0) or down (1).

    `Wrap` continues at the other end of the steps. `LowestOff` says that off is the lowest step. Both are true if None.
    """
    flags = all(flag is None or isinstance(flag, bool) for flag in (Wrap, LowestOff))
    typed = is_integer(Direction) and flags
    refuse_unless(typed, "COMMAND_EXECUTION_ERROR", "Direction is an integer, Wrap and LowestOff booleans")
    refuse_unless(Direction in (0, 1), "VALIDATION_ERROR", "Direction is neither 0 (increase) nor 1 (decrease)")
    up, wrap = Direction == 0, Wrap is not False
    percent = view["PercentSetting"] or 0
    steps = [0, 33, 66, 100]
    if LowestOff is False and view.is_strict:
        steps = [0, 1, 66, 100]  # a fault of the released program: 33 is left out in place of 0
    elif LowestOff is False and percent:
        steps = [33, 66, 100]
    if percent == 0:
        return _set_percent(view, steps[1] if up else steps[-1] if wrap else steps[0])
    target = min(range(len(steps)), key=lambda i: abs(steps[i] - percent)) + (1 if up else -1)
    if 0 <= target < len(steps) or wrap:
        percent = steps[target % len(steps)]
    return _set_percent(view, percent)


@register_command("TemperatureControl", "SetTemperature")
def set_temperature(view: ClusterView, target_temperature: Any, target_temperature_level: Any) -> dict[str, Any]:
    """Set the target temperature, in 0.01 °C."""
    target, old = target_temperature, view["TemperatureSetpoint"]
    if target is None:
        refuse_unless(target_temperature_level is None, "CONSTRAINT_ERROR", "there are no temperature levels")
        raise OperationError("INVALID_ARGUMENT", "target_temperature is needed")
    low, high = view["MinTemperature"], view["MaxTemperature"]
    refuse_unless(low <= target <= high, "CONSTRAINT_ERROR", f"target_temperature is not in {low}..{high}")
    view["TemperatureSetpoint"] = target
    setpoints = {"target_temperature": target, "old_setpoint": old, "new_setpoint": target}
    return command_result(view, "SetTemperature", status="SUCCESS", **setpoints, temperature_celsius=target / 100)


# Blinds

OPEN, CLOSED = 0, 10000
CURRENT_POSITION, TARGET_POSITION = "CurrentPositionLiftPercent100ths", "TargetPositionLiftPercent100ths"
FULL_TRAVEL_TENTHS = 30  # the time from open to closed, in tenths of a second
NOTE = "The blind is at that position"


def _position_fields(name: str, position: float) -> dict[str, float]:
    return {f"{name}_position": position, f"{name}_percentage": position / 100}


def _start_motion(view: ClusterView, target: Any) -> dict[str, Any]:
    refuse_unless(is_integer(target), "VALIDATION_ERROR", "a position is an integer")
    refuse_unless(view["SafetyStatus"] == 0, "COMMAND_EXECUTION_ERROR", "the blind's safety status forbids motion")
    refuse_unless(OPEN <= target <= CLOSED, "VALIDATION_ERROR", "a position is in 0..10000")
    here = view[CURRENT_POSITION]
    if target == here:
        return {"status": "Already at target position", **_position_fields("current", here), "message": NOTE}
    interrupted = view["#motion"] is not None
    tenths = max(1, int(FULL_TRAVEL_TENTHS * abs(target - here) / CLOSED))
    # A fault of the released program: the blind arrives in one pass, whatever the estimated duration is.
    view["#motion"] = (here, target, 1 if view.is_strict else tenths, 0)
    view[TARGET_POSITION] = target
    view["NumberOfActuationsLift"] += 1
    view["OperationalStatus"] = 1 if target < here else 2  # opening, closing; 0 stands still
    return {
        "status": "Movement started",
        "direction": "opening" if target < here else "closing",
        "direction_detail": "up/open" if target < here else "down/close",
        **_position_fields("start", here),
        **_position_fields("target", target),
        "estimated_duration_sec": tenths / 10,
        "travel_distance_percent": abs(target - here) / 100,
        "interrupted_existing_motion": interrupted,
        "actuation_count": view["NumberOfActuationsLift"],
    }


@register_command("WindowCovering", "GoToLiftPercentage")
def go_to_lift_percentage(view: ClusterView, lift_percent_100ths: Any) -> dict[str, Any]:
    """Move to a position in 0.01 %."""
    return _start_motion(view, lift_percent_100ths)


@register_command("WindowCovering", "UpOrOpen", "DownOrClose")
def travel_fully(view: ClusterView, name: str) -> dict[str, Any]:
    """Open (UpOrOpen) or close (DownOrClose) the blind fully."""
    refuse_unless(view["SafetyStatus"] == 0, "COMMAND_EXECUTION_ERROR", "the blind's safety status forbids motion")
    end, word = (OPEN, "open") if name == "UpOrOpen" else (CLOSED, "closed")
    here = view[CURRENT_POSITION]
    if here == end:
        return {"status": f"Already fully {word}", **_position_fields("current", end), "message": NOTE}
    before = {"command": name, "command_description": f"Move until fully {word}"}
    return _start_motion(view, end) | before | _position_fields("previous", here)


@register_command("WindowCovering", "StopMotion")
def stop_motion(view: ClusterView) -> dict[str, Any]:
    """Stop the blind where it is."""
    here, status, motion = view[CURRENT_POSITION], view["OperationalStatus"], view["#motion"]
    if motion is None:
        at = _position_fields("current", here)
        return {"status": "No motion to stop", **at, "operational_status": status, "message": NOTE}
    start, target = motion[:2]
    view[TARGET_POSITION], view["OperationalStatus"], view["#motion"] = here, 0, None
    return {
        "status": "Motion stopped",
        "stopped_at": here,
        "stopped_percentage": here / 100,
        "was_moving_from": start,
        "was_moving_from_percentage": start / 100,
        "was_moving_to": target,
        "was_moving_to_percentage": target / 100,
        "motion_completion_percent": round(100 * abs(here - start) / abs(target - start), 1),
        "operational_status": "stopped",
        "message": "The blind stopped",
    }


@register_write("WindowCovering", TARGET_POSITION)
def write_target(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the target position, which starts a motion."""
    return _start_motion(view, value)


@register_write("WindowCovering", CURRENT_POSITION)
def write_current(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the present position without a motion."""
    known = view.is_strict or (is_integer(value) and OPEN <= value <= CLOSED)
    refuse_unless(known, "VALIDATION_ERROR", "a position is in 0..10000")
    return store_attribute(view, CURRENT_POSITION, value)


@register_passes("WindowCovering")
def advance_covering(view: ClusterView, n: int) -> None:
    """Advance a motion by `n` passes."""
    if view["#motion"] is None:
        return
    start, target, ticks, gone = view["#motion"]
    gone += n
    if gone >= ticks:
        view[CURRENT_POSITION] = view[TARGET_POSITION] = target
        view["OperationalStatus"], view["#motion"] = 0, None
    else:
        view[CURRENT_POSITION] = round(start + gone * (target - start) / ticks)
        view["#motion"] = (start, target, ticks, gone)
