"""The three clusters of a robot vacuum (RVC): it cleans or maps, seeks its charger and docks.

Invariants:
- Each phase has a name, a length in seconds and an operational state (`PHASES`).
- `#passes` counts the passes since the phase began, without those in a pause. So a pause does not lose the fraction of
  a second.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import count_seconds, register_command, register_passes
from homerl.envs.simuhome.sim.clusters.appliances import require_mode
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.operation_results import is_integer, is_number, refuse_unless

IDLE, VACUUM = 1, 2  # run modes; the third is mapping
# Matter's OperationalStateEnum; those from 64 on are the vacuum's own.
STOPPED, RUNNING, PAUSED, ERROR, SEEKING, CHARGING, DOCKED = 0, 1, 2, 3, 64, 65, 66
PHASES = {"Cleaning": (1800, RUNNING), "Mapping": (1800, RUNNING), "SeekingCharger": (10, SEEKING), "Docked": (5, DOCKED)}
UNABLE = 3  # Matter's CommandInvalidInState


def _run_mode(view: ClusterView) -> ClusterView:
    return view.sibling_view("RVCRunMode")


def _set_error(view: ClusterView, error: int) -> None:
    view["OperationalError"] = {"error_state_id": error}


def _enter_phase(view: ClusterView, index: int) -> None:
    seconds, state = PHASES.get(view["PhaseList"][index], (0, RUNNING))
    view["CurrentPhase"], view["CountdownTime"], view["#passes"], view["OperationalState"] = index, seconds, 0, state


def _seek_charger(view: ClusterView) -> None:
    phases = list(view["PhaseList"] or ())
    view["PhaseList"] = phases + [name for name in ("SeekingCharger", "Docked") if name not in phases]
    _set_error(view, 0)
    _enter_phase(view, view["PhaseList"].index("SeekingCharger"))
    _run_mode(view)["CurrentMode"] = IDLE


def _stop_vacuum(view: ClusterView) -> None:
    view["OperationalState"], view["CurrentPhase"], view["CountdownTime"], view["#passes"] = STOPPED, None, None, 0
    _set_error(view, 0)


@register_command("RVCRunMode", "ChangeToMode")
def change_run_mode(view: ClusterView, new_mode: Any) -> dict[str, Any]:
    """Start to clean or map from idle, or go back to idle."""
    refuse_unless(is_integer(new_mode), "INVALID_ARGUMENT", "new_mode is an integer")
    require_mode(view, "Mode", new_mode)
    old, robot = view["CurrentMode"], view.sibling_view("RVCOperationalState")
    data, state = {"old_mode": old, "new_mode": new_mode}, robot["OperationalState"]
    if new_mode == old:
        return data
    refuse_unless(IDLE in (old, new_mode), "INVALID_IN_MODE", "the robot must be idle first")
    refuse_unless(state not in (PAUSED, SEEKING, ERROR), "INVALID_IN_MODE", f"not in state {state}")
    refuse_unless(state != RUNNING or new_mode == IDLE, "INVALID_IN_MODE", "the robot is running")
    view["CurrentMode"] = new_mode
    if new_mode != IDLE:
        _set_error(robot, 0)
        robot["PhaseList"] = ["Cleaning" if new_mode == VACUUM else "Mapping", "SeekingCharger", "Docked"]
        _enter_phase(robot, 0)
    elif state == RUNNING:
        _seek_charger(robot)
    else:
        _stop_vacuum(robot)
    return data


@register_command("RVCCleanMode", "ChangeToMode")
def change_clean_mode(view: ClusterView, mode: Any) -> dict[str, Any]:
    """Choose how to clean. Refused unless the robot is idle."""
    refuse_unless(is_integer(mode), "INVALID_ARGUMENT", "mode is an integer")
    require_mode(view, "Mode", mode)
    refuse_unless(_run_mode(view)["CurrentMode"] == IDLE, "INVALID_IN_MODE", "the robot must be idle first")
    old, view["CurrentMode"] = view["CurrentMode"], mode
    return {"old_mode": old, "new_mode": mode}


def _command_response(view: ClusterView, error: int) -> dict[str, Any]:
    _set_error(view, error)
    return {"command_response_state": {"error_state_id": error}, "operational_state": view["OperationalState"]}


@register_command("RVCOperationalState", "Pause")
def pause_vacuum(view: ClusterView) -> dict[str, Any]:
    """Pause the present phase."""
    state = view["OperationalState"]
    if state in (RUNNING, SEEKING):
        view["#paused_from"], view["OperationalState"] = state, PAUSED
    return _command_response(view, 0 if state in (PAUSED, RUNNING, SEEKING) else UNABLE)


@register_command("RVCOperationalState", "Resume")
def resume_vacuum(view: ClusterView) -> dict[str, Any]:
    """Continue a paused phase. A docked or charging robot runs again if its run mode is not idle."""
    state = view["OperationalState"]
    if state == PAUSED:
        view["OperationalState"], view["#paused_from"] = view["#paused_from"] or RUNNING, None
    elif state in (CHARGING, DOCKED) and _run_mode(view)["CurrentMode"] != IDLE:
        view["OperationalState"] = RUNNING
    elif state != RUNNING:
        return _command_response(view, UNABLE)
    return _command_response(view, 0)


@register_command("RVCOperationalState", "GoHome")
def send_home(view: ClusterView) -> dict[str, Any]:
    """Send the robot to its charger."""
    state = view["OperationalState"]
    if state == SEEKING:
        return _command_response(view, 0)
    busy = state == STOPPED and _run_mode(view)["CurrentMode"] != IDLE
    if state not in (STOPPED, RUNNING, PAUSED) or busy:
        return _command_response(view, UNABLE)
    _seek_charger(view)
    return _command_response(view, 0)


@register_passes("RVCOperationalState")
def advance_vacuum(view: ClusterView, n: int) -> None:
    """Advance the robot by `n` passes, through as many phases as end within them."""
    while n > 0 and view["OperationalState"] in (RUNNING, SEEKING, DOCKED) and is_number(view["CountdownTime"]):
        left = view["CountdownTime"]
        used, seconds, counter = count_seconds(view["#passes"], n, view.home.interval, left)
        if seconds < left:
            if seconds:
                view["CountdownTime"] = left - seconds
            view["#passes"] = counter
            return
        n -= max(1, used)
        phases, index = view["PhaseList"] or [], view["CurrentPhase"]
        if is_number(index) and index + 1 < len(phases):
            _enter_phase(view, int(index) + 1)
            if phases[int(index) + 1] != "Docked":
                continue
        else:
            _stop_vacuum(view)
        _run_mode(view)["CurrentMode"] = IDLE
