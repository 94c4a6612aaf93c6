"""Clusters of many devices: OnOff, LevelControl, Identify, and some writes of PowerSource and PowerTopology.

OnOff is power, and its effects on a dimmer's level and on an appliance's programme. LevelControl is a level, such as
brightness or volume, that changes at once, in a transition or in a move. A transition goes to a target level within a
time. A move goes up or down until it is stopped or reaches a bound. The commands whose names end in WithOnOff couple the
level with power: OnOff becomes true while the level is above the lowest.

Invariants:
- `#transition` is (start level, target level, passes in all, passes so far, coupled). If a pass is not 0.1 s long, its
  length at the start of the transition follows.
- `#move` is (direction, rate, accumulator, coupled).
- `#coupled` holds the bits `TRANSITION` and `MOVE`, for the last of each that began: whether it was coupled.
- In strict mode a level is bounded on the side to which a command goes only. So a step of -10 up goes down without end.
- In strict mode only device types with `dims` take time for a change, as in the released program. In mended mode every
  device does.
"""

from __future__ import annotations

import math
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
from homerl.envs.simuhome.sim.clusters import appliances
from homerl.envs.simuhome.sim.home import ClusterView, OperationError, UnhandledError, is_integer, is_number, refuse_unless

SUFFIX = "WithOnOff"  # of the commands that couple the level with power
TRANSITION, MOVE = 1, 2  # bits of `#coupled`


def current_level(view: ClusterView) -> float:
    """The level, or the lowest level if none is stored. In strict mode a fraction is cut off where a command begins."""
    level: float = view["MinLevel"] if view["CurrentLevel"] is None else view["CurrentLevel"]
    return int(level) if view.is_strict else level


def takes_time(view: ClusterView) -> bool:
    """Whether a change of level takes time. Otherwise it happens at once."""
    return view.device.type.dims or not view.is_strict


@register_command("LevelControl", "MoveToLevel", "MoveToLevelWithOnOff")
def move_to_level(
    view: ClusterView, name: str, Level: Any, TransitionTime: Any, OptionsMask: Any, OptionsOverride: Any
) -> dict[str, Any]:
    """Go to a level (1 to 254) within `TransitionTime` ticks of 0.1 s."""
    _require_no_transition(view)
    _require_integers(view, Level, TransitionTime)
    refuse_unless(1 <= Level <= 254, "COMMAND_INVALID_ARGS", f"Level {Level} is not in 1..254")
    if idle := _suppressed_result(view, name, OptionsMask, OptionsOverride):
        return idle
    time = TransitionTime if TransitionTime is not None else view["OnOffTransitionTime"] or 0
    target = max(view["MinLevel"], min(Level, view["MaxLevel"]))
    duration = _start_transition(view, target, time, name.endswith(SUFFIX))
    return command_result(view, name, target_level=target, duration=duration)


@register_command("LevelControl", "Move", "MoveWithOnOff")
def move_level(
    view: ClusterView, name: str, MoveMode: Any, Rate: Any, OptionsMask: Any, OptionsOverride: Any
) -> dict[str, Any]:
    """Move up (`MoveMode` 0) or down (1) until stopped or at a bound. `Rate` is in tenths of a level per pass."""
    _require_no_transition(view)
    refuse_unless(MoveMode in (0, 1), "COMMAND_INVALID_ARGS", "MoveMode is neither 0 (up) nor 1 (down)")
    refuse_unless(Rate != 0, "COMMAND_INVALID_ARGS", "Rate is 0")
    refuse_unless(Rate is None or is_number(Rate), "COMMAND_INVALID_ARGS", "Rate is not a number")
    if idle := _suppressed_result(view, name, OptionsMask, OptionsOverride):
        return idle
    rate, coupled = Rate or view["DefaultMoveRate"] or 1, name.endswith(SUFFIX)
    if takes_time(view):
        view["#move"] = (1 - 2 * int(MoveMode), rate, 0.0, coupled)
        _note_coupled(view, MOVE, coupled)
    if coupled and MoveMode == 0:
        view.sibling_view("OnOff")["OnOff"] = True
    return command_result(view, name, direction="down" if MoveMode else "up", rate=rate)


