"""The cluster WindowCovering: blinds. Positions are in 0.01 %, from 0 (open) to 10000 (closed).

`#motion` is (start position, target position, passes in all, passes so far), or None if the blind stands still.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import register_command, register_passes, register_write, store_attribute
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.operation_results import is_integer, refuse_unless

OPEN, CLOSED = 0, 10000
CURRENT_POSITION, TARGET_POSITION = "CurrentPositionLiftPercent100ths", "TargetPositionLiftPercent100ths"
FULL_TRAVEL_TENTHS = 30  # the time from open to closed, in tenths of a second
NOTE = "The blind is at that position"


def _position_fields(name: str, position: float) -> dict[str, float]:
    return {f"{name}_position": position, f"{name}_percentage": position / 100}


def _start_motion(view: ClusterView, target: Any) -> dict[str, Any]:
    refuse_unless(is_integer(target), "VALIDATION_ERROR", "a position is an integer")
    refuse_unless(view["SafetyStatus"] == 0, "COMMAND_EXECUTION_ERROR", "the blind's safety status forbids motion")
    refuse_unless(OPEN <= target <= CLOSED, "VALIDATION_ERROR", "a position is in 0..10000")
    here = view[CURRENT_POSITION]
    if target == here:
        return {"status": "Already at target position", **_position_fields("current", here), "message": NOTE}
    interrupted = view["#motion"] is not None
    tenths = max(1, int(FULL_TRAVEL_TENTHS * abs(target - here) / CLOSED))
    # A fault of the released program: the blind arrives in one pass, whatever the estimated duration is.
    view["#motion"] = (here, target, 1 if view.is_strict else tenths, 0)
    view[TARGET_POSITION] = target
    view["NumberOfActuationsLift"] += 1
    view["OperationalStatus"] = 1 if target < here else 2  # opening, closing; 0 stands still
    return {
        "status": "Movement started",
        "direction": "opening" if target < here else "closing",
        "direction_detail": "up/open" if target < here else "down/close",
        **_position_fields("start", here),
        **_position_fields("target", target),
        "estimated_duration_sec": tenths / 10,
        "travel_distance_percent": abs(target - here) / 100,
        "interrupted_existing_motion": interrupted,
        "actuation_count": view["NumberOfActuationsLift"],
    }


@register_command("WindowCovering", "GoToLiftPercentage")
def go_to_lift_percentage(view: ClusterView, lift_percent_100ths: Any) -> dict[str, Any]:
    """Move to a position in 0.01 %."""
    return _start_motion(view, lift_percent_100ths)


@register_command("WindowCovering", "UpOrOpen", "DownOrClose")
def travel_fully(view: ClusterView, name: str) -> dict[str, Any]:
    """Open (UpOrOpen) or close (DownOrClose) the blind fully."""
    refuse_unless(view["SafetyStatus"] == 0, "COMMAND_EXECUTION_ERROR", "the blind's safety status forbids motion")
    end, word = (OPEN, "open") if name == "UpOrOpen" else (CLOSED, "closed")
    here = view[CURRENT_POSITION]
    if here == end:
        return {"status": f"Already fully {word}", **_position_fields("current", end), "message": NOTE}
    before = {"command": name, "command_description": f"Move until fully {word}"}
    return _start_motion(view, end) | before | _position_fields("previous", here)


@register_command("WindowCovering", "StopMotion")
def stop_motion(view: ClusterView) -> dict[str, Any]:
    """Stop the blind where it is."""
    here, status, motion = view[CURRENT_POSITION], view["OperationalStatus"], view["#motion"]
    if motion is None:
        at = _position_fields("current", here)
        return {"status": "No motion to stop", **at, "operational_status": status, "message": NOTE}
    start, target = motion[:2]
    view[TARGET_POSITION], view["OperationalStatus"], view["#motion"] = here, 0, None
    return {
        "status": "Motion stopped",
        "stopped_at": here,
        "stopped_percentage": here / 100,
        "was_moving_from": start,
        "was_moving_from_percentage": start / 100,
        "was_moving_to": target,
        "was_moving_to_percentage": target / 100,
        "motion_completion_percent": round(100 * abs(here - start) / abs(target - start), 1),
        "operational_status": "stopped",
        "message": "The blind stopped",
    }


@register_write("WindowCovering", TARGET_POSITION)
def write_target(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the target position, which starts a motion."""
    return _start_motion(view, value)


@register_write("WindowCovering", CURRENT_POSITION)
def write_current(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the present position without a motion."""
    known = view.is_strict or (is_integer(value) and OPEN <= value <= CLOSED)
    refuse_unless(known, "VALIDATION_ERROR", "a position is in 0..10000")
    return store_attribute(view, CURRENT_POSITION, value)


@register_passes("WindowCovering")
def advance_covering(view: ClusterView, n: int) -> None:
    """Advance a motion by `n` passes."""
    if view["#motion"] is None:
        return
    start, target, ticks, gone = view["#motion"]
    gone += n
    if gone >= ticks:
        view[CURRENT_POSITION] = view[TARGET_POSITION] = target
        view["OperationalStatus"], view["#motion"] = 0, None
    else:
        view[CURRENT_POSITION] = round(start + gone * (target - start) / ticks)
        view["#motion"] = (start, target, ticks, gone)
