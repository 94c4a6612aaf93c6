"""Small clusters: Identify, DishwasherAlarm, TemperatureControl, and writes of PowerSource and PowerTopology."""

from __future__ import annotations

from typing import Any

from envs.simuhome.home import View
from envs.simuhome.registry import command, done, passes, store, write
from envs.simuhome.results import Failure, is_integer, is_number, need
from envs.simuhome.ticks import counted, folded

EFFECTS = (0, 1, 2, 11, 254, 255)
ALARMS = 63


@command("Identify", "Identify")
def identify(view: View, IdentifyTime: Any) -> dict[str, Any]:
    """Let the device identify itself for IdentifyTime seconds."""
    need(is_integer(IdentifyTime) and 0 <= IdentifyTime <= 65535, "VALIDATION_ERROR", "IdentifyTime is in 0..65535")
    old, view["IdentifyTime"], view["#passes"] = view["IdentifyTime"], IdentifyTime, 0
    return done(view, "Identify", old_value=old, new_value=IdentifyTime)


@command("Identify", "TriggerEffect")
def trigger_effect(view: View, EffectIdentifier: Any, EffectVariant: Any) -> dict[str, Any]:
    """Check the effect's numbers and change nothing."""
    for name, value in (("EffectIdentifier", EffectIdentifier), ("EffectVariant", EffectVariant)):
        need(is_integer(value) and 0 <= value <= 255, "VALIDATION_ERROR", f"{name} is in 0..255")
    need(EffectIdentifier in EFFECTS, "CONSTRAINT_ERROR", f"EffectIdentifier is one of {EFFECTS}")
    return done(view, "TriggerEffect", effect_identifier=EffectIdentifier, effect_variant=0)


@passes("Identify")
def pass_on(view: View, n: int) -> None:
    """Count the time to identify down for n passes."""
    left, interval = view["IdentifyTime"], view.home.interval
    if not is_number(left) or left <= 0:
        return
    seconds = counted(view["#passes"], n, interval)
    over = seconds >= left
    if seconds:
        view["IdentifyTime"] = 0 if over else left - seconds
    view["#passes"] = 0 if over else folded(view["#passes"] + n, interval)


def _mask(value: Any) -> int:
    if not isinstance(value, int):
        raise Failure("INVALID_ARGUMENT", "a mask is an integer")
    need(0 <= value <= ALARMS, "INVALID_ARGUMENT", f"a mask has no bits outside {ALARMS}")
    return value


@command("DishwasherAlarm", "Reset")
def reset(view: View, alarms_to_reset: Any) -> dict[str, Any]:
    """Clear latched alarms by a bit mask; all of them without one."""
    old = view["Latch"]
    alarms = _mask(old if alarms_to_reset is None else alarms_to_reset)
    view["Latch"] = old & ~alarms
    return done(view, "Reset", reset_alarms=alarms, old_latch=old, new_latch=view["Latch"])


@command("DishwasherAlarm", "ModifyEnabledAlarms")
def modify_enabled_alarms(view: View, mask: Any) -> dict[str, Any]:
    """Set the bit mask of the enabled alarms."""
    new = _mask(mask)
    old, view["Mask"] = view["Mask"], new
    return done(view, "ModifyEnabledAlarms", old_mask=old, new_mask=new)


@command("TemperatureControl", "SetTemperature")
def set_temperature(view: View, target_temperature: Any, target_temperature_level: Any) -> dict[str, Any]:
    """Set the target temperature, in hundredths of a degree celsius."""
    target, old = target_temperature, view["TemperatureSetpoint"]
    if target is None:
        need(target_temperature_level is None, "CONSTRAINT_ERROR", "there are no temperature levels")
        raise Failure("INVALID_ARGUMENT", "target_temperature is needed")
    low, high = view["MinTemperature"], view["MaxTemperature"]
    need(low <= target <= high, "CONSTRAINT_ERROR", f"target_temperature is not in {low}..{high}")
    view["TemperatureSetpoint"] = target
    return done(
        view,
        "SetTemperature",
        status="SUCCESS",
        target_temperature=target,
        old_setpoint=old,
        new_setpoint=target,
        temperature_celsius=target / 100,
    )


@write("PowerSource", "BatPercentRemaining", "BatChargingCurrent", "BatTimeToFullCharge")
def write_battery(view: View, attribute: str, value: Any) -> None:
    """Refuse the attributes of a battery."""
    raise Failure("UNSUPPORTED_COMMAND", "a wired source has no battery")


@write("PowerTopology", "ClusterRevision", "FeatureMap")
def write_topology(view: View, attribute: str, value: Any) -> Any:
    """Store a value; the result is the value alone."""
    return store(view, attribute, value)["new_value"]


@write("LevelControl", "DefaultMoveRate", "OnLevel")
def write_level(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Store a number or null."""
    need(value is None or is_number(value), "VALIDATION_ERROR", f"{attribute} takes a number")  # text would stop the passes
    return store(view, attribute, value)