@register_command("LevelControl", "Step", "StepWithOnOff")
def step_level(
    view: ClusterView, name: str, StepMode: Any, StepSize: Any, TransitionTime: Any, OptionsMask: Any, OptionsOverride: Any
) -> dict[str, Any]:
    """Go `StepSize` levels up (`StepMode` 0) or down (1) within `TransitionTime` ticks of 0.1 s."""
    _require_no_transition(view)
    refuse_unless(StepMode in (0, 1), "COMMAND_INVALID_ARGS", "StepMode is neither 0 (up) nor 1 (down)")
    refuse_unless(StepSize != 0, "COMMAND_INVALID_ARGS", "StepSize is 0")
    _require_integers(view, StepSize, TransitionTime)
    if idle := _suppressed_result(view, name, OptionsMask, OptionsOverride):
        return idle
    level, up = current_level(view), StepMode == 0
    target = _bounded_level(view, level + StepSize if up else level - StepSize, up)
    time, way = 0 if TransitionTime is None else TransitionTime, abs(target - level)
    if way < StepSize and time > 0:  # first, since a time that cannot be compared is refused at the bound too
        time = max(1, int(time * way / StepSize))
    if way == 0:
        time = 0
    _start_transition(view, target, time, name.endswith(SUFFIX))
    direction = "down" if StepMode else "up"
    return command_result(view, name, direction=direction, step_size=StepSize, new_level=target, duration=time)


@register_command("LevelControl", "Stop", "StopWithOnOff")
def stop_level(view: ClusterView, name: str, OptionsMask: Any, OptionsOverride: Any) -> dict[str, Any]:
    """End a transition or a move at the present level."""
    if idle := _suppressed_result(view, name, OptionsMask, OptionsOverride):
        return idle
    view["#transition"], view["#move"], view["RemainingTime"] = None, None, 0
    if view["#coupled"]:
        _couple_power(view, current_level(view))
    return command_result(view, name, stopped=True)


@register_command("LevelControl", "MoveToClosestFrequency")
def move_to_closest_frequency(view: ClusterView, Frequency: Any) -> dict[str, Any]:
    """Set the frequency. It must be within its bounds if the device has any."""
    low, high = view["MinFrequency"], view["MaxFrequency"]
    inside = not (low > 0 and high > 0) or low <= Frequency <= high  # bounds of 0 stand for none
    refuse_unless(inside, "CONSTRAINT_ERROR", f"Frequency is not in {low}..{high}")
    view["CurrentFrequency"] = Frequency
    return command_result(view, "MoveToClosestFrequency", frequency=Frequency)


def _level_power_changed(view: ClusterView, on: bool) -> None:
    """Change the level after the device was switched on or off.

    Switched off, it goes to the lowest level. Switched on, it goes to OnLevel if that is set, or else to the level
    before.
    """
    low, level = view["MinLevel"], view["CurrentLevel"]
    view["#move"] = None
    if on:
        kept = (view["OnLevel"], *(x for x in (view["#remembered"], level) if x is not None and x > low), view["MaxLevel"])
        target, time = next(x for x in kept if x is not None), view["OnTransitionTime"]
    else:
        if level is not None and level > low:
            view["#remembered"] = level
        target, time = low, view["OffTransitionTime"]
    _start_transition(view, target, (view["OnOffTransitionTime"] or 0) if time is None else time, False)


def _require_no_transition(view: ClusterView) -> None:
    refuse_unless(view["#transition"] is None, "INVALID_STATE", "A transition is running")


def _require_integers(view: ClusterView, *numbers: Any) -> None:
    if not view.is_strict:
        wrong = [x for x in numbers if x is not None and (not is_integer(x) or isinstance(x, bool))]
        refuse_unless(not wrong, "COMMAND_INVALID_ARGS", f"{wrong} must be integers")


def _bounded_level(view: ClusterView, level: float, up: bool) -> float:
    """A level within its bounds. In strict mode only the bound counts to which a command goes."""
    if up or not view.is_strict:
        level = min(level, view["MaxLevel"])
    return level if up and view.is_strict else max(level, view["MinLevel"])


def _suppressed_result(view: ClusterView, name: str, mask: Any, override: Any) -> dict[str, Any] | None:
    """The result of a command without effect, because the device is off; None if the command has an effect."""
    try:
        # Bits of the mask take their value from the override, the others from the attribute. Bit 0 is ExecuteIfOff.
        options, bits = view["Options"], mask & 0xFF
        options = 0 if options is None else options
        if bits:
            options = (options & ~bits) | (override & bits)
        acts = name.endswith(SUFFIX) or view.is_on or options & 1
    except TypeError:
        raise OperationError("COMMAND_INVALID_ARGS", "the options are no bit masks") from None
    reason = "The device is off and the options do not ask to act all the same"
    return None if acts else command_result(view, name, suppressed=True, reason=reason)


def _note_coupled(view: ClusterView, what: int, coupled: bool) -> None:
    """Note whether a transition or a move is coupled. In mended mode it takes the place of the other one."""
    others = int(view["#coupled"]) & ~what if view.is_strict else 0
    view["#coupled"] = others | (what if coupled else 0) or False


