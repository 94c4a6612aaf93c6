"""The clusters LaundryWasherControls and LaundryDryerControls: spin speed, rinses and dryness."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import register_write, store_attribute
from homerl.envs.simuhome.sim.results import OperationError, is_integer, refuse_unless

DRYNESS = ("Low", "Normal", "Extra", "Max")
CONTROLS = ("SpinSpeedCurrent", "NumberOfRinses", "SpinSpeeds", "SupportedRinses")
EVERY = {"SpinSpeeds": [0, 1, 2, 3], "SupportedRinses": [0, 1, 2, 3]}


def apply_mode_row(view: ClusterView) -> None:
    """Set the spin speeds and rinses that the washer's present mode offers.

    If the present choice is not among them, the first of them is chosen.
    """
    mode = view.sibling_view("LaundryWasherMode")
    labels = {entry["mode"]: entry.get("label") for entry in mode["SupportedModes"]}
    current = mode["CurrentMode"]
    label: Any = labels.get(current) if isinstance(current, (int, float)) else None
    row = view.device.type.rows.get(label, EVERY)
    for attribute, values in row.items():
        view.set_enum(attribute, values)
    if view["SpinSpeedCurrent"] is not None and view["SpinSpeedCurrent"] not in row["SpinSpeeds"]:
        view["SpinSpeedCurrent"] = view["SpinSpeeds"][0]
    if view["NumberOfRinses"] not in row["SupportedRinses"]:
        view["NumberOfRinses"] = view["SupportedRinses"][0]


def laundry_power_changed(operation: ClusterView, on: bool) -> None:
    """Change the controls of a washer or dryer after it was switched on or off.

    Switched off, it forgets what was chosen. Switched on in mended mode, it remembers it again.
    """
    if operation.has_cluster("LaundryWasherControls"):
        washer = operation.sibling_view("LaundryWasherControls")
        if on:
            if not washer.is_strict:
                washer["SpinSpeedCurrent"] = washer["#kept"]
            apply_mode_row(washer)
        else:
            washer["#kept"] = washer["SpinSpeedCurrent"]
            for attribute in CONTROLS:
                washer[attribute] = None
    if operation.has_cluster("LaundryDryerControls"):
        dryer = operation.sibling_view("LaundryDryerControls")
        if not on:
            dryer["#kept"], dryer["SelectedDrynessLevel"] = dryer["SelectedDrynessLevel"], None
        elif not dryer.is_strict:
            dryer["SelectedDrynessLevel"] = dryer["#kept"]


def _require_not_running(view: ClusterView) -> None:
    refuse_unless(
        view.sibling_view("OperationalState")["OperationalState"] != 1, "INVALID_STATE", "the appliance is running"
    )


def _choices(view: ClusterView, attribute: str) -> list[Any]:
    choices: list[Any] | None = view[attribute]
    if choices is None:
        raise OperationError("INTERNAL_ERROR" if view.is_strict else "DEPENDENCY_VIOLATION", "the washer is off")
    return choices


@register_write("LaundryWasherControls", "SpinSpeedCurrent")
def write_spin_speed(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose a spin speed by its index in SpinSpeeds, or None."""
    _require_not_running(view)
    if value is None and view.is_strict:
        return store_attribute(view, "SpinSpeedCurrent", None) | {"old_value": None}
    speeds = _choices(view, "SpinSpeeds")
    if value is None:
        return store_attribute(view, "SpinSpeedCurrent", None)
    refuse_unless(is_integer(value), "INVALID_ARGUMENT", "SpinSpeedCurrent takes an index into SpinSpeeds")
    refuse_unless(0 <= value < len(speeds), "CONSTRAINT_ERROR", f"SpinSpeedCurrent is not in 0..{len(speeds) - 1}")
    return store_attribute(view, "SpinSpeedCurrent", speeds[value])


@register_write("LaundryWasherControls", "NumberOfRinses")
def write_rinses(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedRinses."""
    _require_not_running(view)
    refuse_unless(value in _choices(view, "SupportedRinses"), "CONSTRAINT_ERROR", "NumberOfRinses is not in SupportedRinses")
    return store_attribute(view, "NumberOfRinses", value)


@register_write("LaundryDryerControls", "SelectedDrynessLevel")
def write_dryness(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedDrynessLevels, or None."""
    _require_not_running(view)
    offered = value is None or value in view["SupportedDrynessLevels"]
    refuse_unless(offered, "CONSTRAINT_ERROR", "SelectedDrynessLevel is not in SupportedDrynessLevels")
    return store_attribute(view, "SelectedDrynessLevel", value)
