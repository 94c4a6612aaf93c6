"""The reference agent: the calls that solve a feasible episode that a rule decides, in order.

Invariants:
- Every call is one that an agent could make, and rests only on what an agent could read.
- What must hold at a time is scheduled a little earlier, because the effect of a workflow is only seen after its tick; and
  what takes time is scheduled earlier by that time.
- A goal's calls are made for the home as the workflows of earlier goals, and the calls before them, will leave it.
- A goal that holds anyway has no call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import chain
from typing import Any

from envs.simuhome import passage, tools, workflows
from envs.simuhome.clusters.thermostat import DEADBAND
from envs.simuhome.clusters.vacuum import DOCKED, IDLE, STOPPED
from envs.simuhome.config import TIME_FORMAT
from envs.simuhome.episodes import AttributeAssert, EpisodeFile, GoalSpec, TargetDevice, due_time_of
from envs.simuhome.home import Device, Home
from envs.simuhome.service import HEAT_PUMP_RANGES
from envs.simuhome.spec import Struct

Action = dict[str, Any]
LEAD_SECONDS = 5  # how much earlier than its goal a workflow runs
# A vacuum that is called home seeks its charger for 10 s and docks for 5 s. Then it is stopped.
DOCKING_SECONDS = 12  # after which a vacuum that was called home takes another task
SECONDS_UNTIL = {STOPPED: 16, DOCKED: 8}  # docked from 3 s before its goal is due until 2 s after
ADJUSTS = "PowerAdjustmentCapability"  # with it, strict mode refuses to raise a heat pump's setpoint
SETPOINTS = ("OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint")
# Clusters are set in this order, since a device may need power or a mode first. All others follow.
SET_ORDER = ("OnOff", "LaundryWasherMode", "LaundryDryerControls", "Thermostat", "FanControl")


def reference_calls(episode: EpisodeFile, home: Home) -> list[Action]:
    """The required actions, then the calls that reach all goals from the state of `home`, then `finish`."""
    looks = [{"name": action.tool, **action.params} for action in episode.eval.required_actions]
    kind, goals = episode.meta.query_type, episode.eval.goals
    if kind == "qt2":
        acts = [act for goal in goals for act in moving_calls(home, goal.room_id, goal.room_state, goal.direction)]
    elif kind == "qt3":
        acts = [act for goal in goals for part in fulfil_asserts(home, goal.device_id, goal.asserts) for act in part]
    else:
        acts = list(schedule_calls(home, goals))
    return [*looks, *acts, {"name": "finish", "answer": "Done."}]


def schedule_calls(home: Home, goals: Iterable[GoalSpec]) -> Iterator[Action]:
    """For each goal, the calls that schedule workflows, which make its targets hold just before the goal is due."""
    goals = list(goals)
    calls: dict[int, list[Action]] = {}
    then = home.fork()
    for index in sorted(range(len(goals)), key=lambda index: due_time_of(goals[index]).at_tick):
        due = due_time_of(goals[index]).at_tick / 10
        passage.advance(then, 10 * int(due - LEAD_SECONDS) - 1)
        calls[index] = _schedule_calls(then, goals[index], due)
        for act in calls[index]:
            if workflows.parse_time(act["start_time"]) > home.plan.base_time + timedelta(seconds=then.seconds):
                workflows.schedule_workflow(then, act["start_time"], act["steps"])
    return (act for index in range(len(goals)) for act in calls[index])


def _schedule_calls(home: Home, goal: GoalSpec, due: float) -> list[Action]:
    """The calls for a goal that is due after so many seconds; none if it holds anyway. `home` is as it will be then.

    Targets with parts that must wait for one another have a workflow for each part.
    """
    lead = LEAD_SECONDS + max((_seconds_to_hold(home, target) for target in goal.targets), default=0)
    by_lead: dict[int, list[Action]] = {}
    for target in goal.targets:
        for later, part in enumerate(reversed(fulfil_asserts(home, target.device_id, target.asserts))):
            steps = [{"tool": act["name"], "args": arguments_of(act)} for act in part]
            by_lead.setdefault(lead + later * DOCKING_SECONDS, []).extend(steps)
    return [_schedule_call(home, due - lead, steps) for lead, steps in sorted(by_lead.items(), reverse=True) if steps]


def _schedule_call(home: Home, seconds: float, steps: list[Action]) -> Action:
    at = home.plan.base_time + timedelta(seconds=max(1, int(seconds)))
    return {"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps}


def _seconds_to_hold(home: Home, target: TargetDevice) -> int:
    """How long it takes until asserts hold after their calls were made."""
    wanted = [one.value for one in target.asserts if one.attribute.endswith("RVCOperationalState.OperationalState")]
    return max((SECONDS_UNTIL.get(state, 0) for state in wanted), default=0) if home.device(target.device_id) else 0


# Commands and writes


class DeviceCalls:
    """Builds calls for one device."""

    def __init__(self, home: Home, device: Device) -> None:
        self.home, self.device = home, device

    def read(self, cluster: str, attribute: str) -> Any:
        """The present value of an attribute."""
        return self.home.view(self.device.id, cluster)[attribute]

    def command(self, cluster: str, command: str, **args: Any) -> Action:
        """The call that runs a command."""
        return {"name": "execute_command", **self._cluster_fields(cluster), "command_id": command, "args": args}

    def write(self, cluster: str, attribute: str, value: Any) -> Action:
        """The call that writes an attribute."""
        return {"name": "write_attribute", **self._cluster_fields(cluster), "attribute_id": attribute, "value": value}

    def _cluster_fields(self, cluster: str) -> Action:
        endpoint = self.device.type.endpoint_of[cluster]
        return {"device_id": self.device.id, "endpoint_id": endpoint, "cluster_id": cluster}

    def switch_on(self) -> list[Action]:
        """The call that switches the device on; an empty list if the device has no OnOff cluster."""
        return [self.command("OnOff", "On")] if "OnOff" in self.device.type.endpoint_of else []

    @property
    def is_off(self) -> bool:
        """Whether the device has a switch, and is off."""
        return "OnOff" in self.device.type.endpoint_of and self.read("OnOff", "OnOff") is not True

    def setpoint(self, mode: int, target: float) -> list[Action]:
        """The calls that move a setpoint (`mode` 0: heating, 1: cooling) to `target`, in 0.01 °C, to the next tenth.

        They raise or lower the setpoint, since a write could be refused, because the two setpoints must stay apart. In
        mended mode this could be refused too, so the other setpoint goes out of the way first.
        """
        now = self.read("Thermostat", SETPOINTS[mode])
        tenths = round((target - now) / 10)
        way = self._move(mode, tenths)
        return [way] if self.home.plan.strict else [*self._clear(mode, now + 10 * tenths), way]

    def exact_setpoint(self, mode: int, target: int) -> list[Action]:
        """The calls that make a setpoint `target`: a write, and before it whatever takes the other one out of its way."""
        away = self._clear(mode, target)
        if away and (target - self.read("Thermostat", SETPOINTS[mode])) % 10 == 0:
            return self.setpoint(mode, target)
        return [*away, self.write("Thermostat", SETPOINTS[mode], target)]

    def _clear(self, mode: int, target: float) -> list[Action]:
        """The call that takes the other setpoint out of the way of this one, now and at `target`, unless it is."""
        now, other = (self.read("Thermostat", SETPOINTS[at]) for at in (mode, 1 - mode))
        if abs(target - other) >= DEADBAND and (target > other) is bool(mode):
            return []
        if mode:
            return [self._move(0, math.floor((min(now, target) - DEADBAND - other) / 10))]
        return [self._move(1, math.ceil((max(now, target) + DEADBAND - other) / 10))]

    def _move(self, mode: int, tenths: int) -> Action:
        return self.command("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(tenths, 500)))


# Attributes (QT3, QT4)


def arguments_of(act: Action) -> dict[str, Any]:
    """The arguments of a call."""
    return {key: value for key, value in act.items() if key != "name"}


def fulfil_asserts(home: Home, device_id: str, asserts: Iterable[AttributeAssert]) -> list[list[Action]]:
    """The calls that make a device's asserts hold, in parts.

    A part must wait for `DOCKING_SECONDS` after the one before: a vacuum that cleans must have come home before it maps.
    """
    device, then = home.device(device_id), home.fork()  # as the calls so far leave it
    if device is None:
        return []
    wanted = _wanted(asserts)
    calls, clusters = DeviceCalls(then, device), {cluster for cluster, _ in wanted}
    off_last = wanted.get(("OnOff", "OnOff")) in (False, 0)
    order = [*(SET_ORDER[1:] if off_last else SET_ORDER), None, *(SET_ORDER[:1] if off_last else ())]
    ordered = sorted(wanted, key=lambda path: order.index(path[0] if path[0] in order else None))
    starts = wanted.get(("OperationalState", "OperationalState")) == 1
    if starts:
        prepare = [*calls.switch_on(), calls.command("OperationalState", "Stop")]
    elif ("OnOff", "OnOff") in wanted and not off_last:
        prepare = []
    else:
        prepare = calls.switch_on() if _needs_power(calls, clusters) else []
    parts: list[list[Action]] = [[]]
    for act in chain(prepare, (act for path in ordered for act in _set_attribute(calls, *path, wanted[path]))):
        refused = tools.is_refused(tools.call_tool(then, act["name"], arguments_of(act)))
        if refused and parts[-1] and device.type.name == "rvc":
            passage.advance(then, then.tick + round(DOCKING_SECONDS / then.interval))
            tools.call_tool(then, act["name"], arguments_of(act))
            parts.append([])
        parts[-1].append(act)
    return parts


def _wanted(asserts: Iterable[AttributeAssert]) -> dict[tuple[str, str], Any]:
    """What is wanted, by cluster and attribute. Of a structure it is an object with the members that are asserted."""
    wanted: dict[tuple[str, str], Any] = {}
    for one in asserts:
        _, cluster, attribute, *member = one.attribute.split(".")
        if member:
            wanted[cluster, attribute] = {**wanted.get((cluster, attribute), {}), ".".join(member): one.value}
        else:
            wanted[cluster, attribute] = one.value
    return wanted


def _needs_power(calls: DeviceCalls, clusters: set[str]) -> bool:
    """Whether the device must be switched on before these clusters can be set. A fan is, whether or not it is on."""
    if "FanControl" in clusters:
        return True
    power, dims = calls.device.type.power, calls.device.type.dims and "LevelControl" in clusters
    return calls.is_off and (dims or bool(clusters & (power.commands | power.writes.keys())))


def _set_attribute(calls: DeviceCalls, cluster: str, attribute: str, value: Any) -> Iterator[Action]:
    match cluster, attribute:
        case "OnOff", _:
            yield calls.command("OnOff", "On" if value else "Off")
        case "LevelControl", "CurrentLevel":
            yield calls.command("LevelControl", "MoveToLevel", Level=value)
        case "WindowCovering", _:
            yield calls.command("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=value)
        case "TemperatureControl", _:
            yield calls.command("TemperatureControl", "SetTemperature", target_temperature=value)
        case "Thermostat", "OccupiedHeatingSetpoint":
            yield from calls.setpoint(0, value)
        case "Thermostat", "OccupiedCoolingSetpoint":
            yield from calls.exact_setpoint(1, value)
        case "LaundryWasherMode" | "DishwasherMode" | "RVCRunMode", "CurrentMode":
            if cluster == "RVCRunMode" and calls.read(cluster, attribute) not in (IDLE, value) and value != IDLE:
                yield calls.command("RVCOperationalState", "GoHome")
            yield calls.command(cluster, "ChangeToMode", new_mode=value)
        case "RVCCleanMode" | "RTCCMode", "CurrentMode":
            if cluster == "RVCCleanMode" and calls.read("RVCRunMode", "CurrentMode") != IDLE:
                yield calls.command("RVCOperationalState", "GoHome")
            yield calls.command(cluster, "ChangeToMode", mode=value)
        case "OperationalState", _:
            yield from _set_operational_state(calls, value)
        case "RVCOperationalState", _:
            yield from _set_vacuum_state(calls, value)
        case "MediaPlayback", _:
            yield from _set_playback_state(calls, value)
        case "Channel", "CurrentChannel":
            yield _tune(calls, value)
        case _:
            yield calls.write(cluster, attribute, value)


def _tune(calls: DeviceCalls, wanted: Any) -> Action:
    """The call that tunes to a channel: a major number, or the first channel of the list that has the wanted members."""
    members = wanted if isinstance(wanted, Mapping) else {"MajorNumber": wanted}
    listed = calls.read("Channel", "ChannelList") or ()
    found = next((one for one in listed if members.items() <= one.items()), members)
    minor = {"minor_number": found["MinorNumber"]} if found.get("MinorNumber") else {}
    return calls.command("Channel", "ChangeChannelByNumber", major_number=found.get("MajorNumber"), **minor)


def _set_operational_state(calls: DeviceCalls, state: int) -> Iterator[Action]:
    if state == 2 and calls.read("OperationalState", "OperationalState") != 1:
        yield from (*calls.switch_on(), calls.command("OperationalState", "Start"))
    yield calls.command("OperationalState", {0: "Stop", 1: "Start", 2: "Pause"}[state])


def _set_vacuum_state(calls: DeviceCalls, state: int) -> Iterator[Action]:
    now = calls.read("RVCOperationalState", "OperationalState")
    if now == 1 and state in (0, 64, 66):
        yield calls.command("RVCRunMode", "ChangeToMode", new_mode=1)
    elif now == 2 and state in (0, 64, 66):
        yield calls.command("RVCOperationalState", "GoHome")
    if now == 2 and state == 1:
        yield calls.command("RVCOperationalState", "Resume")
    elif now not in (1, 2) and state in (1, 2):
        yield calls.command("RVCRunMode", "ChangeToMode", new_mode=2)
    if state == 2 and now != 2:
        yield calls.command("RVCOperationalState", "Pause")


def _set_playback_state(calls: DeviceCalls, state: int) -> Iterator[Action]:
    now = calls.read("MediaPlayback", "CurrentState")
    if now != 0 and state in (0, 1):
        yield calls.command("MediaPlayback", "Play")
    if state == 1 and now != 1:
        yield calls.command("MediaPlayback", "Pause")
    if state == 2 and now != 2:
        yield calls.command("MediaPlayback", "Stop")


# Room variables (QT2)


def moving_calls(home: Home, room: str, variable: str, direction: str) -> list[Action]:
    """All calls in a room that move a variable in a direction (`increase` or `decrease`)."""
    up, value = direction == "increase", home.room_state(room)[variable]
    acts: list[Action] = []
    for device in home.plan.by_room[room]:
        if lever := _MOVERS.get((device.type.name, variable)):
            acts += lever(DeviceCalls(home, device), up, value)
    return acts


def _air_conditioner(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    if up:
        yield calls.command("OnOff", "Off")
        return
    yield from (*calls.switch_on(), calls.write("Thermostat", "SystemMode", 3), *calls.setpoint(1, value - 500))
    yield calls.write("FanControl", "PercentSetting", 100)


def _heat_pump(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    yield calls.write("Thermostat", "SystemMode", 4 if up else 0)
    if up and calls.home.plan.strict and isinstance(calls.read("DeviceEnergyManagement", ADJUSTS), Struct):
        for setpoint in reversed(SETPOINTS):  # the other one first, out of the way
            yield calls.write("Thermostat", setpoint, HEAT_PUMP_RANGES["Thermostat", setpoint][1])
    elif up:
        yield from calls.setpoint(0, value + 500)


def _set_fan(calls: DeviceCalls, helps: bool) -> Iterator[Action]:
    if helps:
        yield from (*calls.switch_on(), calls.write("FanControl", "PercentSetting", 100))
    else:
        yield calls.command("OnOff", "Off")


def _light(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    yield calls.command("OnOff", "On" if up else "Off")
    if up and "LevelControl" in calls.device.type.endpoint_of:
        yield calls.command("LevelControl", "MoveToLevel", Level=254)


_MOVERS: Mapping[tuple[str, str], Any] = {
    ("air_conditioner", "temperature"): _air_conditioner,
    ("heat_pump", "temperature"): _heat_pump,
    ("fan", "temperature"): lambda calls, up, _: _set_fan(calls, not up),
    ("humidifier", "humidity"): lambda calls, up, _: _set_fan(calls, up),
    ("dehumidifier", "humidity"): lambda calls, up, _: _set_fan(calls, not up),
    ("air_purifier", "pm10"): lambda calls, up, _: _set_fan(calls, not up),
    ("on_off_light", "illuminance"): _light,
    ("dimmable_light", "illuminance"): _light,
}