def _couple_power(view: ClusterView, level: float) -> None:
    view.sibling_view("OnOff")["OnOff"] = level > view["MinLevel"]


def _start_transition(view: ClusterView, target: float, ticks: Any, coupled: bool) -> Any:
    """Start a transition to a level. The result is its length in ticks of 0.1 s. Without one, the level changes at once."""
    at_once = not takes_time(view) or not max(0, ticks)
    if not view.is_strict:
        view["#move"] = None
        _note_coupled(view, TRANSITION, coupled)
    if at_once:
        view["CurrentLevel"], view["RemainingTime"], view["#transition"] = target, 0, None
        if coupled and takes_time(view) and (ticks == 0 or target > view["MinLevel"]):
            _couple_power(view, target)
        return ticks or 0 if takes_time(view) else 0
    interval = view.home.interval
    passes = max(1, math.ceil(ticks / 10 / interval))
    changed = () if interval == TENTH else (interval,)
    view["#transition"] = (current_level(view), target, passes, 0, coupled, *changed)
    view["RemainingTime"] = ticks
    _note_coupled(view, TRANSITION, coupled)
    if coupled and target > view["MinLevel"]:
        view.sibling_view("OnOff")["OnOff"] = True
    return ticks


@register_passes("LevelControl")
def advance_level(view: ClusterView, n: int) -> None:
    """Advance a move and a transition by `n` passes."""
    while n and view["#move"] is not None:
        if view["#transition"] is None:
            n -= _advance_move(view, n)
        else:  # in strict mode a move continues during a transition
            _advance_transition(view, 1)
            n -= _advance_move(view, 1)
    if n and view["#transition"] is not None:
        _advance_transition(view, n)


def _advance_transition(view: ClusterView, n: int) -> None:
    start, target, ticks, gone, coupled, *changed = view["#transition"]
    interval = changed[0] if changed else TENTH
    gone += n * max(1, round(view.home.interval / interval))
    if gone >= ticks:
        view["CurrentLevel"], view["RemainingTime"], view["#transition"] = target, 0, None
        if coupled:
            _couple_power(view, target)
        return
    level = start + gone * ((target - start) / ticks)
    view["CurrentLevel"] = round(min(level, target) if target > start else max(level, target))
    view["RemainingTime"] = round((ticks - gone) * interval * 10)
    view["#transition"] = (start, target, ticks, gone, coupled, *changed)


def _advance_move(view: ClusterView, most: int) -> int:
    """Advance the move by at most `most` passes, until a bound. The result is the number of passes.

    The accumulator is summed pass by pass, because the rounding of a product would differ from that of the sum.
    """
    direction, rate, sum, coupled = view["#move"]
    level, up, step = current_level(view), direction > 0, rate * view.home.interval
    low, high = view["MinLevel"], view["MaxLevel"]
    bounds = ((high,) if up else (low,)) if view.is_strict else (low, high)
    moved, used, ended = False, 0, False
    while used < most and not ended:
        used += 1
        sum += step
        if whole := int(sum):
            sum, moved = sum - whole, True
            level = _bounded_level(view, level + direction * whole, up)
            ended = level in bounds
    view["#move"] = None if ended else (direction, rate, sum, coupled)
    if ended:
        view["RemainingTime"] = 0
    if moved:
        view["CurrentLevel"] = level
        if coupled:
            _couple_power(view, level)
    return used


@register_command("OnOff", "On", "Off")
def switch_power(view: ClusterView, name: str) -> dict[str, Any]:
    """Switch the device on or off."""
    if name == "On" and "GlobalSceneControl" in view:
        view["GlobalSceneControl"] = True
    _set_power(view, name == "On")
    return command_result(view, name, result=f"Device turned {name.lower()}")


@register_command("OnOff", "Toggle")
def toggle_power(view: ClusterView) -> dict[str, Any]:
    """Switch the device on if it is off, and off if it is on."""
    old = view["OnOff"]
    # A fault of the released program: Toggle does not affect an appliance's programme.
    _set_power(view, not old, appliance=not view.is_strict)
    return command_result(view, "Toggle", result=f"OnOff toggled from {old} to {not old}")


def _set_power(view: ClusterView, on: bool, appliance: bool = True) -> None:
    if view["OnOff"] is on:
        return
    view["OnOff"] = on
    if view.device.type.dims:
        try:
            _level_power_changed(view.sibling_view("LevelControl"), on)
        except TypeError as error:  # a transition time may be of any type
            raise UnhandledError(str(error)) from None
    if appliance and view.device.type.cycle:
        appliances.appliance_power_changed(view.sibling_view("OperationalState"), on)


EFFECTS = (0, 1, 2, 11, 254, 255)  # Matter's: blink, breathe, okay, channel change, finish, stop


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
