"""The times of QT4 episodes: when goals are due, when programmes end, and clock times that contradict these.

Invariant: times are in ticks of 0.1 s or in whole minutes since the start of the episode.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from homerl.envs.simuhome.sim.config import TIME_FORMAT
from homerl.envs.simuhome.sim.generate.wants import PROGRAMMES
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome

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


def _programmes(home: MatterHome, state: int) -> list[MatterDevice]:
    devices = [device for device in home.plan.devices.values() if device.type.name in PROGRAMMES]
    return [device for device in devices if home.cluster_view(device.id, "OperationalState")["OperationalState"] == state]


def running_programme(rng: Random, home: MatterHome) -> tuple[MatterDevice, int]:
    """A device whose programme is running, and the tick at which the programme ends. Raises `NoAnchor` if there is none."""
    running = _programmes(home, RUNNING)
    if not running:
        raise NoAnchor
    device = rng.choice(running)
    return device, 10 * home.cluster_view(device.id, "OperationalState")["CountdownTime"]


def idle_programme(rng: Random, home: MatterHome, other: MatterDevice) -> MatterDevice:
    """An appliance other than `other` whose programme is stopped. Raises `NoAnchor` if there is none."""
    stopped = [device for device in _programmes(home, STOPPED) if device.id != other.id]
    if not stopped:
        raise NoAnchor
    return rng.choice(stopped)


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
