"""What people may want of each kind of device: asserts that can hold together, and the words for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

NAMES = {
    "on_off_light": "light",
    "dimmable_light": "dimmer light",
    "window_covering_controller": "blinds",
    "laundry_washer": "washer",
    "laundry_dryer": "dryer",
    "rvc": "robot vacuum",
    "tv": "TV",
}


@dataclass(frozen=True)
class Want:
    """Asserts about one device, and the words that ask for them."""

    asserts: tuple[dict[str, Any], ...]
    words: str


def assert_entry(attribute: str, value: Any, kind: str, description: str) -> dict[str, Any]:
    """An assert in the released file format."""
    return {"attribute": attribute, "value": value, "value_type": kind, "description": description}


POWER = assert_entry("1.OnOff.OnOff", True, "bool", "power on")


def _fan(rng: Random) -> Want:
    percent = rng.randrange(10, 101, 10)
    fan = assert_entry("1.FanControl.PercentSetting", percent, "percent", f"fan {percent}%")
    return Want((POWER, fan), f"on with the fan at {percent} percent")


def _air_conditioner(rng: Random) -> Want:
    fan = _fan(rng)
    mode = assert_entry("1.Thermostat.SystemMode", 3, "enum", "cooling mode")
    return Want((POWER, mode, fan.asserts[1]), f"{fan.words} in cooling mode")


def _dimmer(rng: Random) -> Want:
    level = rng.randrange(10, 250, 10)
    return Want(
        (POWER, assert_entry("1.LevelControl.CurrentLevel", level, "level", f"level {level}")), f"on at level {level}"
    )


def _blinds(rng: Random) -> Want:
    closed = rng.randrange(5, 100, 5)
    path = "1.WindowCovering.TargetPositionLiftPercent100ths"
    return Want(
        (assert_entry(path, closed * 100, "position_percent100ths", f"{closed}% closed"),), f"to {closed} percent closed"
    )


def _cabinet(low: int, high: int) -> Callable[[Random], Want]:
    def want(rng: Random) -> Want:
        degrees = rng.randint(low, high)
        path = "1.TemperatureControl.TemperatureSetpoint"
        return Want((assert_entry(path, degrees * 100, "temperature", f"{degrees} degrees"),), f"to {degrees} degrees")

    return want


def _run(rng: Random) -> Want:
    return Want((POWER, assert_entry("1.OperationalState.OperationalState", 1, "enum", "running")), "on and running")


WANTS: dict[str, Callable[[Random], Want]] = {
    "on_off_light": lambda rng: Want((POWER,), "on"),
    "dimmable_light": _dimmer,
    "fan": _fan,
    "air_purifier": _fan,
    "humidifier": _fan,
    "dehumidifier": _fan,
    "air_conditioner": _air_conditioner,
    "heat_pump": lambda rng: Want((assert_entry("4.Thermostat.SystemMode", 4, "enum", "heating mode"),), "to heating mode"),
    "window_covering_controller": _blinds,
    "tv": lambda rng: Want((POWER, assert_entry("1.MediaPlayback.CurrentState", 0, "enum", "playing")), "on and playing"),
    "freezer": _cabinet(-23, -16),
    "refrigerator": _cabinet(1, 6),
    "dishwasher": _run,
    "laundry_washer": _run,
    "laundry_dryer": _run,
}
AT_ONCE = tuple(kind for kind in WANTS if kind not in ("dishwasher", "laundry_washer", "laundry_dryer", "tv"))
PROGRAMMES = ("dishwasher", "laundry_washer", "laundry_dryer")


def spoken_name(device_id: str, room: str, kind: str) -> str:
    """A device as people call it, such as `dimmer light 1 in the living room`."""
    return f"{NAMES.get(kind, kind.replace('_', ' '))} {device_id.rsplit('_', 1)[1]} in the {room.replace('_', ' ')}"
