"""Indoor climate and the first state of the devices, from weather, hour and what runs.

The physics is a steady state, stated in full here:
- a room without appliances sits between outdoors and `COMFORT`, by its kind's share, plus what the sun brings
  through its windows and a drift of its own;
- air keeps the outdoor vapour pressure plus what people, baths and pots add, so heated winter air is dry;
  walls and textiles hold it a share of the way back to a middle humidity;
- daylight is a share of the outdoor light, less where curtains are drawn; lamps add to it in proportion;
- what heats or cools brings a room a share of the way to its target, never past it; so for humidity.

Invariants: sensors say what their room's state says; the state is a pure function of its arguments and the
rng; at most one device a room heats or cools, and one moistens or dries, so none works against another.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.home import OUTDOORS, Device, Room
from envs.homeenv.spec import DeviceSpec
from envs.homemaker.weather import Sky

Values = dict[str, Any]
Running = tuple[DeviceSpec, Mapping[str, Any]]  # a device's specification and its values by path

COMFORT = 21.0  # celsius: what buildings tend to
SOLAR_GAIN = 5.0  # celsius that 100,000 lux outdoors bring into a room with open curtains
LUX_PER_PERCENT = 3.0  # what a lamp adds for each percent of brightness
MIDDLE, BUFFER = 50.0, 0.3  # percent, and the share that walls and textiles hold
DARK = 1000.0  # lux outdoors, below which people light lamps and draw curtains


@dataclass(frozen=True)
class Shell:
    """A room kind and the weather: shares of outdoor temperature and light, vapour added (hPa)."""

    outdoors: float = 0.35
    daylight: float = 0.015
    vapour: float = 2.0

    @property
    def sunny(self) -> bool:
        return self.daylight >= 0.01


SHELLS: dict[str, Shell] = {
    "living_room": Shell(daylight=0.02),
    "kitchen": Shell(vapour=4.0),
    "bathroom": Shell(outdoors=0.3, daylight=0.006, vapour=6.0),
    "closet": Shell(outdoors=0.25, daylight=0.0005, vapour=1.0),
    "pantry": Shell(outdoors=0.3, daylight=0.0005, vapour=1.0),
    "hallway": Shell(daylight=0.004, vapour=1.0),
    "laundry": Shell(daylight=0.006, vapour=5.0),
    "balcony": Shell(outdoors=0.95, daylight=0.5, vapour=0.0),
    "garage": Shell(outdoors=0.7, daylight=0.002, vapour=0.5),
    "storage": Shell(outdoors=0.5, daylight=0.001, vapour=1.0),
}
# The share of the way to the target, by fan speed or power level.
POWER = {"low": 0.5, "auto": 0.7, "medium": 0.7, "high": 0.85}
WORK_ALIKE = (frozenset({"air_conditioner", "heater"}), frozenset({"humidifier", "dehumidifier"}))
# A sensor's attribute -> the room's quantity.
REPORTS = {"temperature": "temperature", "humidity": "humidity", "illuminance": "brightness"}


# Rooms


def room_air(kind: str, sky: Sky, running: Sequence[Running] = (), drift: float = 0.0) -> dict[str, float]:
    """The state of a room: temperature, humidity and brightness, given the devices in it."""
    shell = SHELLS.get(kind, Shell())
    openness = _openness(running)
    gain = SOLAR_GAIN * sky.illuminance / 100_000 * openness if shell.sunny else 0.0
    temperature = shell.outdoors * sky.temperature + (1 - shell.outdoors) * COMFORT + gain + drift
    for spec, values in running:
        temperature += _heating(spec, values, temperature)
    vapour = saturation(sky.temperature) * sky.humidity / 100 + shell.vapour
    humidity = (1 - BUFFER) * min(100 * vapour / saturation(temperature), 100) + BUFFER * MIDDLE
    for spec, values in running:
        humidity += _moistening(spec, values, humidity)
    lamps = sum(LUX_PER_PERCENT * percent for spec, values in running for percent in _lamps(spec, values))
    brightness = min(sky.illuminance * shell.daylight * openness + lamps, 120_000)
    air = {"temperature": temperature, "humidity": humidity, "brightness": brightness}
    return {quantity: round(value, 1) for quantity, value in air.items()}


def saturation(temperature: float) -> float:
    """Vapour pressure of saturated air in hPa (Magnus)."""
    return 6.112 * math.exp(17.62 * temperature / (243.12 + temperature))


def _openness(running: Sequence[Running]) -> float:
    """How much light the curtains of a room let in."""
    positions = [values.get("position", 100) for spec, values in running if spec.category == "curtain"]
    return 0.05 + 0.95 * sum(positions) / len(positions) / 100 if positions else 1.0


def _heating(spec: DeviceSpec, values: Mapping[str, Any], temperature: float) -> float:
    """The change of temperature that a device makes."""
    if spec.category not in ("air_conditioner", "heater") or values.get("state") != "on":
        return 0.0
    mode = "heat" if spec.category == "heater" else values.get("ac_mode")
    gap = values.get("target_temperature", temperature) - temperature
    wanted = {"heat": gap > 0, "cool": gap < 0, "auto": True}.get(mode, False)
    return gap * POWER.get(values.get("fan_speed", values.get("power_level")), 0.7) if wanted else 0.0


def _moistening(spec: DeviceSpec, values: Mapping[str, Any], humidity: float) -> float:
    """The change of humidity that a device makes."""
    if values.get("state") != "on":
        return 0.0
    target = values.get("target_humidity", humidity)
    if spec.category == "humidifier":
        return 0.7 * max(target - humidity, 0)
    if spec.category == "dehumidifier":
        return 0.7 * min(target - humidity, 0)
    if spec.category == "air_conditioner":  # cold coils dry the air by the way, and in dry mode on purpose
        return {"dry": 0.6, "cool": 0.3}.get(values.get("ac_mode"), 0.0) * min(50 - humidity, 0)
    return 0.0


def _lamps(spec: DeviceSpec, values: Mapping[str, Any]) -> Iterable[float]:
    """The brightness of every lamp of a device that is on."""
    for prefix, _ in spec.parts():
        if values.get(prefix + "state") == "on" and prefix + "brightness" in values:
            yield values[prefix + "brightness"]


# Devices


@dataclass(frozen=True)
class Scene:
    """What decides how people left their devices: hour, darkness, and the room's air without devices."""

    hour: int
    dark: bool
    temperature: float
    humidity: float

    @property
    def asleep(self) -> bool:
        return self.hour < 6 or self.hour >= 23

    @property
    def mealtime(self) -> bool:
        return self.hour in (7, 8, 12, 13, 18, 19)


