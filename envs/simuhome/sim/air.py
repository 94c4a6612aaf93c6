"""The air of a room: temperature, PM10, illuminance and humidity, and how devices change them.

The paper calls these rules aggregators. In each pass a variable S becomes (S + Σe)(1 − k) + kB, clamped to its bounds:
e are the effects of devices, B is the baseline, and k is the share by which S returns to B. Illuminance is an
exception: it is always the baseline plus the light of all devices.

Invariants:
- An effect e is piecewise linear in S (`LinearPiece`). Between two edges of the pieces a pass is therefore one affine
  map, and n passes have the closed form S_n = F + (S − F)·(1 − rest)^n, with the fixed point F. `value_after` advances
  from edge to edge in this way.
- In strict mode temperature and PM10 keep the effects that were computed when a device last changed, as in the released
  program. Their pieces are constants. Humidity follows S in both modes, because the noise of its sensor makes the
  released program recompute the effects in every pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from homerl.envs.core.state_encoding import AddedField, written_as
from homerl.envs.simuhome.sim.episode_file import VARIABLES
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome, MatterRoom, is_number

INF = math.inf
State = tuple[Any, ...]  # a device's state: the values of the attributes in its `SIGNATURE`
SINGLE_PASSES_AT_EDGE = 8  # passes near an edge run one by one, so that rounding cannot miss the one that crosses it


@written_as("Line", low="low", high="high", base="base", slope="slope")
class LinearPiece(NamedTuple):
    """An effect of base + slope·S on a variable S, for low <= S < high. The effect is the change in one pass."""

    low: float
    high: float
    base: float
    slope: float


@written_as("Influence", signature="signature", effects="effects", before=AddedField("before"))
class Influence(NamedTuple):
    """The effects of all devices on one variable of a room.

    `signature` holds the states of the devices for which the effects were computed. `before` is the variable's value
    before the last pass, if the value after it does not tell it (`_remember_last_value`).
    """

    signature: dict[str, State]
    effects: dict[str, tuple[LinearPiece, ...]]
    before: float | None = None

    def all_pieces(self) -> list[LinearPiece]:
        """The pieces of all devices."""
        return [piece for pieces in self.effects.values() for piece in pieces]


class BaselineLaw(NamedTuple):
    """How a variable returns to its baseline: the share `pull` for each second, and the variable's bounds."""

    pull: float
    low: float
    high: float


# Illuminance has no law: it is always the baseline plus the light of all devices.
LAWS = {
    "temperature": BaselineLaw(0.0002, -INF, INF),
    "pm10": BaselineLaw(0.1, 0.0, INF),
    "humidity": BaselineLaw(0.01, 0.0, 10000.0),
}
WATCHED = {  # the device types that move each variable
    "temperature": ("air_conditioner", "heat_pump", "fan"),
    "pm10": ("air_purifier",),
    "illuminance": ("on_off_light", "dimmable_light"),
    "humidity": ("humidifier", "dehumidifier"),
}
SIGNATURE = {  # the attributes, by flat key, on whose values the effect of a device type depends
    "air_conditioner": (
        "1.OnOff.OnOff", "1.Thermostat.SystemMode", "1.Thermostat.OccupiedCoolingSetpoint",
        "1.Thermostat.OccupiedHeatingSetpoint", "1.FanControl.PercentCurrent",
    ),
    "heat_pump": (
        "4.Thermostat.SystemMode", "4.Thermostat.OccupiedCoolingSetpoint", "4.Thermostat.OccupiedHeatingSetpoint",
        "2.ElectricalPowerMeasurement.ActivePower",  # it changes no effect, but its changes renew the effects
    ),
    "on_off_light": ("1.OnOff.OnOff",),
    "dimmable_light": ("1.OnOff.OnOff", "1.LevelControl.CurrentLevel"),
    **dict.fromkeys(
        ("fan", "air_purifier", "humidifier", "dehumidifier"), ("1.OnOff.OnOff", "1.FanControl.PercentCurrent")
    ),
}  # fmt: skip
SENSORS = {  # the attribute in which a device type shows its room's variable
    "air_conditioner": "1.Thermostat.LocalTemperature",
    "heat_pump": "4.Thermostat.LocalTemperature",
    "humidifier": "2.RelativeHumidityMeasurement.MeasuredValue",
    "dehumidifier": "2.RelativeHumidityMeasurement.MeasuredValue",
}


