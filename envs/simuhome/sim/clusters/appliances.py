"""The cluster OperationalState of dishwasher, washer and dryer: a programme that counts down through its phases.

Invariants:
- `#passes` counts the passes in state Running since the counter was last reset (see `homerl.envs.simuhome.sim.ticks`).
- `#cycle` is the length of the programme in seconds. It is 0 if the programme was running when the home was loaded.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.clusters import laundry
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import command_result, register_command, register_passes
from homerl.envs.simuhome.sim.results import is_number, refuse_unless
from homerl.envs.simuhome.sim.spec import Cycle
from homerl.envs.simuhome.sim.ticks import count_seconds

STOPPED, RUNNING, PAUSED, ERROR = range(4)
LABELS = ("Stopped", "Running", "Paused", "Error")
NO_ERROR, UNABLE_TO_START, IN_STATE = 0, 1, 3


def _cycle(view: ClusterView) -> Cycle:
    cycle = view.device.type.cycle
    assert cycle is not None, "a device with OperationalState has a programme"
    return cycle


def programme_choice(view: ClusterView) -> Any:
    """The value of the attribute that decides the length of the programme: a mode or a level."""
    cluster, attribute = _cycle(view).by
    return view.sibling_view(cluster)[attribute]


def _enter_state(view: ClusterView, state: int) -> None:
    if view["OperationalState"] != state:
        view.set_enum("OperationalState", state)


def _reset_programme(view: ClusterView) -> None:
    """Put the programme at its start: first phase, full time."""
    if view["PhaseList"]:
        view["CurrentPhase"] = 0
    view["CountdownTime"] = view["#cycle"] = _cycle(view).duration_seconds(programme_choice(view))
    view["#passes"] = 0


def _end_programme(view: ClusterView) -> None:
    _enter_state(view, STOPPED)
    view["CountdownTime"], view["#passes"] = None, 0


def _command_response(view: ClusterView, error: int) -> dict[str, Any]:
    state = view["OperationalState"]
    label = LABELS[state] if state in range(4) else "Unknown"
    response = {"error_state_id": error}
    return {
        "cluster": view.cluster,
        "command_response_state": response,
        "operational_state": state,
        "operational_state_label": label,
    }


@register_command("OperationalState", "Start")
def start_operation(view: ClusterView) -> dict[str, Any]:
    """Start the programme of a stopped appliance. Raises `OperationError` if the appliance is off."""
    refuse_unless(view.is_on, "COMMAND_EXECUTION_ERROR", "the appliance is off")
    state = view["OperationalState"]
    if state == STOPPED:
        _enter_state(view, RUNNING)
    if state == STOPPED or view.is_strict:  # a fault of the released program: Start resets the programme in any state
        _reset_programme(view)
    answer = _command_response(view, {STOPPED: NO_ERROR, RUNNING: NO_ERROR, PAUSED: IN_STATE}.get(state, UNABLE_TO_START))
    return answer | _dryer_fields(view) if view.has_cluster("LaundryDryerControls") else answer


def _dryer_fields(view: ClusterView) -> dict[str, Any]:
    """The fields that a dryer adds to its answer. They say Running in every state, as in the released program."""
    level = programme_choice(view)
    info = {
        "initial_phase": (view["PhaseList"] or [None])[0],
        "dryness_level": laundry.DRYNESS[level] if level in range(4) else None,
        "estimated_duration_minutes": _cycle(view).duration_seconds(level) // 60,
    }
    return {"operational_state_label": "Running", "cycle_info": info}


@register_command("OperationalState", "Stop")
def stop_operation(view: ClusterView) -> dict[str, Any]:
    """End the programme in any state."""
    if view["OperationalState"] != STOPPED:
        _end_programme(view)
        view["CurrentPhase"] = None
    return _command_response(view, NO_ERROR)


@register_command("OperationalState", "Pause")
def pause_operation(view: ClusterView) -> dict[str, Any]:
    """Pause a running programme."""
    state = view["OperationalState"]
    if state == RUNNING:
        _enter_state(view, PAUSED)
    return _command_response(view, NO_ERROR if state in (RUNNING, PAUSED) else IN_STATE)


@register_command("OperationalState", "Resume")
def resume_operation(view: ClusterView) -> dict[str, Any]:
    """Continue a paused programme."""
    state = view["OperationalState"]
    if state == PAUSED:
        _enter_state(view, RUNNING)
        view["#passes"] = 0
    errors = {STOPPED: IN_STATE, RUNNING: NO_ERROR, PAUSED: NO_ERROR}
    return _command_response(view, errors.get(state, UNABLE_TO_START))


@register_command("OperationalState", "OperationalCommandResponse")
def accept_response(view: ClusterView, command_response_state: Any) -> dict[str, Any]:
    """Accept a command response and change nothing."""
    return command_result(view, "OperationalCommandResponse", command_response_state=command_response_state)


def appliance_power_changed(view: ClusterView, on: bool) -> None:
    """Change the programme after the appliance was switched on or off.

    Switched off, it forgets the programme. Switched on, it has its list of phases again.
    """
    if on:
        view["PhaseList"] = view.device.type.initial[f"{view.endpoint}.OperationalState.PhaseList"]
    else:
        _end_programme(view)
        view.set_enum("OperationalState", STOPPED)  # even if it was: a structure then shows its name
        view["PhaseList"] = view["CurrentPhase"] = None
        view["OperationalError"] = {"error_state_id": 0}
    laundry.laundry_power_changed(view, on)


@register_passes("OperationalState")
def advance_operation(view: ClusterView, n: int) -> None:
    """Count a running programme down for `n` passes. The programme ends at 0 seconds."""
    left = view["CountdownTime"]
    if view["OperationalState"] != RUNNING or not is_number(left):
        return None
    first = count_seconds(view["#passes"], min(n, 1), view.home.interval).seconds
    _, seconds, counter = count_seconds(view["#passes"], n, view.home.interval, left)
    if left - seconds <= 0:
        if view["PhaseList"]:
            view["CurrentPhase"] = len(view["PhaseList"]) - 1
        return _end_programme(view)
    view["#passes"] = counter
    view["CountdownTime"] = left - seconds if seconds else left
    _enter_phase(view, left - first, left - seconds)
    return None


def _enter_phase(view: ClusterView, before: float, left: float) -> None:
    """Enter the phase with `left` seconds to go. A loaded programme is as long as what its first pass left: `before`."""
    cycle, total = _cycle(view), view["#cycle"]
    # A fault of the released program: washers and dryers that were loaded while running stay in their phase.
    if not (cycle.whole_seconds and view.is_strict):
        total = view["#cycle"] = max(total, before)
    phase = view["CurrentPhase"]
    if total and is_number(phase):
        view["CurrentPhase"] = max(phase, cycle.phase_index(max(total - left, 0), total))
