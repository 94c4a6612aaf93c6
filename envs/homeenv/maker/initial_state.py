"""The initial state of a home: the air of its rooms and the values of its devices, from weather, hour and habits.

The air of a room is the steady state of `sim/devices/air_physics.py`, plus a random drift of each room.

Invariants:
- Sensors agree with the state of their room.
- The state is a pure function of the arguments and the rng.
- In each room at most one device heats or cools, and at most one humidifies or dries, so no two work against each other.
- A running device is switched on and able to run. For example, a machine that is off runs no program, and a humidifier
  with an empty tank is off.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from homerl.envs.homeenv.maker.weather import Sky
from homerl.envs.homeenv.sim.devices.air_physics import (
    PLAIN_SHELL,
    SHELLS,
    THERMAL,
    Outdoors,
    Running,
    compute_air_inputs,
    measured_quantities,
    quantity_in_unit,
    steady_air,
    values_in_air_terms,
)
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import value_means_word

Values = dict[str, Any]

TRIES, UNREACHABLE = 20, 0.05  # draws of a device, and the share of those drawn as unreachable that stay so
PASSING = frozenset(  # what a device shows for a moment, by mistake, or while nobody knows: no home begins so
    "arming disarming pending locking unlocking opening closing buffering standby error exceptional unknown".split()
)
DARK = 1000.0  # lux outdoors below which people switch on lamps and close curtains
# The probability that a boolean attribute is true, by its name, for those that are rarely or nearly always true.
SELDOM = {
    "muted": 0.15, "volume_muted_enabled": 0.15, "child_lock": 0.15, "do_not_disturb": 0.2, "hushed": 0.05, "holiday": 0.1,
    "smoke": 0.01, "leak": 0.01, "gas": 0.01, "ringing": 0.02, "pressed": 0.03, "tampered": 0.02, "rain_detected": 0.1,
    "obstructed": 0.07, "overloaded": 0.05, "door_open": 0.1, "window_open": 0.1, "tank_empty": 0.12, "tank_full": 0.12,
    "bin_full": 0.12, "lint_full": 0.12, "food_empty": 0.1, "vacation_lock": 0.15, "defend_enabled": 0.25, "privacy": 0.2,
    "reachable": 0.98, "quick_cool": 0.1, "quick_freeze": 0.1, "watering": 0.1, "online": 0.97, "on_base": 0.95,
}  # fmt: skip
RUNNING = ("running", "heating", "brewing", "recording")  # attributes that are false in a device that is off
# By kind, an attribute and the value that it must have in a device that is on.
NEEDS = {
    "humidifier": ("tank_empty", False),
    "dehumidifier": ("tank_full", False),
    "thermostat": ("window_open", False),
    "kettle": ("on_base", True),
}


# Rooms


def room_air(kind: str, sky: Sky, running: Sequence[Running] = (), drift: float = 0.0) -> dict[str, float]:
    """The state of a room of type `kind`: celsius, percent and lux by name, given its devices.

    `drift` (celsius) is a deviation of this room, for example by a draught.
    """
    outdoors = Outdoors(sky.temperature, sky.humidity, sky.illuminance)
    air = steady_air(SHELLS.get(kind, PLAIN_SHELL), outdoors, compute_air_inputs(running), drift)
    return {quantity: round(value, 1) for quantity, value in zip(ROOM_STATE, air)}


# Devices


@dataclass(frozen=True)
class HabitContext:
    """What determines the usual settings of devices: the hour (0..23), darkness, and the room's air without devices.

    Without `habits`, what is on, locked, open or playing is so in about half of the cases.
    """

    hour: int
    dark: bool
    temperature: float
    humidity: float
    habits: bool = True

    @property
    def is_asleep(self) -> bool:
        """Whether people sleep at this hour: from 23 to 6 o'clock."""
        return self.hour < 6 or self.hour >= 23

    def habit_share(self, usual: float) -> float:
        """The share (0 to 1) of devices in a state: the `usual` one by habit, else half of them."""
        return usual if self.habits else 0.5


