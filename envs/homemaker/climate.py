"""Indoor climate and the first state of the devices, from weather, hour and what runs.

The physics is a steady state, stated in full here:
- a room without appliances sits between outdoors and `COMFORT`, by its kind's share, plus what the sun brings
  through its windows and a drift of its own;
- air keeps the outdoor vapour pressure plus what people, baths and pots add, so heated winter air is dry;
  walls and textiles hold it a share of the way back to a middle humidity;
- daylight is a share of the outdoor light, less where curtains are drawn; lamps add to it in proportion;
- what heats or cools brings a room a share of the way to its target, never past it; so for humidity.

Invariants: sensors say what their room's state says; the state is a pure function of its arguments and the
rng; at most one device a room heats or cools, and one moistens or dries, so none works against another; what runs
is switched on and could have been (no program in a machine that is off, no mist from an empty tank).
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
THERMAL = frozenset({"air_conditioner", "heater", "thermostat"})  # kinds of part that heat or cool
COVERS = frozenset({"curtain", "blind", "cover"})
# What a component does by its name, where that is not what its device's category says.
PARTS = {"light": "light", "heater": "heater", "ac": "air_conditioner", "floor_heating": "heater", "dryer": "dryer"}
# What a sensor says of its room: its attribute -> the room's quantity.
REPORTS = {
    "temperature": "temperature", "current_temperature": "temperature", "humidity": "humidity",
    "current_humidity": "humidity", "illuminance": "brightness",
}  # fmt: skip
# How often something is so that is seldom so, or nearly always, by the attribute's name.
SELDOM = {
    "muted": 0.15, "volume_muted_enabled": 0.15, "child_lock": 0.15, "do_not_disturb": 0.2, "hushed": 0.05, "holiday": 0.1,
    "smoke": 0.01, "leak": 0.01, "gas": 0.01, "ringing": 0.02, "pressed": 0.03, "tampered": 0.02, "rain_detected": 0.1,
    "obstructed": 0.07, "overloaded": 0.05, "door_open": 0.1, "window_open": 0.1, "tank_empty": 0.12, "tank_full": 0.12,
    "bin_full": 0.12, "lint_full": 0.12, "food_empty": 0.1, "vacation_lock": 0.15, "defend_enabled": 0.25, "privacy": 0.2,
    "quick_cool": 0.1, "quick_freeze": 0.1, "watering": 0.1, "online": 0.97, "on_base": 0.95,
}  # fmt: skip
RUNNING = ("running", "heating", "brewing", "recording")  # what a machine that is off does not do
# What must be so in a device that is on.
NEEDS = {"humidifier": ("tank_empty", False), "dehumidifier": ("tank_full", False), "thermostat": ("window_open", False),
         "kettle": ("on_base", True)}  # fmt: skip


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


@dataclass(frozen=True)
class Shape:
    """What of a specification matters here: (prefix, kind) of its parts, (path, share) of what is seldom so."""

    parts: tuple[tuple[str, str], ...]
    seldom: tuple[tuple[str, float], ...]


_SHAPES: dict[str, Shape] = {}


def shape_of(spec: DeviceSpec) -> Shape:
    """The shape of a specification, worked out once."""
    if spec.digest not in _SHAPES:
        held = tuple((prefix, PARTS.get(prefix[:-1], spec.category)) for prefix, part in spec.parts() if part.attributes)
        truths = (path for path, (_, attribute) in spec.attribute_index.items() if attribute.type == "bool")
        names = ((path, path.rpartition(".")[2]) for path in truths)
        _SHAPES[spec.digest] = Shape(held, tuple((path, SELDOM[name]) for path, name in names if name in SELDOM))
    return _SHAPES[spec.digest]


def parts(spec: DeviceSpec) -> tuple[tuple[str, str], ...]:
    """(prefix, kind) of every part of a device that holds attributes."""
    return shape_of(spec).parts


def _openness(running: Sequence[Running]) -> float:
    """How much light the curtains of a room let in."""
    covers = (pair for pair in running if pair[0].category in COVERS)
    positions = [_number(values, prefix + "position", 100) for spec, values in covers for prefix, _ in parts(spec)]
    return 0.05 + 0.95 * sum(positions) / len(positions) / 100 if positions else 1.0


def _heating(spec: DeviceSpec, values: Mapping[str, Any], temperature: float) -> float:
    """The change of temperature that a device makes."""
    thermal = (part for part in parts(spec) if part[1] in THERMAL)
    return sum(_part_heating(kind, values, prefix, temperature) for prefix, kind in thermal)


def _part_heating(kind: str, values: Mapping[str, Any], prefix: str, temperature: float) -> float:
    if values.get(prefix + "state") != "on":
        return 0.0
    gap = _number(values, prefix + "target_temperature", temperature) - temperature
    wanted = {"heat": gap > 0, "cool": gap < 0, "auto": True}.get(_thermal_mode(kind, values, prefix), False)
    power = values.get(prefix + "fan_speed", values.get(prefix + "power_level"))
    return gap * POWER.get(power, 0.7) if wanted else 0.0


def _thermal_mode(kind: str, values: Mapping[str, Any], prefix: str) -> str | None:
    """Whether a part may heat, cool or both."""
    if kind == "air_conditioner":
        return values.get(prefix + "ac_mode")
    return values.get(prefix + "mode", "heat") if kind == "thermostat" else "heat"


def _moistening(spec: DeviceSpec, values: Mapping[str, Any], humidity: float) -> float:
    """The change of humidity that a device makes."""
    for prefix, kind in parts(spec):
        if values.get(prefix + "state") == "on":
            gap = _number(values, prefix + "target_humidity", humidity) - humidity
            match kind:
                case "humidifier":
                    return 0.7 * max(gap, 0)
                case "dehumidifier":
                    return 0.7 * min(gap, 0)
                case "air_conditioner" if prefix + "target_humidity" in values:
                    return 0.7 * gap
                case "air_conditioner":  # cold coils dry the air by the way, and in dry mode on purpose
                    return {"dry": 0.6, "cool": 0.3}.get(values.get(prefix + "ac_mode"), 0.0) * min(50 - humidity, 0)
    return 0.0


def _lamps(spec: DeviceSpec, values: Mapping[str, Any]) -> Iterable[float]:
    """The brightness of every lamp of a device that is on; one that cannot be dimmed shines fully."""
    for prefix, kind in parts(spec):
        if values.get(prefix + "state") == "on" and (kind == "light" or prefix + "brightness" in values):
            yield _number(values, prefix + "brightness", 100)


def _number(values: Mapping[str, Any], path: str, otherwise: float) -> float:
    """A value, or `otherwise` if the product lacks it or says it in words."""
    value = values.get(path, otherwise)
    return value if isinstance(value, (int, float)) else otherwise


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
    """How likely a device (by category, or by the kind of its part) is switched on."""
    match kind:
        case "light" | "wall_switch":
            return (0.15 if scene.asleep else 0.65) if scene.dark else 0.2
        case "air_conditioner" | "ac_gateway":
            return 0.7 if scene.temperature > 26 else 0.5 if scene.temperature < 18 else 0.15
        case "thermostat":
            return 0.7 if scene.temperature < 18 else 0.3
        case "heater":
            return 0.65 if scene.temperature < 18 else 0.05
        case "fan" | "ceiling_fan":
            return 0.6 if scene.temperature > 25 else 0.15
        case "humidifier":
            return 0.55 if scene.humidity < 40 else 0.15
        case "dehumidifier":
            return 0.55 if scene.humidity > 65 else 0.1
        case "tv":
            return 0.05 if scene.asleep else 0.6 if scene.hour >= 18 else 0.3
        case "oven" | "range_hood" | "kettle" | "coffee_maker":
            return 0.45 if scene.mealtime else 0.08
        case "washer" | "dishwasher" | "dryer":
            return 0.1 if scene.asleep else 0.35
        case "vacuum":
            return 0.05
    return 0.5


def settings(spec: DeviceSpec, scene: Scene, rng: random.Random) -> Values:
    """A device as people may have left it: drawn evenly, then bent to habit, then to what can be."""
    values = {path: attribute.sample(rng) for path, (_, attribute) in spec.attribute_index.items()}
    for path, share in shape_of(spec).seldom:
        values[path] = rng.random() < share
    for prefix, kind in parts(spec):
        if values.get(prefix + "state") in ("on", "off"):
            values[prefix + "state"] = "on" if rng.random() < share_on(kind, scene) else "off"
        for name, value in _habits(kind, scene, rng):
            _put(values, spec, prefix + name, value)
        for name, value in _measured(prefix, values, rng):
            _put(values, spec, prefix + name, value)
        for name, value in _entailed(kind, {name: values.get(prefix + name) for name in ENTAILING}):
            _put(values, spec, prefix + name, value)
    return values


def _habits(kind: str, scene: Scene, rng: random.Random) -> Iterable[tuple[str, Any]]:
    """Attributes whose even draw would be odd, with what people would have there."""
    match kind:
        case "air_conditioner":
            mode = rng.choice(_ac_modes(scene))
            low, high = {"cool": (22, 27), "heat": (19, 25)}.get(mode, (20, 26))
            yield "ac_mode", mode
            yield "target_temperature", rng.randint(low, high)
            yield "target_humidity", rng.randrange(40, 65, 5)
        case "heater" | "thermostat":
            yield "target_temperature", rng.randint(18, 25)
            yield "mode", "cool" if scene.temperature > 24 else "heat"
        case "humidifier" | "dehumidifier":
            yield "target_humidity", rng.randrange(40, 65, 5)
        case "curtain":
            usual, closed = (0, 0.75) if scene.dark else (100, 0.6)
            yield "position", usual if rng.random() < closed else rng.randrange(0, 101, 5)
        case "opener" | "garage_door":
            yield "position", 0 if rng.random() < 0.75 else rng.randrange(10, 101, 10)
        case "clothes_rack":
            yield "height", 0 if rng.random() < 0.7 else 100
        case "lock":
            yield "state", "locked" if rng.random() < (0.95 if scene.asleep else 0.6) else "unlocked"
        case "vacuum":
            yield from (("state", "docked"), ("state", "charging"))  # brands have one word or the other
            if rng.random() < (0.1 if scene.asleep else 0.35):
                yield "state", rng.choice(("paused",) if scene.asleep else ("cleaning", "cleaning", "cleaning", "paused"))
        case "speaker" | "smart_screen":
            playing = rng.random() < (0.05 if scene.asleep else 0.4)
            yield "playing", playing
            yield "work_state", "playing" if playing else rng.choice(("paused", "stopped"))
        case "washer" | "dishwasher" | "dryer":
            yield "running", rng.random() < 0.6
        case "oven":
            yield "timer", rng.randrange(0, 95, 5)
            yield "target_temperature", rng.randrange(120, 245, 5)
        case "motion_sensor":
            there = rng.random() < (0.1 if scene.asleep else 0.4)
            yield "motion", there
            yield "human_detected", "yes" if there else "no"
            yield "no_move_duration", 0 if there else min(int(rng.lognormvariate(7, 1.2)), 86400)
        case "contact_sensor":
            yield "contact", "open" if rng.random() < (0.05 if scene.asleep else 0.2) else "closed"
        case "alarm_panel":
            yield "state", "armed" if rng.random() < (0.7 if scene.asleep else 0.25) else "disarmed"
            yield "open_zones", 0 if rng.random() < 0.7 else rng.randint(1, 3)
        case "irrigation":
            yield "rain_delay", 0 if rng.random() < 0.7 else rng.choice((12, 24, 48))
        case "pet_feeder":
            yield "fed_today", rng.randint(0, 6)


def _measured(prefix: str, values: Values, rng: random.Random) -> Iterable[tuple[str, Any]]:
    """Readings of a part as they are in most homes, and the names that nobody has given yet."""
    if prefix + "battery" in values or prefix + "battery_level" in values:
        charge = rng.randint(15, 100) if rng.random() < 0.95 else rng.randint(1, 14)
        yield from (("battery", charge), ("battery_level", charge))
    if prefix + "pm25" in values:
        yield "pm25", min(int(rng.lognormvariate(3, 0.8)), 300)
    if prefix + "carbon_dioxide" in values:
        yield "carbon_dioxide", min(420 + int(rng.lognormvariate(5.5, 0.8)), 5000)
    yield from (("carbon_monoxide", 0), ("alias", ""))


ENTAILING = ("state", "defend_enabled", "position", "door_open", "privacy", "rain_detected", "open_zones", "rain_delay")


def _entailed(kind: str, now: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """What follows from the state of a part, so that no part does what it could not have begun."""
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
        busy: set[str] = set()
        for device in inside[room.name]:
            values = settings(device.spec, scene, rng)
            _give_way(device.spec, values, busy)
            values.update((given or {}).get(device.did, {}))
            running.append((device.spec, values))
            state[device.did] = values
        state[room.name] = room_air(room.kind, sky, running, drift)
        for spec, values in running:
            _report(spec, values, state[room.name])
    return state


def _give_way(spec: DeviceSpec, values: Values, busy: set[str]) -> None:
    """Switch off what would work against something that is on already; `busy` holds what is being worked on."""
    for prefix, kind in parts(spec):
        aims = {"temperature"} if kind in THERMAL else set()
        aims |= {"humidity"} if prefix + "target_humidity" in values else set()
        if aims and values.get(prefix + "state") == "on":
            if aims & busy:
                _put(values, spec, prefix + "state", "off")
            else:
                busy |= aims


def _report(spec: DeviceSpec, values: Values, air: Mapping[str, float]) -> None:
    """Let a sensor say what its room's state says."""
    if spec.category.endswith("_sensor") or spec.category == "thermostat":
        for path, quantity in REPORTS.items():
            _put(values, spec, path, air[quantity])