def share_on(kind: str, scene: Scene) -> float:
    """How likely a device (by category, or by the name of its part) is switched on."""
    match kind:
        case "light":
            return (0.15 if scene.asleep else 0.65) if scene.dark else 0.2
        case "air_conditioner":
            return 0.7 if scene.temperature > 26 else 0.5 if scene.temperature < 18 else 0.15
        case "heater":
            return 0.65 if scene.temperature < 18 else 0.05
        case "fan":
            return 0.6 if scene.temperature > 25 else 0.15
        case "humidifier":
            return 0.55 if scene.humidity < 40 else 0.15
        case "dehumidifier":
            return 0.55 if scene.humidity > 65 else 0.1
        case "tv":
            return 0.05 if scene.asleep else 0.6 if scene.hour >= 18 else 0.3
        case "oven" | "range_hood":
            return 0.45 if scene.mealtime else 0.08
        case "washer" | "dishwasher":
            return 0.1 if scene.asleep else 0.35
    return 0.5


def settings(spec: DeviceSpec, scene: Scene, rng: random.Random) -> Values:
    """A device as people may have left it: drawn evenly, then bent to habit."""
    values = {path: attribute.sample(rng) for path, (_, attribute) in spec.attribute_index.items()}
    for prefix, _ in spec.parts():
        if values.get(prefix + "state") in ("on", "off"):
            on = rng.random() < share_on(prefix[:-1] or spec.category, scene)
            values[prefix + "state"] = "on" if on else "off"
    for path, value in _habits(spec.category, values, scene, rng):
        _put(values, spec, path, value)
    return values


