"""The passage of time: rooms are advanced from one event to the next, and workflows run in between.

A workflow is a list of steps that run at a virtual time, one after the other, until the first that fails.

Invariants:
- Advancing by n passes at once gives the same state as n single passes.
- A workflow that is due at tick D runs after pass D. If time stops at D, the workflow runs when time goes on.
- Rooms that are left out of `rooms` do not change.
- A `Workflow` object never changes. Progress replaces it by a new one.
- Ids are UUIDs that depend only on the home's plan and the number of the registration. So equal homes give equal ids.
- A step either runs completely or changes nothing.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from homerl.envs.core.state_encoding import text_hash
from homerl.envs.simuhome.sim import air, service
from homerl.envs.simuhome.sim.clusters import PASSES
from homerl.envs.simuhome.sim.device_catalogue import DeviceType
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.sim.home import (
    ClusterView,
    MatterDevice,
    MatterHome,
    OperationError,
    UnhandledError,
    Workflow,
    refuse_unless,
)

STATUSES = ("pending", "running", "completed", "failed", "cancelled")
MAX_PENDING = 1000
MOST_IN_LIVE_TICK = 10
NOT_GIVEN: tuple[Any, ...] = (None, "", [], {})  # filters that a URL does not carry
STEP_KEYS = {
    "execute_command": {"device_id", "endpoint_id", "cluster_id", "command_id", "args"},
    "write_attribute": {"device_id", "endpoint_id", "cluster_id", "attribute_id", "value"},
}


def parse_time(text: Any) -> datetime:
    """The time of a text. Raises `OperationError` unless it has the form `2025-01-31 18:00:00`."""
    try:
        return datetime.strptime(text, TIME_FORMAT)
    except (TypeError, ValueError):
        raise OperationError("VALIDATION_ERROR", f"{text!r} is no time like 2025-01-31 18:00:00") from None


def schedule_workflow(home: MatterHome, start_time: Any, steps: Any) -> dict[str, Any]:
    """Register a workflow for a time in the future.

    Raises `OperationError` if the time or the form of the steps is wrong. Whether the devices, commands and attributes
    of the steps exist is only checked when the steps run.
    """
    refuse_unless(isinstance(start_time, str), "SCHEMA_ERROR", "start_time is a text")
    refuse_unless(isinstance(steps, list) and steps, "SCHEMA_ERROR", "steps is a list that is not empty")
    for step in steps:
        whole = isinstance(step, dict) and isinstance(step.get("tool"), str) and isinstance(step.get("args"), dict)
        refuse_unless(whole, "SCHEMA_ERROR", "a step has a tool (text) and args (an object)")
    for step in steps:
        refuse_unless(step["tool"] in STEP_KEYS, "VALIDATION_ERROR", f"a workflow cannot call {step['tool']!r}")
    seconds = (parse_time(start_time) - home.plan.base_time).total_seconds()
    refuse_unless(seconds > home.elapsed_seconds, "VALIDATION_ERROR", "start_time is not in the future")
    pending = sum(flow.status == "pending" for flow in home.workflows)
    refuse_unless(pending < MAX_PENDING, "VALIDATION_ERROR", f"{MAX_PENDING} workflows are waiting already")
    # Random ids would make equal homes differ, and a replay would not give the ids of its trajectory.
    number = text_hash(f"{home.plan.plan_hash} {len(home.workflows)}")
    text = json.dumps([{"tool": step["tool"], "args": step["args"]} for step in steps])
    due = math.ceil((seconds - home.offset) / home.interval)  # the first tick that is not before `start_time`
    flow = Workflow(str(uuid.UUID(int=number, version=4)), due, start_time, text, len(steps))
    home.workflows = (*home.workflows, flow)
    return {"workflow_id": flow.id}


def _require_workflow(home: MatterHome, workflow_id: Any) -> Workflow:
    flow = next((flow for flow in home.workflows if flow.id == workflow_id), None)
    if flow is None:
        raise OperationError("VALIDATION_ERROR", f"there is no workflow {workflow_id!r}")
    return flow


def workflow_status(home: MatterHome, workflow_id: Any) -> dict[str, Any]:
    """How far a workflow has come. Raises `OperationError` if there is none of that id."""
    return _require_workflow(home, workflow_id).to_record()


def list_workflows(home: MatterHome, status: Any = None, from_time: Any = None, to_time: Any = None) -> list[dict[str, Any]]:
    """The workflows with a status and a start time in a span, each optional. Their errors are left out."""
    status, from_time, to_time = (None if given in NOT_GIVEN else given for given in (status, from_time, to_time))
    refuse_unless(status is None or status in STATUSES, "VALIDATION_ERROR", f"status is one of {', '.join(STATUSES)}")
    start = datetime.min if from_time is None else parse_time(from_time)
    end = datetime.max if to_time is None else parse_time(to_time)
    refuse_unless(start <= end, "VALIDATION_ERROR", "from_time is later than to_time")
    records = []
    for flow in home.workflows:
        if status in (None, flow.status) and start <= parse_time(flow.start_time) <= end:
            records.append({key: value for key, value in flow.to_record().items() if key != "error"})
    return records


def cancel_workflow(home: MatterHome, workflow_id: Any) -> dict[str, Any]:
    """Cancel a workflow that has not run yet. Raises `OperationError` if it has, or if there is none of that id."""
    flow = _require_workflow(home, workflow_id)
    data = {"workflow_id": flow.id, "status": "cancelled"}
    if flow.status == "cancelled":
        return data | {"message": "It was cancelled before"}
    refuse_unless(flow.status == "pending", "VALIDATION_ERROR", f"the workflow is {flow.status}")
    _replace_workflow(home, replace(flow, status="cancelled"))
    return data


def _replace_workflow(home: MatterHome, flow: Workflow) -> None:
    home.workflows = tuple(flow if flow.id == old.id else old for old in home.workflows)


def next_due(home: MatterHome) -> int | None:
    """The tick at which the next pending workflow is due, or None."""
    return min((flow.due for flow in home.workflows if flow.status == "pending"), default=None)


def run_due(home: MatterHome, live: bool) -> None:
    """Run the workflows that are due: first by time, then in the order of registration.

    In a live tick the released program runs `MOST_IN_LIVE_TICK`; the others run in the next ticks.
    """
    due = [flow for flow in home.workflows if flow.status == "pending" and flow.due <= home.tick]
    most = MOST_IN_LIVE_TICK if live and home.plan.strict else None
    for flow in sorted(due, key=lambda flow: flow.due)[:most]:
        _run_workflow(home, flow, live)


class MalformedStep(Exception):
    """A step that makes the released program's scheduler crash."""


