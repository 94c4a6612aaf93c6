"""Appliances: programmes that count down, and a robot vacuum.

- LaundryWasherControls and LaundryDryerControls: spin speed, rinses and dryness.
- The mode clusters: programmes of dishwashers and washers, cooling modes of refrigerators and freezers.
- OperationalState of dishwasher, washer and dryer: a programme that counts down through its phases.
- DishwasherAlarm: bit masks of alarms.
- RVCRunMode, RVCCleanMode and RVCOperationalState: a robot vacuum (RVC) cleans or maps, seeks its charger and docks.

Invariants:
- `#passes` counts the passes in state Running since the counter was last reset (see `cluster_registry.py`). That of a vacuum
  counts those of its phase, without those in a pause. So a pause does not lose the fraction of a second.
- `#cycle` is the length of the programme in seconds. It is 0 if the programme was running when the home was loaded.
- Each phase of a vacuum has a name, a length in seconds and an operational state (`PHASES`).
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import (
    command_result,
    count_seconds,
    register_command,
    register_passes,
    register_write,
    store_attribute,
)
from homerl.envs.simuhome.sim.device_catalogue import Cycle
from homerl.envs.simuhome.sim.home import ClusterView, OperationError, is_integer, is_number, refuse_unless

DRYNESS = ("Low", "Normal", "Extra", "Max")
CONTROLS = ("SpinSpeedCurrent", "NumberOfRinses", "SpinSpeeds", "SupportedRinses")
# What a mode offers that has no row in the catalogue.
EVERY = {"SpinSpeeds": [0, 1, 2, 3], "SupportedRinses": [0, 1, 2, 3]}


def _apply_mode_row(view: ClusterView) -> None:
    """Set the spin speeds and rinses that the washer's present mode offers.

    If the present choice is not among them, the first of them is chosen.
    """
    mode = view.sibling_view("LaundryWasherMode")
    labels = {entry["mode"]: entry.get("label") for entry in mode["SupportedModes"]}
    current = mode["CurrentMode"]
    label: Any = labels.get(current) if isinstance(current, (int, float)) else None
    row = view.device.type.rows.get(label, EVERY)
    for attribute, values in row.items():
        view.set_enum(attribute, values)
    if view["SpinSpeedCurrent"] is not None and view["SpinSpeedCurrent"] not in row["SpinSpeeds"]:
        view["SpinSpeedCurrent"] = view["SpinSpeeds"][0]
    if view["NumberOfRinses"] not in row["SupportedRinses"]:
        view["NumberOfRinses"] = view["SupportedRinses"][0]


def _require_not_running(view: ClusterView) -> None:
    running = view.sibling_view("OperationalState")["OperationalState"] == RUNNING
    refuse_unless(not running, "INVALID_STATE", "the appliance is running")


def _require_choices(view: ClusterView, attribute: str) -> list[Any]:
    choices: list[Any] = view[attribute]
    refuse_unless(choices is not None, "INTERNAL_ERROR" if view.is_strict else "DEPENDENCY_VIOLATION", "the washer is off")
    return choices


@register_write("LaundryWasherControls", "SpinSpeedCurrent")
def write_spin_speed(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose a spin speed by its index in SpinSpeeds, or None."""
    _require_not_running(view)
    if value is None and view.is_strict:
        return store_attribute(view, "SpinSpeedCurrent", None) | {"old_value": None}
    speeds = _require_choices(view, "SpinSpeeds")
    if value is None:
        return store_attribute(view, "SpinSpeedCurrent", None)
    refuse_unless(is_integer(value), "INVALID_ARGUMENT", "SpinSpeedCurrent takes an index into SpinSpeeds")
    refuse_unless(0 <= value < len(speeds), "CONSTRAINT_ERROR", f"SpinSpeedCurrent is not in 0..{len(speeds) - 1}")
    return store_attribute(view, "SpinSpeedCurrent", speeds[value])