def _habits(category: str, values: Values, scene: Scene, rng: random.Random) -> Iterable[tuple[str, Any]]:
    """Attributes whose even draw would be odd, with what people would have there."""
    match category:
        case "air_conditioner":
            mode = rng.choice(_ac_modes(scene))
            low, high = {"cool": (22, 27), "heat": (19, 25)}.get(mode, (20, 26))
            yield "ac_mode", mode
            yield "target_temperature", rng.randint(low, high)
        case "heater":
            yield "target_temperature", rng.randint(18, 25)
        case "humidifier" | "dehumidifier":
            yield "target_humidity", rng.randrange(40, 65, 5)
        case "curtain":
            usual, closed = (0, 0.75) if scene.dark else (100, 0.6)
            yield "position", usual if rng.random() < closed else rng.randrange(0, 101, 5)
        case "lock":
            yield "state", "locked" if rng.random() < (0.95 if scene.asleep else 0.6) else "unlocked"
        case "vacuum":
            yield "state", rng.choices(("docked", "cleaning", "paused"), (8, 0 if scene.asleep else 3, 1))[0]
        case "speaker":
            yield "player.playing", rng.random() < (0.05 if scene.asleep else 0.4)
            yield "player.muted", rng.random() < 0.2
        case "tv":
            yield "muted", rng.random() < 0.15
        case "washer" | "dishwasher":
            yield "running", values.get("state") == "on" and rng.random() < 0.6
        case "oven":
            yield "timer", rng.randrange(0, 95, 5)
            yield "target_temperature", rng.randrange(120, 245, 5)
        case "air_purifier":
            yield "pm25", min(int(rng.lognormvariate(3, 0.8)), 300)
        case "motion_sensor":
            yield "motion", rng.random() < (0.1 if scene.asleep else 0.4)
    if "battery" in values:
        yield "battery", rng.randint(15, 100)


def _ac_modes(scene: Scene) -> tuple[str, ...]:
    """The modes in use at a temperature, the usual ones more than once."""
    if scene.temperature > 24:
        return ("cool",) * 6 + ("dry", "fan_only", "auto")
    if scene.temperature < 18:
        return ("heat",) * 6 + ("auto",)
    return ("cool", "heat", "dry", "fan_only", "auto")


def _put(values: Values, spec: DeviceSpec, path: str, value: Any) -> None:
    """Set an attribute if the product has it and can take the value; else leave the draw as it is."""
    if path in values:
        with suppress(Refused):
            values[path] = spec.attribute_index[path][1].check(value)


# Homes


def initial_state(
    rooms: Sequence[Room],
    devices: Sequence[Device],
    sky: Sky,
    rng: random.Random,
    given: Mapping[str, Values] | None = None,
) -> dict[str, Values]:
    """Every owner's values by path. `given` fixes some attributes of some devices."""
    state: dict[str, Values] = {
        OUTDOORS: {"temperature": sky.temperature, "humidity": sky.humidity, "brightness": sky.illuminance}
    }
    inside: dict[str, list[Device]] = {room.name: [] for room in rooms}
    for device in devices:
        inside[device.room].append(device)
    for room in rooms:
        drift = rng.gauss(0, 1)
        free = room_air(room.kind, sky, drift=drift)
        scene = Scene(sky.when.hour, sky.illuminance < DARK, free["temperature"], free["humidity"])
        running: list[Running] = []
        for device in inside[room.name]:
            values = settings(device.spec, scene, rng)
            if any(device.spec.category in group and _any_on(running, group) for group in WORK_ALIKE):
                _put(values, device.spec, "state", "off")
            values.update((given or {}).get(device.did, {}))
            running.append((device.spec, values))
            state[device.did] = values
        state[room.name] = room_air(room.kind, sky, running, drift)
        for spec, values in running:
            _report(spec, values, state[room.name])
    return state


def _any_on(running: Sequence[Running], group: frozenset[str]) -> bool:
    return any(spec.category in group and values.get("state") == "on" for spec, values in running)


def _report(spec: DeviceSpec, values: Values, air: Mapping[str, float]) -> None:
    """Let a sensor say what its room's state says."""
    if spec.category.endswith("_sensor"):
        for path, quantity in REPORTS.items():
            _put(values, spec, path, air[quantity])