# Effects of devices


def _fan_share(percent: Any) -> float:
    """A fan's speed as a share from 0 to 1; 0.5 if the percentage is not a number, as in the released program."""
    return max(0.0, min(percent, 100)) / 100 if is_number(percent) else 0.5


def _cooling_pieces(above: float, full: float, width: float) -> tuple[LinearPiece, ...]:
    """No effect up to `above`; then the effect grows to -full within `width`."""
    # Temperatures are in 0.01 °C, so the effect grows within a fraction of a hundredth: nearly a switch.
    slope = -full / width
    return LinearPiece(above, above + width, -slope * above, slope), LinearPiece(above + width, INF, -full, 0.0)


def _heating_pieces(below: float, full: float, width: float) -> tuple[LinearPiece, ...]:
    """No effect from `below` upwards; below it the effect grows to +full within `width`."""
    slope = -full / width
    return LinearPiece(-INF, below - width, full, 0.0), LinearPiece(below - width, below, -slope * below, slope)


def device_effect(kind: str, state: State, baseline: float, dt: float) -> tuple[LinearPiece, ...]:
    """The effect of one device on its room's variable.

    Args:
        kind: The device type, one of `SIGNATURE`.
        state: The values of the attributes in the type's `SIGNATURE`.
        baseline: The value to which the variable returns.
        dt: The length of a pass in seconds.

    Returns:
        The pieces of the effect in one pass. There are none if the device does nothing.
    """
    match kind:
        case "air_conditioner":
            on, mode, cooling, heating, percent = state
            full = 0.05 * _fan_share(percent) * dt
            if on is True and mode == 3 and is_number(cooling):
                return _cooling_pieces(cooling, full, 0.05)
            return _heating_pieces(heating, full, 0.05) if on is True and mode == 4 and is_number(heating) else ()
        case "heat_pump":
            return _heating_pieces(state[2], 0.05 * dt, 0.05) if state[0] == 4 and is_number(state[2]) else ()
        case "fan":
            return _cooling_pieces(baseline - 200, 0.02 * _fan_share(state[1]) * dt, 0.04) if state[0] is True else ()
        case "air_purifier":
            on, percent = state
            if on is False or not is_number(percent) or percent <= 0:
                return ()
            full = 5 * (percent / 100) ** 0.8 * dt
            if baseline <= 0:
                return (LinearPiece(-INF, INF, -full, 0.0),)
            # The effect is proportional to the dust. Above twice the baseline it is weaker by a fifth; the edge itself
            # belongs to the lower piece, and pieces are open above.
            edge = math.nextafter(2 * baseline, INF)
            return LinearPiece(-INF, edge, 0.0, -full / baseline), LinearPiece(edge, INF, 0.0, -0.8 * full / baseline)
        case "on_off_light":
            return (LinearPiece(-INF, INF, 500.0, 0.0),) if state[0] is True else ()
        case "dimmable_light":
            on, level = state
            return (LinearPiece(-INF, INF, (level if is_number(level) else 0) / 254 * 500, 0.0),) if on is True else ()
    on, percent = state  # a humidifier or a dehumidifier
    if on is not True or not is_number(percent) or percent <= 0:
        return ()
    full = 5 * (percent / 100) * dt
    if kind == "humidifier":
        return LinearPiece(-INF, 8100.0, full, -full / 9000), LinearPiece(8100.0, 9000.0, 0.1 * full, 0.0)
    # The lower piece begins just above 10 %: at 10 % itself there is no effect.
    low = LinearPiece(math.nextafter(1000.0, INF), 1900.0, -0.1 * full, 0.0)
    return low, LinearPiece(1900.0, INF, full / 9, -full / 9000)


# Passes of one variable


def total_effect(pieces: Iterable[LinearPiece], value: float) -> tuple[float, float, float, float]:
    """(low, high, base, slope) of the sum of all effects at a value: within low..high it is base + slope·S."""
    low, high, base, slope = -INF, INF, 0.0, 0.0
    for piece in pieces:
        if value < piece.low:
            high = min(high, piece.low)
        elif value >= piece.high:
            low = max(low, piece.high)
        else:
            low, high = max(low, piece.low), min(high, piece.high)
            base, slope = base + piece.base, slope + piece.slope
    return low, high, base, slope