def probability_on(kind: str, context: HabitContext) -> float:
    """The probability (0..1) that a device, or a part of one, is switched on. `kind` is one of `DeviceSpec.kinds`."""
    match kind:
        case "light" | "wall_switch":
            return (0.15 if context.is_asleep else 0.65) if context.dark else 0.2
        case "air_conditioner" | "ac_gateway":
            return 0.7 if context.temperature > 26 else 0.5 if context.temperature < 18 else 0.15
        case "thermostat":
            return 0.7 if context.temperature < 18 else 0.3
        case "heater":
            return 0.65 if context.temperature < 18 else 0.05
        case "fan" | "ceiling_fan":
            return 0.6 if context.temperature > 25 else 0.15
        case "humidifier":
            return 0.55 if context.humidity < 40 else 0.15
        case "dehumidifier":
            return 0.55 if context.humidity > 65 else 0.1
        case "tv":
            return 0.05 if context.is_asleep else 0.6 if context.hour >= 18 else 0.3
        case "oven" | "range_hood" | "kettle" | "coffee_maker":
            return 0.45 if context.hour in (7, 8, 12, 13, 18, 19) else 0.08  # at mealtimes
        case "washer" | "dishwasher" | "dryer":
            return 0.1 if context.is_asleep else 0.35
        case "vacuum":
            return 0.05
    return 0.5


def draw_device_settings(spec: DeviceSpec, context: HabitContext, rng: random.Random, kept: Values | None = None) -> Values:
    """The values of a device by path.

    They are drawn uniformly first. Then habits replace some of them, then `kept` does, and then whatever contradicts
    another value is corrected.
    """
    values = _draw_values(spec, rng)
    for path, share in _paths_with_shares(spec.boolean_paths):
        values[path] = rng.random() < share
    for prefix, kind in spec.part_kinds:
        state = prefix + "state"
        if _state_word(spec, values, state) in ("on", "off"):
            attribute = spec.attribute_index[state][1]
            words = {attribute.word_of_value(option) for option in attribute.options or ()}
            if not words or {"on"} <= words <= {"on", "off", "unavailable", "unknown"}:  # it is a switch
                word = "on" if rng.random() < context.habit_share(probability_on(kind, context)) else "off"
                values[state] = attribute.value_of_word(word)
        for name, value in _draw_habits(kind, context, rng):
            _put_value(values, spec, prefix + name, value)
            if prefix in spec.air_effects and name == "target_temperature":
                # Products whose `air` says where they heat or cool to may have other names for it.
                for other, offset in (("temperature", 0), ("aim", 0), ("low", -2), ("high", 2)):
                    if (path := prefix + other) in values:
                        target = quantity_in_unit(value + offset, spec.attribute_index[path][1])
                        _put_value(values, spec, path, round(target))
        for name, value in _draw_measurements(prefix, values, rng):
            _put_value(values, spec, prefix + name, value)
    values.update(kept or {})
    for prefix, kind in spec.part_kinds:
        now = {name: values.get(prefix + name) for name in ENTAILING}
        for name, value in _entailed_values(kind, now | {"state": _state_word(spec, values, prefix + "state")}):
            _put_value(values, spec, prefix + name, value)
    if not spec.compiled_motions and not spec.needs_completion:
        return values
    # Everything that moves has come to where it moves to.
    paths, before = list(values), list(values.values())
    for motion in spec.compiled_motions:
        values[paths[motion.slot]] = motion.target_value(before)
    return spec.complete_values(values)


def _state_word(spec: DeviceSpec, values: Mapping[str, Any], path: str) -> Any:
    """The state at a path in a word such as "on", or None if there is none."""
    return spec.attribute_index[path][1].word_of_value(values[path]) if path in values else None


def _draw_values(spec: DeviceSpec, rng: random.Random) -> Values:
    """Uniformly drawn values without those that only pass; a device that cannot be reached is rare."""
    for _attempt in range(TRIES):
        values: Values = {}
        for path, (_, attribute) in spec.attribute_index.items():
            options = attribute.options or ()
            usual = [option for option in options if option not in PASSING]
            passing = len(usual) < len(options)
            values[path] = attribute.check_value(rng.choice(usual)) if passing else attribute.sample_value(rng)
        values |= spec.start_values
        if spec.can_be_reached(values) or rng.random() < UNREACHABLE:
            break
    return values


