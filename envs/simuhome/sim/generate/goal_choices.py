"""What people may want of each kind of device: asserts that can hold together, and the words for them.

The times of QT4 episodes: when goals are due, when programmes end, and clock times that contradict these.

Invariant: times are in ticks of 0.1 s or in whole minutes since the start of the episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome

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


PROGRAMMES = ("dishwasher", "laundry_washer", "laundry_dryer")
AT_ONCE = (  # kinds that have what is wanted as soon as they are told
    "on_off_light", "dimmable_light", "fan", "air_purifier", "humidifier", "dehumidifier", "air_conditioner", "heat_pump",
    "window_covering_controller", "freezer", "refrigerator",
)  # fmt: skip
WANTED_KINDS = (*AT_ONCE, *PROGRAMMES, "tv")


def draw_want(kind: str, rng: Random) -> Want:
    """What somebody may want of a device of one of the `WANTED_KINDS`."""
    match kind:
        case "on_off_light":
            return Want((POWER,), "on")
        case "dimmable_light":
            level = rng.randrange(10, 250, 10)
            dimmed = assert_entry("1.LevelControl.CurrentLevel", level, "level", f"level {level}")
            return Want((POWER, dimmed), f"on at level {level}")
        case "heat_pump":
            return Want((assert_entry("4.Thermostat.SystemMode", 4, "enum", "heating mode"),), "to heating mode")
        case "window_covering_controller":
            closed = rng.randrange(5, 100, 5)
            path = "1.WindowCovering.TargetPositionLiftPercent100ths"
            position = assert_entry(path, closed * 100, "position_percent100ths", f"{closed}% closed")
            return Want((position,), f"to {closed} percent closed")
        case "tv":
            return Want((POWER, assert_entry("1.MediaPlayback.CurrentState", 0, "enum", "playing")), "on and playing")
        case "freezer" | "refrigerator":
            degrees = rng.randint(-23, -16) if kind == "freezer" else rng.randint(1, 6)
            path = "1.TemperatureControl.TemperatureSetpoint"
            return Want((assert_entry(path, degrees * 100, "temperature", f"{degrees} degrees"),), f"to {degrees} degrees")
        case "dishwasher" | "laundry_washer" | "laundry_dryer":
            return Want((POWER, assert_entry("1.OperationalState.OperationalState", 1, "enum", "running")), "on and running")
    percent = rng.randrange(10, 101, 10)
    fan = assert_entry("1.FanControl.PercentSetting", percent, "percent", f"fan {percent}%")
    words = f"on with the fan at {percent} percent"
    if kind == "air_conditioner":
        return Want(
            (POWER, assert_entry("1.Thermostat.SystemMode", 3, "enum", "cooling mode"), fan), f"{words} in cooling mode"
        )
    return Want((POWER, fan), words)


def spoken_name(place: dict[str, Any]) -> str:
    """The device that a goal names as people call it, such as `dimmer light 1 in the living room`."""
    name = NAMES.get(place["device_type"], place["device_type"].replace("_", " "))
    return f"{name} {place['device_id'].rsplit('_', 1)[1]} in the {place['room_id'].replace('_', ' ')}"


MINUTE = 600  # ticks
TOLERANCE = 300  # ticks
RUNNING, PAUSED, STOPPED = 1, 2, 0
STATES = {RUNNING: "Running state", PAUSED: "Paused state", STOPPED: "Stopped state"}
SCENARIOS = {  # for each QT4-3 scenario: the state one minute before its time, and the state at its time
    "pause_at_anchor_end": (RUNNING, PAUSED),
    "align_end_with_anchor": (RUNNING, STOPPED),
    "delayed_start": (STOPPED, RUNNING),
}
REQUESTS = {
    "pause_at_anchor_end": "start the {target} in good time and pause it when the {anchor} finishes",
    "align_end_with_anchor": "let the {target} run so that it ends together with the {anchor}",
    "delayed_start": "start the {target} {delay} minutes after the {anchor} finishes",
}


def due_fields(reference: int, relation: str, minutes: int, tolerance: int = TOLERANCE) -> dict[str, Any]:
    """The `when` object of a goal: a number of minutes `before` or `after` the tick `reference`."""
    at = reference + (MINUTE * minutes if relation == "after" else -MINUTE * minutes)
    return {
        "reference_tick": reference,
        "reference_minutes": reference // MINUTE,
        "relation": relation,
        "offset_ticks": MINUTE * minutes,
        "offset_minutes": minutes,
        "at_tick": at,
        "at_minutes": at // MINUTE,
        "tolerance_ticks": tolerance,
    }


class NoAnchor(Exception):
    """The home has no programme that the request could refer to."""


def draw_appliance(rng: Random, home: MatterHome, state: int, other: MatterDevice | None = None) -> MatterDevice:
    """An appliance, not `other`, whose programme is in this state. Raises `NoAnchor` if there is none."""
    fitting = [
        device
        for device in home.plan.devices.values()
        if device.type.name in PROGRAMMES
        and home.cluster_view(device.id, "OperationalState")["OperationalState"] == state
        and device is not other
    ]
    if not fitting:
        raise NoAnchor
    return rng.choice(fitting)


def running_programme(rng: Random, home: MatterHome) -> tuple[MatterDevice, int]:
    """A device whose programme is running, and the tick at which the programme ends. Raises `NoAnchor` if there is none."""
    device = draw_appliance(rng, home, RUNNING)
    return device, 10 * home.cluster_view(device.id, "OperationalState")["CountdownTime"]


def _time_fields(name: str, base: datetime, minutes: int) -> dict[str, Any]:
    """A time as the fields `<name>_at` (minutes) and `<name>_time` (clock time)."""
    return {f"{name}_at": minutes, f"{name}_time": (base + timedelta(minutes=minutes)).strftime("%H:%M:%S")}


def end_fields(home: MatterHome, end: int) -> dict[str, Any]:
    """The end of the anchor's programme, at tick `end`, as fields of a conflict."""
    return _time_fields("anchor_end", home.plan.base_time, end // MINUTE)


def time_mismatch(rng: Random, base: datetime, expected: int, kind: str, least: int = 10, most: int = 20) -> dict[str, Any]:
    """A conflict of times: a clock time that is `least` to `most` minutes away from the `expected` one."""
    conflict = expected + rng.choice((-1, 1)) * rng.randint(least, most)
    times = _time_fields("expected", base, expected) | _time_fields("conflict", base, conflict)
    return {"type": kind, "base_time": base.strftime(TIME_FORMAT), **times}


def programme_conflict(rng: Random, home: MatterHome, scenario: str, end: int, delay: int) -> tuple[dict[str, Any], str]:
    """The conflict of an infeasible QT4-3 request, and the clause of the request that causes it."""
    base, minutes = home.plan.base_time, end // MINUTE
    known = {"base_time": base.strftime(TIME_FORMAT), **end_fields(home, end)}
    if scenario == "delayed_start":
        conflict = time_mismatch(rng, base, minutes + delay, "delay_time_mismatch", 5, 15) | known | {"delay_minutes": delay}
        return conflict, f", which is at {conflict['conflict_time'][:5]}"
    if scenario == "pause_at_anchor_end" and rng.random() < 0.5:
        words = ", and have it complete its whole programme at that very moment"
        return {"type": "completion_vs_pause", **known, "requested_action": "completion"}, words
    if scenario == "pause_at_anchor_end":
        late = _time_fields("conflict", base, minutes + rng.randint(10, 30))
        return {"type": "absolute_time_mismatch", **known, **late}, f", but start it only at {late['conflict_time'][:5]}"
    early = _time_fields("conflict", base, minutes - rng.randint(5, 20))
    return {"type": "impossible_early_end", **known, **early}, f", and both must be done by {early['conflict_time'][:5]}"