def value_after_pass(value: float, baseline: float, pull: float, base: float, slope: float, law: BaselineLaw) -> float:
    """The value after one pass.

    `pull` is the share of the return to the baseline in one pass. The effect of all devices is base + slope·value.
    """
    value += base + slope * value
    value += (baseline - value) * pull
    return max(law.low, min(value, law.high))


def value_after(value: float, baseline: float, law: BaselineLaw, dt: float, pieces: list[LinearPiece], n: int) -> float:
    """The value after `n` passes of `dt` seconds each."""
    pull = law.pull * dt
    low, high, base, slope = total_effect(pieces, value)
    while n > 0:
        rest = pull - slope + pull * slope  # the share by which a pass comes closer to the fixed point F
        if law.low <= value <= law.high and 0 < rest < 1:
            fixed = ((1 - pull) * base + pull * baseline) / rest
            whole = n
            if not low <= fixed <= high:  # the closed form is used until two passes before the edge
                edge = high if fixed > high else low
                passes = math.log((edge - fixed) / (value - fixed)) / math.log1p(-rest) if value != edge else 0
                whole = min(n, int(passes) - 2)
            if whole > 0:
                # Single passes stop short of the fixed point as soon as a step is too small for a double to change. The
                # closed form must stop at the same place: a sensor that truncates the value shows on which side it stops.
                gap = value - fixed
                stall = min(abs(gap), math.ulp(fixed) / 2 / rest)
                left = math.copysign(max(abs(gap) * math.exp(whole * math.log1p(-rest)), stall), gap)
                value = max(law.low, min(fixed + left, law.high))
                n -= whole
        for _ in range(min(n, SINGLE_PASSES_AT_EDGE)):
            value = value_after_pass(value, baseline, pull, base, slope, law)
            n -= 1
            if not low <= value < high:
                low, high, base, slope = total_effect(pieces, value)
    return value


# Passes of a room


def advance_air(home: MatterHome, room: MatterRoom, n: int) -> None:
    """Advance the four variables of a room by `n` passes, and update the sensors that show them."""
    devices = home.plan.devices_by_room[room.name]
    for index, name in enumerate(VARIABLES):
        slot = room.base + index
        watched = [device for device in devices if device.type.name in WATCHED[name]]
        influence, renewed = _present_influence(home, watched, slot, room.baseline[index], name)
        value = home.values[slot]
        if name != "illuminance":
            after = value_after(value, room.baseline[index], LAWS[name], home.interval, influence.all_pieces(), n)
            home.set_slot(slot, after)
            _remember_last_value(home, slot, influence, value, room.baseline[index], LAWS[name], n)
        elif renewed or not home.plan.strict:
            home.set_slot(slot, room.baseline[index] + sum(piece.base for piece in influence.all_pieces()))
        _update_sensors(home, watched, name, home.values[slot])


def _present_influence(
    home: MatterHome, devices: list[MatterDevice], slot: int, baseline: float, name: str
) -> tuple[Influence, bool]:
    """(influence, whether it was computed anew) on the variable in `slot`.

    It is computed anew for all devices if the state of one of them has changed.
    """
    values, kept = home.values, home.values[slot + len(VARIABLES)]
    signature = {d.id: tuple(values[d.base + d.offsets[key]] for key in SIGNATURE[d.type.name]) for d in devices}
    if kept is not None and all(kept.signature.get(did) == state for did, state in signature.items()):
        return kept, False
    # The light of a removed device goes with the next sum. Any other effect of it stays, if it is kept at all.
    effects = dict(kept.effects) if kept is not None and name != "illuminance" else {}
    for device in devices:
        pieces = device_effect(device.type.name, signature[device.id], baseline, home.interval)
        frozen = home.plan.strict and name in ("temperature", "pm10")
        effects[device.id] = _constant_effect(pieces, values[slot]) if frozen else pieces
    influence = Influence(signature, effects)
    home.set_slot(slot + len(VARIABLES), influence)
    return influence, bool(devices)


