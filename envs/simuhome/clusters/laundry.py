"""LaundryWasherControls and LaundryDryerControls: spin, rinses and dryness, as the mode allows."""

from __future__ import annotations

from typing import Any

from envs.simuhome.home import View
from envs.simuhome.registry import store, write
from envs.simuhome.results import Failure, is_integer, need

DRYNESS = ("Low", "Normal", "Extra", "Max")
CONTROLS = ("SpinSpeedCurrent", "NumberOfRinses", "SpinSpeeds", "SupportedRinses")
EVERY = {"SpinSpeeds": [0, 1, 2, 3], "SupportedRinses": [0, 1, 2, 3]}


def apply_row(view: View) -> None:
    """The choices of the washer's present mode; a choice that it does not offer becomes its first."""
    mode = view.beside("LaundryWasherMode")
    labels = {entry["mode"]: entry.get("label") for entry in mode["SupportedModes"]}
    current = mode["CurrentMode"]
    label: Any = labels.get(current) if isinstance(current, (int, float)) else None
    row = view.device.type.rows.get(label, EVERY)
    for attribute, values in row.items():
        view.enumerate(attribute, values)
    if view["SpinSpeedCurrent"] is not None and view["SpinSpeedCurrent"] not in row["SpinSpeeds"]:
        view["SpinSpeedCurrent"] = view["SpinSpeeds"][0]
    if view["NumberOfRinses"] not in row["SupportedRinses"]:
        view["NumberOfRinses"] = view["SupportedRinses"][0]


def powered(operation: View, on: bool) -> None:
    """What a washer or dryer forgets when switched off; not `strict`, it comes back."""
    if operation.has("LaundryWasherControls"):
        washer = operation.beside("LaundryWasherControls")
        if on:
            if not washer.strict:
                washer["SpinSpeedCurrent"] = washer["#kept"]
            apply_row(washer)
        else:
            washer["#kept"] = washer["SpinSpeedCurrent"]
            for attribute in CONTROLS:
                washer[attribute] = None
    if operation.has("LaundryDryerControls"):
        dryer = operation.beside("LaundryDryerControls")
        if not on:
            dryer["#kept"], dryer["SelectedDrynessLevel"] = dryer["SelectedDrynessLevel"], None
        elif not dryer.strict:
            dryer["SelectedDrynessLevel"] = dryer["#kept"]


def _not_running(view: View) -> None:
    need(view.beside("OperationalState")["OperationalState"] != 1, "INVALID_STATE", "the appliance is running")


def _choices(view: View, attribute: str) -> list[Any]:
    choices: list[Any] | None = view[attribute]
    if choices is None:
        raise Failure("INTERNAL_ERROR" if view.strict else "DEPENDENCY_VIOLATION", "the washer is off")
    return choices


@write("LaundryWasherControls", "SpinSpeedCurrent")
def write_spin_speed(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Choose a spin speed by its index in SpinSpeeds."""
    _not_running(view)
    speeds = _choices(view, "SpinSpeeds")
    if value is None:
        return store(view, "SpinSpeedCurrent", None) | ({"old_value": None} if view.strict else {})
    need(is_integer(value), "INVALID_ARGUMENT", "SpinSpeedCurrent takes an index into SpinSpeeds")
    need(0 <= value < len(speeds), "CONSTRAINT_ERROR", f"SpinSpeedCurrent is not in 0..{len(speeds) - 1}")
    return store(view, "SpinSpeedCurrent", speeds[value])


@write("LaundryWasherControls", "NumberOfRinses")
def write_rinses(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedRinses."""
    _not_running(view)
    need(value in _choices(view, "SupportedRinses"), "CONSTRAINT_ERROR", "NumberOfRinses is not in SupportedRinses")
    return store(view, "NumberOfRinses", value)


@write("LaundryDryerControls", "SelectedDrynessLevel")
def write_dryness(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedDrynessLevels, or none."""
    _not_running(view)
    offered = value is None or value in view["SupportedDrynessLevels"]
    need(offered, "CONSTRAINT_ERROR", "SelectedDrynessLevel is not in SupportedDrynessLevels")
    return store(view, "SelectedDrynessLevel", value)
