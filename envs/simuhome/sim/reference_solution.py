"""The reference agent: the calls that solve a feasible episode that a rule decides, in order.

`DeviceCalls` and `attribute_calls` set one attribute of one device, and `moving_calls` move a variable of a room (QT2). They
are built from what can be read of the device now.

The attributes of a device depend on one another: a mode is refused while a machine runs, and switching off changes the
level. No single order of calls fits all devices. So plans are tried in forks of the home until one meets the goal; the
usual plan is the first.

Three kinds of goals are not found: a blind that is still moving, a value that a washer's mode sets in another attribute, and
goals that only hold at different times. In strict mode some episodes cannot be solved at all: the channel commands of a
loaded TV fail, and an assert on a channel's number is never true.

Invariants:
- Every call is one that an agent could make, and rests only on what an agent could read.
- What must hold at a time is scheduled a little earlier, because the effect of a workflow is only seen after its tick; and
  what takes time is scheduled earlier by that time.
- A goal's calls are made for the home as the workflows of earlier goals, and the calls before them, will leave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain, islice, permutations, product
from typing import Any, Literal

from homerl.envs.core.world import action_arguments
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.clusters.appliances import IDLE
from homerl.envs.simuhome.sim.clusters.climate_and_blinds import DEADBAND
from homerl.envs.simuhome.sim.device_catalogue import Struct
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT, AttributeAssert, EpisodeFile, GoalSpec, TargetDevice
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.sim.service import HEAT_PUMP_RANGES

Action = dict[str, Any]
Way = Literal["usual", "writing", "toggling"]  # how attributes are set: by commands, by writes instead, by `Toggle`
WAYS: tuple[Way, ...] = ("usual", "writing", "toggling")
WRITTEN = (  # clusters whose attributes can be written as well, also values that no command takes
    "LaundryWasherMode", "DishwasherMode", "RVCRunMode", "RVCCleanMode", "RTCCMode", "Channel", "TemperatureControl",
    "WindowCovering",
)  # fmt: skip
SETPOINTS = ("OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint")


class DeviceCalls:
    """Builds calls for one device."""

    def __init__(self, home: MatterHome, device: MatterDevice, way: Way = "usual") -> None:
        self.home, self.device, self.way = home, device, way

    def present_value(self, cluster: str, attribute: str) -> Any:
        """The present value of an attribute."""
        return self.home.cluster_view(self.device.id, cluster)[attribute]

    def command_call(self, cluster: str, command: str, **args: Any) -> Action:
        """The call that runs a command."""
        return {"name": "execute_command", **self._cluster_fields(cluster), "command_id": command, "args": args}

    def write_call(self, cluster: str, attribute: str, value: Any) -> Action:
        """The call that writes an attribute."""
        return {"name": "write_attribute", **self._cluster_fields(cluster), "attribute_id": attribute, "value": value}

    def _cluster_fields(self, cluster: str) -> Action:
        endpoint = self.device.type.endpoint_of[cluster]
        return {"device_id": self.device.id, "endpoint_id": endpoint, "cluster_id": cluster}

    def switch_on_calls(self) -> list[Action]:
        """The call that switches the device on; an empty list if the device has no OnOff cluster."""
        return [self.command_call("OnOff", "On")] if "OnOff" in self.device.type.endpoint_of else []

    @property
    def is_off(self) -> bool:
        """Whether the device has a switch, and is off."""
        return "OnOff" in self.device.type.endpoint_of and self.present_value("OnOff", "OnOff") is not True

    def setpoint_calls(self, mode: int, target: float) -> list[Action]:
        """The calls that move a setpoint (`mode` 0: heating, 1: cooling) to `target`, in 0.01 °C, to the next tenth.

        The two setpoints must stay apart, so a write could be refused. The command `SetpointRaiseLower` checks this in
        mended mode only, so there the other setpoint is moved out of the way first.
        """
        now = self.present_value("Thermostat", SETPOINTS[mode])
        tenths = round((target - now) / 10)
        way = self._raise_lower_call(mode, tenths)
        return [way] if self.home.plan.strict else [*self._calls_that_clear(mode, now + 10 * tenths), way]

    def exact_setpoint_calls(self, mode: int, target: int) -> list[Action]:
        """The calls that make a setpoint `target`: a write, and before it whatever takes the other one out of its way.

        A command is used where it can reach `target`: always for heating, and for cooling if the other is in the way.
        """
        away = self._calls_that_clear(mode, target)
        in_tenths = (target - self.present_value("Thermostat", SETPOINTS[mode])) % 10 == 0
        if in_tenths and self.way != "writing" and (away or mode == 0):
            return self.setpoint_calls(mode, target)
        return [*away, self.write_call("Thermostat", SETPOINTS[mode], target)]

    def _calls_that_clear(self, mode: int, target: float) -> list[Action]:
        """The call that takes the other setpoint out of the way of this one, now and at `target`, unless it is."""
        now, other = (self.present_value("Thermostat", SETPOINTS[at]) for at in (mode, 1 - mode))
        if abs(target - other) >= DEADBAND and (target > other) is bool(mode):
            return []
        away = min(now, target) - DEADBAND if mode else max(now, target) + DEADBAND
        if self.way == "writing":
            return [self.write_call("Thermostat", SETPOINTS[1 - mode], away)]
        tenths = (away - other) / 10
        return [self._raise_lower_call(1 - mode, math.floor(tenths) if mode else math.ceil(tenths))]

    def _raise_lower_call(self, mode: int, tenths: int) -> Action:
        return self.command_call("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(tenths, 500)))


def needs_power(calls: DeviceCalls, clusters: set[str]) -> bool:
    """Whether the device must be switched on before these clusters can be set. A fan is always switched on."""
    if "FanControl" in clusters:
        return True
    power, dims = calls.device.type.power, calls.device.type.dims and "LevelControl" in clusters
    return calls.is_off and (dims or bool(clusters & (power.commands | power.writes.keys())))


def attribute_calls(calls: DeviceCalls, cluster: str, attribute: str, value: Any) -> Iterator[Action]:
    """The calls that give an attribute a value, for a device as it is now."""
    match cluster, attribute:
        case "OnOff", _ if calls.way == "toggling" and calls.is_off is bool(value):
            yield calls.command_call("OnOff", "Toggle")
        case "OnOff", _:
            yield calls.command_call("OnOff", "On" if value else "Off")
        case "LaundryWasherControls", _ if calls.way == "toggling" and value is None:  # as after it was switched off
            yield from (*calls.switch_on_calls(), calls.command_call("OnOff", "Off"))
        case _ if calls.way == "writing" and cluster in WRITTEN:
            yield calls.write_call(cluster, attribute, value)
        case "LevelControl", "CurrentLevel":
            options = {"OptionsMask": 1, "OptionsOverride": 1} if calls.is_off else {}
            yield calls.command_call("LevelControl", "MoveToLevel", Level=value, **options)
        case "FanControl", "PercentCurrent" | "SpeedCurrent":
            yield calls.write_call("FanControl", attribute.replace("Current", "Setting"), value)
        case "WindowCovering", "CurrentPositionLiftPercent100ths" | "TargetPositionLiftPercent100ths":
            yield calls.command_call("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=value)
        case "TemperatureControl", _:
            yield calls.command_call("TemperatureControl", "SetTemperature", target_temperature=value)
        case "Thermostat", "OccupiedHeatingSetpoint" | "OccupiedCoolingSetpoint":
            yield from calls.exact_setpoint_calls(SETPOINTS.index(attribute), value)
        case "LaundryWasherMode" | "DishwasherMode" | "RVCRunMode", "CurrentMode":
            if cluster == "RVCRunMode" and calls.present_value(cluster, attribute) not in (IDLE, value) and value != IDLE:
                yield calls.command_call("RVCOperationalState", "GoHome")
            yield calls.command_call(cluster, "ChangeToMode", new_mode=value)
        case "RVCCleanMode" | "RTCCMode", "CurrentMode":
            if cluster == "RVCCleanMode" and calls.present_value("RVCRunMode", "CurrentMode") != IDLE:
                yield calls.command_call("RVCOperationalState", "GoHome")
            yield calls.command_call(cluster, "ChangeToMode", mode=value)
        case "OperationalState", _:
            if value == 2 and calls.present_value(cluster, "OperationalState") != 1:
                yield from (*calls.switch_on_calls(), calls.command_call(cluster, "Start"))
            if value in (0, 1, 2):  # nobody can ask for another, such as an error
                yield calls.command_call(cluster, ("Stop", "Start", "Pause")[value])
        case "RVCOperationalState", _:
            yield from _vacuum_state_calls(calls, value)
        case "MediaPlayback", _:
            now = calls.present_value(cluster, "CurrentState")
            if now != 0 and value in (0, 1):
                yield calls.command_call(cluster, "Play")
            if value in (1, 2) and now != value:
                yield calls.command_call(cluster, "Pause" if value == 1 else "Stop")
        case "Channel", "CurrentChannel":  # a major number, or the first channel of the list with the wanted members
            members = value if isinstance(value, Mapping) else {"MajorNumber": value}
            listed = calls.present_value("Channel", "ChannelList") or ()
            found = next((one for one in listed if members.items() <= one.items()), members)
            minor = {"minor_number": found["MinorNumber"]} if found.get("MinorNumber") else {}
            yield calls.command_call(cluster, "ChangeChannelByNumber", major_number=found.get("MajorNumber"), **minor)
        case _:
            yield calls.write_call(cluster, attribute, value)


def _vacuum_state_calls(calls: DeviceCalls, state: int) -> Iterator[Action]:
    now = calls.present_value("RVCOperationalState", "OperationalState")
    if now == 1 and state in (0, 64, 66):
        yield calls.command_call("RVCRunMode", "ChangeToMode", new_mode=1)
    elif now == 2 and state in (0, 64, 66):
        yield calls.command_call("RVCOperationalState", "GoHome")
    if now == 2 and state == 1:
        yield calls.command_call("RVCOperationalState", "Resume")
    elif now not in (1, 2) and state in (1, 2):
        yield calls.command_call("RVCRunMode", "ChangeToMode", new_mode=2)
    if state == 2 and now != 2:
        yield calls.command_call("RVCOperationalState", "Pause")
    if now == 0 and state in (64, 66):
        yield calls.command_call("RVCOperationalState", "GoHome")


def moving_calls(home: MatterHome, room: str, variable: str, direction: str) -> list[Action]:
    """All calls in a room that move a variable in a direction (`increase` or `decrease`)."""
    up, value = direction == "increase", home.room_state(room)[variable]
    acts: list[Action] = []
    for device in home.plan.devices_by_room[room]:
        calls = DeviceCalls(home, device)
        match device.type.name, variable:
            case "air_conditioner", "temperature" if up:
                acts.append(calls.command_call("OnOff", "Off"))
            case "air_conditioner", "temperature":
                acts += [*calls.switch_on_calls(), calls.write_call("Thermostat", "SystemMode", 3)]
                acts += calls.setpoint_calls(1, value - 500)
                acts.append(calls.write_call("FanControl", "PercentSetting", 100))
            case "heat_pump", "temperature":
                acts.append(calls.write_call("Thermostat", "SystemMode", 4 if up else 0))
                adjusts = calls.present_value("DeviceEnergyManagement", "PowerAdjustmentCapability")
                if up and home.plan.strict and isinstance(adjusts, Struct):  # then strict mode does not raise a setpoint
                    for setpoint in reversed(SETPOINTS):  # the other one first, out of the way
                        most = HEAT_PUMP_RANGES["Thermostat", setpoint][1]
                        acts.append(calls.write_call("Thermostat", setpoint, most))
                elif up:
                    acts += calls.setpoint_calls(0, value + 500)
            case "on_off_light" | "dimmable_light", "illuminance":
                acts.append(calls.command_call("OnOff", "On" if up else "Off"))
                if up and "LevelControl" in device.type.endpoint_of:
                    acts.append(calls.command_call("LevelControl", "MoveToLevel", Level=254))
            case ("fan", "temperature") | ("humidifier" | "dehumidifier", "humidity") | ("air_purifier", "pm10") as mover:
                if up is (mover[0] == "humidifier"):  # the humidifier alone moves its variable up
                    acts += [*calls.switch_on_calls(), calls.write_call("FanControl", "PercentSetting", 100)]
                else:
                    acts.append(calls.command_call("OnOff", "Off"))
    return acts


Path = tuple[str, str]  # cluster and attribute
Setting = tuple[Path, Way]  # what is set, and how
SWITCH: Path = ("OnOff", "OnOff")
LEADS = (5, 3, 2, 1)  # seconds by which a workflow runs before its goal; the others are tried where 5 is too early
DOCKING_SECONDS = 12  # a vacuum that was called home takes another task after this time
LONGEST = 40  # a device has done what it was told within so many seconds
MOST_PLANS = 200  # the most plans that are tried for one device
# Clusters are set in this order: a device may need power or a mode first, and accepts neither while it runs.
SET_FIRST = ("OnOff", "LaundryWasherMode", "LaundryDryerControls", "Thermostat", "FanControl")
SET_LAST = ("RVCCleanMode", "RVCRunMode", "RVCOperationalState", "OperationalState")


def solution_calls(episode: EpisodeFile, home: MatterHome) -> list[Action]:
    """The required actions, then the calls that reach all goals from the state of `home`, then `finish`."""
    kind, goals = episode.meta.query_type, episode.eval.goals
    if kind == "qt2":
        acts = [act for goal in goals for act in moving_calls(home, goal.room_id, goal.room_state, goal.direction)]
    elif kind == "qt3":
        wanted = asserts_by_device(goals)
        acts = [act for device, asserts in wanted.items() for part in _fulfil_asserts(home, device, asserts) for act in part]
    else:
        acts = _schedule_goals(home, goals)
    return [*episode.eval.required_calls, *acts, {"name": "finish", "answer": "Done."}]


def asserts_by_device(goals: Iterable[GoalSpec]) -> dict[str, list[AttributeAssert]]:
    """What QT3 goals assert of each device."""
    wanted: dict[str, list[AttributeAssert]] = {}
    for goal in goals:
        wanted.setdefault(goal.device_id, []).extend(goal.asserts)
    return wanted


def _schedule_goals(home: MatterHome, goals: Sequence[GoalSpec]) -> list[Action]:
    """The calls that schedule workflows for all goals. Each workflow runs a few seconds before its goal is due."""
    usual: list[Action] | None = None
    for lead in LEADS:
        calls: dict[int, list[Action]] = {}
        for index in evaluate.indices_by_time(goals):
            calls[index] = _schedule_goal(_with_workflows(home, *calls.values()), goals[index], lead)
        acts = [act for index in range(len(goals)) for act in calls[index]]
        if all(evaluate.timed_goals_hold(goals, _with_workflows(home, *calls.values()))):
            return acts
        usual = acts if usual is None else usual
    return usual or []


def _with_workflows(home: MatterHome, *calls: Iterable[Action]) -> MatterHome:
    """A fork of the home in which these workflows wait."""
    then = home.fork()
    for act in chain(*calls):
        if passage.parse_time(act["start_time"]) > home.plan.base_time + timedelta(seconds=then.elapsed_seconds):
            passage.schedule_workflow(then, act["start_time"], act["steps"])
    return then


def _schedule_goal(home: MatterHome, goal: GoalSpec, lead: int) -> list[Action]:
    """The calls that schedule a goal's workflows.

    The steps for a target are planned for the home as it will be when the last of them run. If parts of a plan must wait for
    one another, each part has a workflow of its own.
    """
    due = goal.due_time.at_tick / 10
    by_lead: dict[int, list[Action]] = {}
    for target in goal.targets:
        parts, before = _plan_target(home, target, due - lead, lead)
        if before != lead:  # what takes time begins earlier, and the home may be another then
            parts, before = _plan_target(home, target, due - before, lead)
        for later, part in enumerate(reversed(parts)):
            steps = [{"tool": act["name"], "args": action_arguments(act)} for act in part]
            by_lead.setdefault(before + later * DOCKING_SECONDS, []).extend(steps)
    calls = []
    for before, steps in sorted(by_lead.items(), reverse=True):
        if steps:
            at = home.plan.base_time + timedelta(seconds=max(1, int(due - before)))
            calls.append({"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps})
    return calls


def _plan_target(home: MatterHome, target: TargetDevice, seconds: float, lead: int) -> tuple[list[list[Action]], int]:
    """(the calls for a target in a home after so many seconds, how many seconds before its goal is due they are made).

    Some asserts hold for a while only: a vacuum is docked before it stops. Then the middle of that while is the due time.
    """
    then = home.fork()
    passage.advance_home(then, max(then.tick, 10 * int(seconds) - 1))
    parts = _fulfil_asserts(then, target.device_id, target.asserts)
    after = _play_parts(then, parts)
    if after is None:
        return parts, lead
    later, stays = after.fork(), True
    for ticks in (evaluate.SETTLE_TICKS, round(2 * lead / after.interval)):
        passage.advance_home(later, later.tick + ticks)
        stays = stays and evaluate.asserts_hold(later, target.device_id, target.asserts)
    if stays:
        return parts, lead
    passage.advance_home(after, after.tick + evaluate.SETTLE_TICKS)
    holds = [evaluate.asserts_hold(after, target.device_id, target.asserts) for _ in _live_seconds(after)]
    if not any(holds):
        return parts, lead
    first = holds.index(True)
    last = next((second for second, held in enumerate(holds) if second > first and not held), None)
    if last is not None and last < first + 2 * lead:
        return parts, math.ceil((first + last) / 2)
    return parts, lead + first + bool(first)


# Plans for a device


def _fulfil_asserts(home: MatterHome, device_id: str, asserts: Sequence[AttributeAssert]) -> list[list[Action]]:
    """The calls of the first plan that makes a device's asserts hold, in parts; those of the usual plan if none does.

    Between two parts `DOCKING_SECONDS` must pass: a vacuum that cleans must come home before it maps.
    """
    device = home.find_device(device_id)
    wanted: dict[Path, Any] = {}  # the values by cluster and attribute; of a structure, the members that are asserted
    for one in asserts:
        _, cluster, attribute, *member = one.attribute.split(".")
        if member:
            wanted[cluster, attribute] = {**wanted.get((cluster, attribute), {}), ".".join(member): one.value}
        else:
            wanted[cluster, attribute] = one.value
    if device is None or not wanted:
        return []
    usual: list[list[Action]] | None = None
    for settings in islice(_ways_to_set(wanted), MOST_PLANS):
        parts = _calls_for_settings(home, device, wanted, settings)
        if seconds_until(_play_parts(home, parts), {device_id: asserts}) is not None:
            return parts
        usual = parts if usual is None else usual
    return usual or []


def _ways_to_set(wanted: Mapping[Path, Any]) -> Iterator[list[Setting]]:
    """Orders and ways in which attributes may be set.

    The usual one comes first, then other orders, then orders in which more and more attributes are set in other ways.
    """
    off_last = wanted.get(SWITCH) in (False, 0)
    first, last = (SET_FIRST[1:], (*SET_LAST, "OnOff")) if off_last else (SET_FIRST, SET_LAST)
    places = [*first, None, *last]
    usual = sorted(wanted, key=lambda path: places.index(path[0] if path[0] in places else None))
    yield [(path, WAYS[0]) for path in usual]
    every = sorted(product(WAYS, repeat=len(usual)), key=lambda ways: sum(way != WAYS[0] for way in ways))
    more = (list(zip(order, ways)) for ways in every for order in permutations(usual))
    yield from islice(more, 1, None)


def _calls_for_settings(
    home: MatterHome, device: MatterDevice, wanted: Mapping[Path, Any], settings: Sequence[Setting]
) -> list[list[Action]]:
    """The calls that set attributes in this order and in these ways. Each is made for the home as the last one left it."""
    then = home.fork()
    calls = DeviceCalls(then, device)
    first: list[Action] = []  # what comes before any attribute is set
    if wanted.get(("OperationalState", "OperationalState")) == 1:  # a machine that shall run begins anew
        first = [*calls.switch_on_calls(), calls.command_call("OperationalState", "Stop")]
    elif settings[0][0] != SWITCH and not wanted.get(SWITCH) and needs_power(calls, {cluster for cluster, _ in wanted}):
        first = calls.switch_on_calls()
    sets = (act for path, way in settings for act in attribute_calls(DeviceCalls(then, device, way), *path, wanted[path]))
    parts: list[list[Action]] = [[]]
    for act in chain(first, sets):
        if any(act in part for part in parts):  # an agent that follows a plan makes each call of it once
            continue
        refused = _is_refused(then, act)
        if refused and parts[-1] and device.type.name == "rvc":
            passage.advance_home(then, then.tick + round(DOCKING_SECONDS / then.interval))
            tools.call_tool(then, act["name"], action_arguments(act))
            parts.append([])
        parts[-1].append(act)
    return parts


def _play_parts(home: MatterHome, parts: Iterable[Iterable[Action]]) -> MatterHome | None:
    """The home after the calls of a plan; None if one of them is refused."""
    then = home.fork()
    for number, part in enumerate(parts):
        if number:
            passage.advance_home(then, then.tick + round(DOCKING_SECONDS / then.interval))
        if any(_is_refused(then, act) for act in part):
            return None
    return then


def seconds_until(home: MatterHome | None, wanted: Mapping[str, Sequence[AttributeAssert]]) -> int | None:
    """The seconds after which the asserts of all devices hold, if nothing more is done.

    None if that takes longer than `LONGEST`, or if there is no home.
    """
    if home is None:
        return None
    then = home.fork()
    passage.advance_home(then, then.tick + evaluate.SETTLE_TICKS)
    held = (all(evaluate.asserts_hold(then, *one) for one in wanted.items()) for _ in _live_seconds(then))
    return next((second for second, holds in enumerate(held) if holds), None)


def seconds_until_taken(home: MatterHome, act: Action) -> int | None:
    """The seconds after which a call is accepted, if nothing is done before; None if that takes longer than `LONGEST`."""
    then = home.fork()
    return next((second for second in _live_seconds(then) if not _is_refused(then.fork(), act)), None)


def _is_refused(home: MatterHome, act: Action) -> bool:
    """Make a call, and say whether it is refused."""
    return tools.is_refused(tools.call_tool(home, act["name"], action_arguments(act)))


def _live_seconds(home: MatterHome) -> Iterator[int]:
    """The numbers of the next `LONGEST` seconds. After each of them the home lives for a second."""
    for second in range(LONGEST):
        yield second
        passage.advance_home(home, home.tick + max(1, round(1 / home.interval)))