def _run_workflow(home: MatterHome, flow: Workflow, live: bool) -> None:
    for number, step in enumerate(json.loads(flow.steps)):
        try:
            home.run_or_undo(_run_step, home, step["tool"], step["args"])
        except OperationError as failure:
            return _replace_workflow(home, replace(flow, status="failed", error=failure.label))
        except MalformedStep as wrong:
            if not home.plan.strict:
                return _replace_workflow(home, replace(flow, status="failed", error=str(wrong)))
            _replace_workflow(home, replace(flow, status="running"))  # a fault of the released program: it never ends
            if not live:
                raise OperationError("INTERNAL_ERROR", str(wrong)) from None
            return None
        flow = replace(flow, current_step=number)
    return _replace_workflow(home, replace(flow, status="completed"))


def _run_step(home: MatterHome, tool: str, args: dict[str, Any]) -> None:
    if not STEP_KEYS[tool] - {"args"} <= args.keys() <= STEP_KEYS[tool]:  # `args` may be left out
        raise MalformedStep(f"{tool} takes {', '.join(sorted(STEP_KEYS[tool]))}")
    if not home.plan.strict:
        args = service.coerced_arguments(args)
    try:
        if tool == "execute_command":
            service.execute_command(home, **({"args": {}} | args))
        else:
            service.write_attribute(home, **args)
    except OperationError as failure:  # the released program handles neither of these two
        if tool == "execute_command" and isinstance(failure, UnhandledError):
            raise MalformedStep(failure.detail) from None
        if tool == "write_attribute" and failure.type == "INTERNAL_ERROR":
            raise MalformedStep(failure.label) from None
        raise


def advance_home(home: MatterHome, to_tick: int, rooms: Iterable[str] | None = None, live: bool = True) -> None:
    """Let time pass until tick `to_tick`, in all rooms or only in `rooms`.

    With `live=False` this is the released program's fast-forward: a malformed workflow step then raises
    `OperationError` in strict mode.
    """
    if home.plan.max_ticks is not None:
        to_tick = min(to_tick, home.plan.max_ticks)
    names = tuple(home.plan.rooms) if rooms is None else tuple(dict.fromkeys(rooms))
    while home.tick < to_tick:
        run_due(home, live)
        due = next_due(home)
        stop = to_tick if due is None else min(max(due, home.tick + 1), to_tick)
        for name in names:
            if name in home.plan.rooms:
                for device in home.plan.devices_by_room[name]:
                    advance_device(home, device, stop - home.tick)
                if home.plan.aggregators:
                    air.advance_air(home, home.plan.rooms[name], stop - home.tick)
        home.tick = stop


@lru_cache
def _time_driven_clusters(kind: DeviceType) -> tuple[tuple[int, str], ...]:
    """(endpoint, cluster) of the clusters of a device type that change as time passes."""
    return tuple((endpoint, cluster.name) for endpoint, cluster in kind.cluster_places if cluster.name in PASSES)


def advance_device(home: MatterHome, device: MatterDevice, n: int) -> None:
    """Advance the time-driven clusters of one device by `n` passes."""
    for endpoint, cluster in _time_driven_clusters(device.type):
        PASSES[cluster](ClusterView(home, device, endpoint, cluster), n)