@register_write("LaundryWasherControls", "NumberOfRinses")
def write_rinses(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedRinses."""
    _require_not_running(view)
    offered = value in _require_choices(view, "SupportedRinses")
    refuse_unless(offered, "CONSTRAINT_ERROR", "NumberOfRinses is not in SupportedRinses")
    return store_attribute(view, "NumberOfRinses", value)


@register_write("LaundryDryerControls", "SelectedDrynessLevel")
def write_dryness(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Choose one of SupportedDrynessLevels, or None."""
    _require_not_running(view)
    offered = value is None or value in view["SupportedDrynessLevels"]
    refuse_unless(offered, "CONSTRAINT_ERROR", "SelectedDrynessLevel is not in SupportedDrynessLevels")
    return store_attribute(view, "SelectedDrynessLevel", value)


def require_mode(view: ClusterView, key: str, mode: Any, refusal: str = "UNSUPPORTED_MODE") -> dict[str, Any]:
    """The entry of SupportedModes with the number `mode` under `key`. Raises `OperationError` if there is none."""
    for entry in view["SupportedModes"] or () if isinstance(mode, (int, float)) else ():
        if entry[key] == mode:
            return dict(entry)
    raise OperationError(refusal, f"mode {mode!r} is not supported")


@register_command("DishwasherMode", "ChangeToMode")
@register_command("LaundryWasherMode", "ChangeToMode")
def change_programme_mode(view: ClusterView, new_mode: Any) -> dict[str, Any]:
    """Choose a programme by its number in SupportedModes. Refused while the appliance runs."""
    _require_not_running(view)
    entry = require_mode(view, "mode", new_mode, "INVALID_ARGUMENT")
    old = view["CurrentMode"]
    view.set_enum("CurrentMode", int(new_mode))
    if view.device.type.rows:
        _apply_mode_row(view.sibling_view("LaundryWasherControls"))
    return {"old_mode": old, "new_mode": new_mode, "mode_label": entry.get("label")}


@register_write("DishwasherMode", "CurrentMode")
@register_write("LaundryWasherMode", "CurrentMode")
def write_programme_mode(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the number of the programme. In mended mode it must be in SupportedModes."""
    if not view.is_strict:
        require_mode(view, "mode", value, "INVALID_ARGUMENT")
    return store_attribute(view, "CurrentMode", value)


@register_command("RTCCMode", "ChangeToMode")
def change_cabinet_mode(view: ClusterView, mode: Any) -> dict[str, Any]:
    """Choose a cooling mode by its number in SupportedModes."""
    entry = require_mode(view, "Mode", mode)
    view["CurrentMode"] = mode
    return {"Status": "SUCCESS", "StatusText": f"Mode changed successfully to {entry['Label']}"}


STOPPED, RUNNING, PAUSED, ERROR = range(4)  # Matter's OperationalStateEnum
LABELS = ("Stopped", "Running", "Paused", "Error")
NO_ERROR, UNABLE_TO_START, IN_STATE = 0, 1, 3  # Matter's ErrorStateEnum; the last is CommandInvalidInState


def _programme_of(view: ClusterView) -> Cycle:
    cycle = view.device.type.cycle
    assert cycle is not None, "a device with OperationalState has a programme"
    return cycle


def _programme_choice(view: ClusterView) -> Any:
    """The value of the attribute that decides the length of the programme: a mode or a level."""
    cluster, attribute = _programme_of(view).by
    return view.sibling_view(cluster)[attribute]


def _enter_state(view: ClusterView, state: int) -> None:
    if view["OperationalState"] != state:
        view.set_enum("OperationalState", state)


def _end_programme(view: ClusterView) -> None:
    _enter_state(view, STOPPED)
    view["CountdownTime"], view["#passes"] = None, 0


def _command_response(view: ClusterView, error: int) -> dict[str, Any]:
    state = view["OperationalState"]
    label = LABELS[state] if state in range(4) else "Unknown"
    response = {"cluster": view.cluster, "command_response_state": {"error_state_id": error}}
    return response | {"operational_state": state, "operational_state_label": label}


@register_command("OperationalState", "Start")
def start_operation(view: ClusterView) -> dict[str, Any]:
    """Start the programme of a stopped appliance. Raises `OperationError` if the appliance is off."""
    refuse_unless(view.is_on, "COMMAND_EXECUTION_ERROR", "the appliance is off")
    state = view["OperationalState"]
    if state == STOPPED:
        _enter_state(view, RUNNING)
    if state == STOPPED or view.is_strict:  # a fault of the released program: Start resets the programme in any state
        if view["PhaseList"]:
            view["CurrentPhase"] = 0
        view["CountdownTime"] = view["#cycle"] = _programme_of(view).duration_seconds(_programme_choice(view))
        view["#passes"] = 0
    answer = _command_response(view, {STOPPED: NO_ERROR, RUNNING: NO_ERROR, PAUSED: IN_STATE}.get(state, UNABLE_TO_START))
    if not view.has_cluster("LaundryDryerControls"):
        return answer
    level = _programme_choice(view)
    info = {
        "initial_phase": (view["PhaseList"] or [None])[0],
        "dryness_level": DRYNESS[level] if level in range(4) else None,
        "estimated_duration_minutes": _programme_of(view).duration_seconds(level) // 60,
    }
    # A dryer says Running in every state, as in the released program.
    return answer | {"operational_state_label": "Running", "cycle_info": info}


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
    """Change the programme and the laundry controls after the appliance was switched on or off.

    Switched off, it forgets the programme. Switched on, it has its list of phases again.
    """
    if on:
        view["PhaseList"] = view.device.type.initial[f"{view.endpoint}.OperationalState.PhaseList"]
    else:
        _end_programme(view)
        view.set_enum("OperationalState", STOPPED)  # even if it was: a structure then shows its name
        view["PhaseList"] = view["CurrentPhase"] = None
        view["OperationalError"] = {"error_state_id": 0}
    # Switched off, a washer or dryer forgets what was chosen. Switched on in mended mode, it remembers it again.
    if view.has_cluster("LaundryWasherControls"):
        washer = view.sibling_view("LaundryWasherControls")
        if on:
            if not view.is_strict:
                washer["SpinSpeedCurrent"] = washer["#kept"]
            _apply_mode_row(washer)
        else:
            washer["#kept"] = washer["SpinSpeedCurrent"]
            for attribute in CONTROLS:
                washer[attribute] = None
    if view.has_cluster("LaundryDryerControls"):
        dryer = view.sibling_view("LaundryDryerControls")
        if not on:
            dryer["#kept"], dryer["SelectedDrynessLevel"] = dryer["SelectedDrynessLevel"], None
        elif not view.is_strict:
            dryer["SelectedDrynessLevel"] = dryer["#kept"]


@register_passes("OperationalState")
def advance_operation(view: ClusterView, n: int) -> None:
    """Count a running programme down for `n` passes. The programme ends at 0 seconds."""
    left = view["CountdownTime"]  # seconds
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
    programme, total = _programme_of(view), view["#cycle"]
    # A fault of the released program: washers and dryers that were loaded while running stay in their phase.
    # In mended mode, a loaded programme is as long as what its first pass left.
    if not (programme.whole_seconds and view.is_strict):
        total = view["#cycle"] = max(total, left - first)
    phase = view["CurrentPhase"]
    if total and is_number(phase):
        view["CurrentPhase"] = max(phase, programme.phase_index(max(total - (left - seconds), 0), total))
    return None


# Alarms

ALARMS = 63  # the bits of all alarms


def _require_mask(value: Any) -> int:
    if not isinstance(value, int):
        raise OperationError("INVALID_ARGUMENT", "a mask is an integer")
    refuse_unless(0 <= value <= ALARMS, "INVALID_ARGUMENT", f"a mask has no bits outside {ALARMS}")
    return value


@register_command("DishwasherAlarm", "Reset")
def reset_alarms(view: ClusterView, alarms_to_reset: Any) -> dict[str, Any]:
    """Clear the latched alarms of a bit mask, or all of them if the mask is None."""
    old = view["Latch"]
    alarms = _require_mask(old if alarms_to_reset is None else alarms_to_reset)
    view["Latch"] = old & ~alarms
    return command_result(view, "Reset", reset_alarms=alarms, old_latch=old, new_latch=view["Latch"])


@register_command("DishwasherAlarm", "ModifyEnabledAlarms")
def modify_enabled_alarms(view: ClusterView, mask: Any) -> dict[str, Any]:
    """Set the bit mask of the enabled alarms."""
    new = _require_mask(mask)
    old, view["Mask"] = view["Mask"], new
    return command_result(view, "ModifyEnabledAlarms", old_mask=old, new_mask=new)


# The robot vacuum

IDLE, VACUUM = 1, 2  # run modes; the third is mapping
SEEKING, CHARGING, DOCKED = 64, 65, 66  # states that only a vacuum has
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


def _vacuum_response(view: ClusterView, error: int) -> dict[str, Any]:
    _set_error(view, error)
    return {"command_response_state": {"error_state_id": error}, "operational_state": view["OperationalState"]}


@register_command("RVCOperationalState", "Pause")
def pause_vacuum(view: ClusterView) -> dict[str, Any]:
    """Pause the present phase."""
    state = view["OperationalState"]
    if state in (RUNNING, SEEKING):
        view["#paused_from"], view["OperationalState"] = state, PAUSED
    return _vacuum_response(view, 0 if state in (PAUSED, RUNNING, SEEKING) else UNABLE)


@register_command("RVCOperationalState", "Resume")
def resume_vacuum(view: ClusterView) -> dict[str, Any]:
    """Continue a paused phase. A docked or charging robot runs again if its run mode is not idle."""
    state = view["OperationalState"]
    if state == PAUSED:
        view["OperationalState"], view["#paused_from"] = view["#paused_from"] or RUNNING, None
    elif state in (CHARGING, DOCKED) and _run_mode(view)["CurrentMode"] != IDLE:
        view["OperationalState"] = RUNNING
    elif state != RUNNING:
        return _vacuum_response(view, UNABLE)
    return _vacuum_response(view, 0)


@register_command("RVCOperationalState", "GoHome")
def send_home(view: ClusterView) -> dict[str, Any]:
    """Send the robot to its charger."""
    state = view["OperationalState"]
    if state == SEEKING:
        return _vacuum_response(view, 0)
    busy = state == STOPPED and _run_mode(view)["CurrentMode"] != IDLE
    if state not in (STOPPED, RUNNING, PAUSED) or busy:
        return _vacuum_response(view, UNABLE)
    _seek_charger(view)
    return _vacuum_response(view, 0)


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