@cache
def _paths_with_shares(flags: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    """The (path, probability) pairs of the boolean attributes of a product that are in `SELDOM`."""
    names = ((path, path.rpartition(".")[2]) for path in flags)
    return tuple((path, SELDOM[name]) for path, name in names if name in SELDOM)


def _draw_habits(kind: str, context: HabitContext, rng: random.Random) -> Iterable[tuple[str, Any]]:
    """The (attribute, value) pairs that habits give a part of this kind, where a uniform draw would be implausible."""
    match kind:
        case "air_conditioner":
            modes = ["cool", "heat", "dry", "fan_only", "auto"]
            if context.temperature > 24:  # usual modes occur several times, so that they are drawn more often
                modes = ["cool"] * 6 + ["dry", "fan_only", "auto"]
            elif context.temperature < 18:
                modes = ["heat"] * 6 + ["auto"]
            mode = rng.choice(modes)
            low, high = {"cool": (22, 27), "heat": (19, 25)}.get(mode, (20, 26))
            yield "ac_mode", mode
            yield "target_temperature", rng.randint(low, high)
            yield "target_humidity", rng.randrange(40, 65, 5)
        case "heater" | "thermostat":
            yield "target_temperature", rng.randint(18, 25)
            yield "mode", "cool" if context.temperature > 24 else "heat"
        case "humidifier" | "dehumidifier":
            yield "target_humidity", rng.randrange(40, 65, 5)
        case "curtain" | "valve" if not context.habits:
            end = rng.choice((0, 100))
            yield from (("position", end), ("target_position", end))  # those of Home Assistant follow a target
        case "curtain":
            usual, closed = (0, 0.75) if context.dark else (100, 0.6)
            yield "position", usual if rng.random() < closed else rng.randrange(0, 101, 5)
        case "opener" | "garage_door":
            yield "position", 0 if rng.random() < context.habit_share(0.75) else rng.randrange(10, 101, 10)
        case "clothes_rack":
            yield "height", 0 if rng.random() < context.habit_share(0.7) else 100
        case "lock":
            yield "state", "locked" if rng.random() < context.habit_share(0.95 if context.is_asleep else 0.6) else "unlocked"
        case "vacuum":
            yield from (("state", "docked"), ("state", "charging"))  # products have one of the two words
            if rng.random() < context.habit_share(0.1 if context.is_asleep else 0.35):
                states = ("paused",) if context.is_asleep else ("cleaning", "cleaning", "cleaning", "paused")
                yield "state", rng.choice(states)
        case "speaker" | "smart_screen":
            playing = rng.random() < context.habit_share(0.05 if context.is_asleep else 0.4)
            yield "playing", playing
            yield "work_state", "playing" if playing else rng.choice(("paused", "stopped"))
        case "media_player" if not context.habits:  # else each of its states alike, of which few can be paused
            yield "state", "playing" if rng.random() < 0.5 else rng.choice(("paused", "off"))
        case "washer" | "dishwasher" | "dryer":
            yield "running", rng.random() < 0.6
        case "oven":
            yield "timer", rng.randrange(0, 95, 5)
            yield "target_temperature", rng.randrange(120, 245, 5)
        case "motion_sensor":
            there = rng.random() < (0.1 if context.is_asleep else 0.4)
            yield "motion", there
            yield "human_detected", "yes" if there else "no"
            yield "no_move_duration", 0 if there else min(int(rng.lognormvariate(7, 1.2)), 86400)
        case "contact_sensor":
            yield "contact", "open" if rng.random() < (0.05 if context.is_asleep else 0.2) else "closed"
        case "alarm_panel":
            yield "state", "armed" if rng.random() < context.habit_share(0.7 if context.is_asleep else 0.25) else "disarmed"
            yield "open_zones", 0 if rng.random() < 0.7 else rng.randint(1, 3)
        case "irrigation":
            yield "rain_delay", 0 if rng.random() < 0.7 else rng.choice((12, 24, 48))
        case "pet_feeder":
            yield "fed_today", rng.randint(0, 6)


def _draw_measurements(prefix: str, values: Values, rng: random.Random) -> Iterable[tuple[str, Any]]:
    """Plausible (attribute, value) pairs for the measurements of a part, and an empty alias."""
    if prefix + "battery" in values or prefix + "battery_level" in values:
        charge = rng.randint(15, 100) if rng.random() < 0.95 else rng.randint(1, 14)
        yield from (("battery", charge), ("battery_level", charge))
    if prefix + "pm25" in values:
        # Half of these are below 20 micrograms per cubic metre.
        yield "pm25", min(int(rng.lognormvariate(3, 0.8)), 300)
    if prefix + "carbon_dioxide" in values:
        # In ppm: the air outdoors has 420, and half of the rooms have less than 245 more.
        yield "carbon_dioxide", min(420 + int(rng.lognormvariate(5.5, 0.8)), 5000)
    yield from (("carbon_monoxide", 0), ("alias", ""))


ENTAILING = ("state", "defend_enabled", "position", "door_open", "privacy", "rain_detected", "open_zones", "rain_delay")


def _entailed_values(kind: str, now: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The (attribute, value) pairs that follow from the state of a part, so that its values do not contradict each other."""
    if now["state"] == "off":
        yield from ((name, False) for name in RUNNING)
        yield from (("power", 0.0), ("sleep_state", "awake"), ("countdown", 0))
        if kind == "oven":
            yield "mode", "idle"
    elif now["state"] == "on" and kind in NEEDS:
        yield NEEDS[kind]
    if now["state"] == "unlocked":
        yield "defend_enabled", False
    if now["position"]:
        yield "vacation_lock", False
    if now["rain_detected"]:
        yield "position", 0
    if now["door_open"]:
        yield from (("running", False), ("mode", "idle"))
    if now["privacy"]:
        yield "recording", False
    if now["rain_delay"]:
        yield "watering", False
    if now["open_zones"] and kind == "alarm_panel":
        yield "state", "disarmed"


def _put_value(values: Values, spec: DeviceSpec, path: str, value: Any) -> None:
    """Set an attribute if the product has it and accepts the value; otherwise keep the drawn value."""
    if path in values:
        with suppress(Refused):
            values[path] = spec.attribute_index[path][1].check_value(value)


# Homes


def initial_state(
    rooms: Sequence[Room],
    devices: Sequence[Device],
    sky: Sky,
    rng: random.Random,
    given: Mapping[str, Values] | None = None,
    kept: Mapping[str, Values] | None = None,
    habits: bool = True,
) -> dict[str, Values]:
    """The values of every owner (outdoors, rooms, devices), by owner and path.

    Both `given` and `kept` hold values by did and path. `given` fixes them; `kept` gives way where others contradict it.
    See `HabitContext` for `habits`.
    """
    state: dict[str, Values] = {
        OUTDOORS: {"temperature": sky.temperature, "humidity": sky.humidity, "brightness": sky.illuminance}
    }
    inside: dict[str, list[Device]] = {room.id: [] for room in rooms}
    for device in devices:
        inside[device.room.id].append(device)
    for room in rooms:
        # In celsius: draughts and sunny walls, say.
        drift = rng.gauss(0, 1)
        free = room_air(room.type, sky, drift=drift)
        context = HabitContext(sky.when.hour, sky.illuminance < DARK, free["temperature"], free["humidity"], habits)
        running: list[Running] = []
        busy: set[str] = set()
        for device in inside[room.id]:
            values = draw_device_settings(device.spec, context, rng, (kept or {}).get(device.did))
            _switch_off_rivals(device.spec, values, busy)
            values.update((given or {}).get(device.did, {}))
            running.append((device.spec, values))
            state[device.did] = values
        state[room.id] = room_air(room.type, sky, running, drift)
        for device in inside[room.id]:
            for path, quantity in measured_quantities(device.spec):
                reading = quantity_in_unit(list(state[room.id].values())[quantity], device.spec.attribute_index[path][1])
                _put_value(state[device.did], device.spec, path, reading)
    return state


def _switch_off_rivals(spec: DeviceSpec, values: Values, busy: set[str]) -> None:
    """Switch off the parts of a device that would change a quantity that another device of the room already changes.

    `busy` holds the quantities that are being changed. The device's own are added.
    """
    for prefix, kind in spec.part_kinds:
        seen = values_in_air_terms(spec, values)
        aims = {"temperature"} if kind in THERMAL else set()
        aims |= {"humidity"} if prefix + "target_humidity" in seen else set()
        if aims and value_means_word(seen.get(prefix + "state"), "on"):
            if aims & busy:
                _put_value(values, spec, prefix + "state", spec.attribute_index[prefix + "state"][1].value_of_word("off"))
            else:
                busy |= aims
