"""Small clusters: Identify, DishwasherAlarm and TemperatureControl.

Some writes of PowerSource, PowerTopology and LevelControl are here too.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import (
    TENTH,
    command_result,
    count_seconds,
    register_command,
    register_passes,
    register_write,
    store_attribute,
)
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.operation_results import OperationError, is_integer, is_number, refuse_unless

EFFECTS = (0, 1, 2, 11, 254, 255)  # Matter's: blink, breathe, okay, channel change, finish, stop
ALARMS = 63  # the bits of all alarms


@register_command("Identify", "Identify")
def identify_device(view: ClusterView, IdentifyTime: Any) -> dict[str, Any]:
    """Let the device identify itself for `IdentifyTime` seconds."""
    known = type(IdentifyTime) is int and 0 <= IdentifyTime <= 65535  # true is no number here
    refuse_unless(known, "VALIDATION_ERROR", "IdentifyTime is in 0..65535")
    old, view["IdentifyTime"], view["#passes"] = view["IdentifyTime"], IdentifyTime, 0
    return command_result(view, "Identify", old_value=old, new_value=IdentifyTime)


@register_command("Identify", "TriggerEffect")
def trigger_effect(view: ClusterView, EffectIdentifier: Any, EffectVariant: Any) -> dict[str, Any]:
    """Check the arguments. The effect itself changes nothing in the home."""
    for name, value in (("EffectIdentifier", EffectIdentifier), ("EffectVariant", EffectVariant)):
        refuse_unless(type(value) is int and 0 <= value <= 255, "VALIDATION_ERROR", f"{name} is in 0..255")
    refuse_unless(EffectIdentifier in EFFECTS, "CONSTRAINT_ERROR", f"EffectIdentifier is one of {EFFECTS}")
    return command_result(view, "TriggerEffect", effect_identifier=EffectIdentifier, effect_variant=0)


@register_passes("Identify")
def advance_identify(view: ClusterView, n: int) -> None:
    """Count `IdentifyTime` down for `n` passes. In strict mode a pass counts as 0.1 s, however long it is."""
    left = view["IdentifyTime"]
    if not is_integer(left) or isinstance(left, bool) or left == 0 or n == 0:
        return
    _, seconds, counter = count_seconds(view["#passes"], n, TENTH if view.is_strict else view.home.interval, max(0, left))
    over = seconds >= left
    if over or seconds:
        view["IdentifyTime"] = 0 if over else left - seconds
    view["#passes"] = 0 if over else counter


def _require_mask(value: Any) -> int:
    if not isinstance(value, int):
        raise OperationError("INVALID_ARGUMENT", "a mask is an integer")
    refuse_unless(0 <= value <= ALARMS, "INVALID_ARGUMENT", f"a mask has no bits outside {ALARMS}")
    return value


@register_command("DishwasherAlarm", "Reset")
def reset_alarms(view: ClusterView, alarms_to_reset: Any) -> dict[str, Any]:
    """Clear the latched alarms of a bit mask, or all of them if the mask is None."""
    old = view["Latch"]
    alarms = _require_mask(old if alarms_to_reset is None else alarms_to_reset)
    view["Latch"] = old & ~alarms
    return command_result(view, "Reset", reset_alarms=alarms, old_latch=old, new_latch=view["Latch"])


@register_command("DishwasherAlarm", "ModifyEnabledAlarms")
def modify_enabled_alarms(view: ClusterView, mask: Any) -> dict[str, Any]:
    """Set the bit mask of the enabled alarms."""
    new = _require_mask(mask)
    old, view["Mask"] = view["Mask"], new
    return command_result(view, "ModifyEnabledAlarms", old_mask=old, new_mask=new)


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


@register_write("PowerSource", "BatPercentRemaining", "BatChargingCurrent", "BatTimeToFullCharge")
def write_battery(view: ClusterView, attribute: str, value: Any) -> None:
    """Refuse to write the battery's attributes, because the source is wired."""
    raise OperationError("UNSUPPORTED_COMMAND", "a wired source has no battery")


@register_write("PowerTopology", "ClusterRevision", "FeatureMap")
def write_topology(view: ClusterView, attribute: str, value: Any) -> Any:
    """Store a value. The result is the value alone."""
    return store_attribute(view, attribute, value)["new_value"]


@register_write("LevelControl", "DefaultMoveRate", "OnLevel")
def write_level(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Store a number or None."""
    # A text would make every later pass of this cluster fail.
    refuse_unless(value is None or is_number(value), "VALIDATION_ERROR", f"{attribute} takes a number")
    return store_attribute(view, attribute, value)