def _constant_effect(pieces: tuple[LinearPiece, ...], value: float) -> tuple[LinearPiece, ...]:
    """The effects as they are at a value, as one piece that no longer depends on the value."""
    _, _, base, slope = total_effect(pieces, value)
    effect = base + slope * value
    return (LinearPiece(-INF, INF, effect, 0.0),) if effect else ()


def _update_sensors(home: MatterHome, devices: list[MatterDevice], name: str, value: float) -> None:
    """Show a room's temperature or humidity at its devices' sensors. They truncate to whole hundredths."""
    if name not in ("temperature", "humidity") or not math.isfinite(value):
        return
    for device in devices:
        if path := SENSORS.get(device.type.name):
            shown = int(value)
            if name == "humidity":
                bounds = ("2.RelativeHumidityMeasurement.MinMeasuredValue", "2.RelativeHumidityMeasurement.MaxMeasuredValue")
                least, most = (home.values[device.base + device.offsets[bound]] for bound in bounds)
                shown = max(least, min(shown, most))
            slot = device.base + device.offsets[path]
            if home.values[slot] != shown:
                home.set_slot(slot, shown)


def _remember_last_value(
    home: MatterHome, slot: int, influence: Influence, value: float, baseline: float, law: BaselineLaw, n: int
) -> None:
    """Keep the value before the last of `n` passes, which began at `value`, if the value after them does not tell it.

    It does not where effects jump: there two values, one on each side, may lead to the same one.
    """
    if n == 0 or not home.plan.strict:
        return
    pieces, before = influence.all_pieces(), None
    if len({(piece.low, piece.high) for piece in pieces}) > 1:
        last = value_after(value, baseline, law, home.interval, pieces, n - 1)
        guess = _value_one_pass_ago(home.values[slot], baseline, law, home.interval, pieces)
        told = guess is not None and total_effect(pieces, guess) == total_effect(pieces, last)
        before = None if told else last
    if before != influence.before:
        home.set_slot(slot + len(VARIABLES), influence._replace(before=before))


def _value_one_pass_ago(
    value: float, baseline: float, law: BaselineLaw, dt: float, pieces: list[LinearPiece]
) -> float | None:
    """The value that a pass turned into `value`, if effects did not jump; None if a pass turns all values into one."""
    _, _, base, slope = total_effect(pieces, value)
    pull = law.pull * dt
    if pull == 1 or slope == -1:
        return None
    return ((value - pull * baseline) / (1 - pull) - base) / (1 + slope)


def renew_effect_rates(home: MatterHome) -> None:
    """Let the next pass compute anew the effects that follow the length of a pass, which is about to change.

    In strict mode these are the effects on humidity alone; the others are kept until a device changes.
    """
    for room in home.plan.rooms.values():
        for index, name in enumerate(VARIABLES):
            kept: Influence | None = home.values[room.base + index + len(VARIABLES)]
            if kept is None or not kept.signature or (home.plan.strict and name != "humidity"):
                continue
            before = kept.before
            if before is None and name in LAWS:
                value, baseline = home.values[room.base + index], room.baseline[index]
                before = _value_one_pass_ago(value, baseline, LAWS[name], home.interval, kept.all_pieces())
            home.set_slot(room.base + index + len(VARIABLES), kept._replace(signature={}, before=before))


def forget_device(home: MatterHome, device: MatterDevice) -> None:
    """Remove a device's effects from its room.

    In strict mode its last effect stays, as in the released program: light until another light changes, the rest for ever.
    """
    room = home.plan.rooms[device.room]
    for index, name in enumerate(VARIABLES):
        slot = room.base + index
        kept: Influence | None = home.values[slot + len(VARIABLES)]
        if kept is None or device.id not in kept.effects:
            continue
        effects = dict(kept.effects)
        pieces = effects.pop(device.id)
        if home.plan.strict:
            law, before = LAWS.get(name), kept.before
            if law is not None and before is None:
                before = _value_one_pass_ago(home.values[slot], room.baseline[index], law, home.interval, kept.all_pieces())
            effects[device.id] = _constant_effect(pieces, home.values[slot] if before is None else before)
        home.set_slot(slot + len(VARIABLES), kept._replace(effects=effects))
