"""The first state of a home, from weather, hour and habit: its air (the steady state of `physics.py`, with a drift
of each room's own) and its devices.

Invariants: sensors say what their room's state says; the state is a pure function of its arguments and the
rng; at most one device a room heats or cools, and one moistens or dries, so none works against another.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.home import OUTDOORS, ROOM_STATE, Device, Room
from envs.homeenv.physics import PLAIN_SHELL, REPORTS, SHELLS, Outdoors, Running, inputs, steady
from envs.homeenv.spec import DeviceSpec
from envs.homemaker.weather import Sky

Values = dict[str, Any]

DARK = 1000.0  # lux outdoors, below which people light lamps and draw curtains

WORK_ALIKE = (frozenset({"air_conditioner", "heater"}), frozenset({"humidifier", "dehumidifier"}))


# Rooms


def room_air(kind: str, sky: Sky, running: Sequence[Running] = (), drift: float = 0.0) -> dict[str, float]:
    """The state of a room: temperature, humidity and brightness, given the devices in it."""
    air = steady(SHELLS.get(kind, PLAIN_SHELL), outdoors(sky), inputs(running), drift)
    return {quantity: round(value, 1) for quantity, value in zip(ROOM_STATE, air)}


def outdoors(sky: Sky) -> Outdoors:
    """What of the sky the air of rooms depends on."""
    return Outdoors(sky.temperature, sky.humidity, sky.illuminance)


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
            _put(values, spec, path, list(air.values())[quantity])
