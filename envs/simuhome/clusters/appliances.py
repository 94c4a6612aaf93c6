"""OperationalState of dishwasher, washer and dryer: a programme that counts down through its phases.

Invariants: `#passes` counts device passes in state Running since the last reset (see `ticks`); `#cycle` is the
programme's length, 0 for one that was running when the home was loaded.
"""

from __future__ import annotations

from typing import Any

from envs.simuhome.clusters import laundry
from envs.simuhome.home import View
from envs.simuhome.registry import command, done, passes
from envs.simuhome.results import is_number, need
from envs.simuhome.spec import Cycle
from envs.simuhome.ticks import counted, folded

STOPPED, RUNNING, PAUSED, ERROR = range(4)
LABELS = ("Stopped", "Running", "Paused", "Error")
NO_ERROR, UNABLE_TO_START, IN_STATE = 0, 1, 3


def _cycle(view: View) -> Cycle:
    cycle = view.device.type.cycle
    assert cycle is not None, "a device with OperationalState has a programme"
    return cycle


def choose(view: View) -> Any:
    """The mode or level that decides how long the programme takes."""
    cluster, attribute = _cycle(view).by
    return view.beside(cluster)[attribute]


def _enter(view: View, state: int) -> None:
    if view["OperationalState"] != state:
        view.enumerate("OperationalState", state)


def _set_up(view: View) -> None:
    """Set a programme to its start."""
    if view["PhaseList"]:
        view["CurrentPhase"] = 0
    view["CountdownTime"] = view["#cycle"] = _cycle(view).duration(choose(view))
    view["#passes"] = 0


def _end(view: View) -> None:
    _enter(view, STOPPED)
    view["CountdownTime"], view["#passes"] = None, 0


def _answer(view: View, error: int) -> dict[str, Any]:
    state = view["OperationalState"]
    label = LABELS[state] if state in range(4) else "Unknown"
    response = {"error_state_id": error}
    return {
        "cluster": view.cluster,
        "command_response_state": response,
        "operational_state": state,
        "operational_state_label": label,
    }


@command("OperationalState", "Start")
def start(view: View) -> dict[str, Any]:
    """Start the programme of a stopped appliance; `Failure` if the appliance is off."""
    need(view.powered, "COMMAND_EXECUTION_ERROR", "the appliance is off")
    state = view["OperationalState"]
    if state == STOPPED:
        _enter(view, RUNNING)
    if state == STOPPED or view.strict:  # its own slip: any other Start sets the programme back as well
        _set_up(view)
    answer = _answer(view, {STOPPED: NO_ERROR, RUNNING: NO_ERROR, PAUSED: IN_STATE}.get(state, UNABLE_TO_START))
    return answer | _drying(view) if view.has("LaundryDryerControls") else answer


def _drying(view: View) -> dict[str, Any]:
    """What a dryer adds to the answer, the label being wrong unless it runs."""
    level = choose(view)
    info = {
        "initial_phase": (view["PhaseList"] or ["Heating"])[0],
        "dryness_level": laundry.DRYNESS[level] if level in range(4) else None,
        "estimated_duration_minutes": _cycle(view).duration(level) // 60,
    }
    return {"operational_state_label": "Running", "cycle_info": info}


@command("OperationalState", "Stop")
def stop(view: View) -> dict[str, Any]:
    """End the programme, whatever its state."""
    if view["OperationalState"] != STOPPED:
        _end(view)
        view["CurrentPhase"] = None
    return _answer(view, NO_ERROR)


@command("OperationalState", "Pause")
def pause(view: View) -> dict[str, Any]:
    """Pause a programme that runs."""
    state = view["OperationalState"]
    if state == RUNNING:
        _enter(view, PAUSED)
    return _answer(view, NO_ERROR if state in (RUNNING, PAUSED) else IN_STATE)


@command("OperationalState", "Resume")
def resume(view: View) -> dict[str, Any]:
    """Go on with a programme that was paused."""
    state = view["OperationalState"]
    if state == PAUSED:
        _enter(view, RUNNING)
        view["#passes"] = 0
    errors = {STOPPED: IN_STATE, RUNNING: NO_ERROR, PAUSED: NO_ERROR}
    return _answer(view, errors.get(state, UNABLE_TO_START))


@command("OperationalState", "OperationalCommandResponse")
def respond(view: View, command_response_state: Any) -> dict[str, Any]:
    """Accept a response and change nothing."""
    return done(view, "OperationalCommandResponse", command_response_state=command_response_state)


def powered(view: View, on: bool) -> None:
    """An appliance that is switched off forgets its programme; switched on, it knows its phases again."""
    if on:
        view["PhaseList"] = view.device.type.initial[f"{view.endpoint}.OperationalState.PhaseList"]
    else:
        _end(view)
        view["PhaseList"] = view["CurrentPhase"] = None
        view["OperationalError"] = {"error_state_id": 0}
    laundry.powered(view, on)


@passes("OperationalState")
def pass_on(view: View, n: int) -> None:
    """Count the programme down for n passes; it ends at 0."""
    left = view["CountdownTime"]
    if view["OperationalState"] != RUNNING or not is_number(left):
        return None
    seconds = counted(view["#passes"], n, view.home.interval)
    if left - seconds <= 0:
        if view["PhaseList"]:
            view["CurrentPhase"] = len(view["PhaseList"]) - 1
        return _end(view)
    view["#passes"] = folded(view["#passes"] + n, view.home.interval)
    view["CountdownTime"] = left - seconds if seconds else left
    _enter_phase(view, left, left - seconds)
    return None


def _enter_phase(view: View, before: float, left: float) -> None:
    cycle, total = _cycle(view), view["#cycle"]
    if not (cycle.whole_seconds and view.strict):  # its own slip: loaded washers and dryers keep their phase
        total = view["#cycle"] = max(total, before)
    phase = view["CurrentPhase"]
    if total and is_number(phase):
        view["CurrentPhase"] = max(phase, cycle.phase(max(total - left, 0), total))
