"""The reference agent: the calls that solve a feasible episode that a rule decides, in order.

A device's attributes depend on one another in ways that no order fits: a mode is refused while a machine runs, power that is
switched off takes a level with it. So plans are tried in forks of the home, the usual one first, until one meets the goal.

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
from itertools import chain, islice, permutations
from typing import Any, Literal

from envs.simuhome import evaluate, passage, tools, workflows
from envs.simuhome.clusters.thermostat import DEADBAND
from envs.simuhome.clusters.vacuum import IDLE
from envs.simuhome.config import TIME_FORMAT
from envs.simuhome.episodes import AttributeAssert, EpisodeFile, GoalSpec, TargetDevice, due_time_of
from envs.simuhome.home import Device, Home
from envs.simuhome.service import HEAT_PUMP_RANGES
from envs.simuhome.spec import Struct

Action = dict[str, Any]
Path = tuple[str, str]  # cluster and attribute
SWITCH: Path = ("OnOff", "OnOff")
LEADS = (5, 3, 2, 1)  # seconds by which a workflow runs before its goal: the usual, and those tried where that is too early
DOCKING_SECONDS = 12  # after which a vacuum that was called home takes another task
LONGEST = 40  # seconds within which a device does what it was told to
MOST_PLANS = 120  # of a device that are tried
Way = Literal["usual", "writing", "toggling"]  # how attributes are set: by commands, by writes instead, by `Toggle`
WAYS: tuple[Way, ...] = ("usual", "writing", "toggling")
WRITTEN = (  # clusters whose attributes can be written as well, also values that no command takes
    "LaundryWasherMode", "DishwasherMode", "RVCRunMode", "RVCCleanMode", "RTCCMode", "Channel", "TemperatureControl",
    "WindowCovering",
)  # fmt: skip
ADJUSTS = "PowerAdjustmentCapability"  # with it, strict mode refuses to raise a heat pump's setpoint
SETPOINTS = ("OccupiedHeatingSetpoint", "OccupiedCoolingSetpoint")
# Clusters are set in this order, since a device may need power or a mode first, and takes none while it runs.
SET_FIRST = ("OnOff", "LaundryWasherMode", "LaundryDryerControls", "Thermostat", "FanControl")
SET_LAST = ("RVCCleanMode", "RVCRunMode", "RVCOperationalState", "OperationalState")


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


def schedule_calls(home: Home, goals: Sequence[GoalSpec]) -> Iterator[Action]:
    """For each goal, the calls that schedule workflows, which make its targets hold just before the goal is due."""
    tried = (_calls_by_goal(home, goals, lead) for lead in LEADS)
    usual = next(tried)
    met = (calls for calls in chain((usual,), tried) if all(evaluate.timed_goals(goals, _scheduled(home, *calls.values()))))
    calls = next(met, usual)
    return (act for index in range(len(goals)) for act in calls[index])


def _calls_by_goal(home: Home, goals: Sequence[GoalSpec], lead: int) -> dict[int, list[Action]]:
    """The calls for each goal, by its index. They are made in the order in which goals are due."""
    calls: dict[int, list[Action]] = {}
    for index in sorted(range(len(goals)), key=lambda index: due_time_of(goals[index]).at_tick):
        calls[index] = _calls_of_goal(_scheduled(home, *calls.values()), goals[index], lead)
    return calls


def _scheduled(home: Home, *calls: Iterable[Action]) -> Home:
    """A fork of the home in which these workflows wait."""
    then = home.fork()
    for act in chain(*calls):
        if workflows.parse_time(act["start_time"]) > home.plan.base_time + timedelta(seconds=then.seconds):
            workflows.schedule_workflow(then, act["start_time"], act["steps"])
    return then


def _calls_of_goal(home: Home, goal: GoalSpec, lead: int) -> list[Action]:
    """The calls that schedule a goal's workflows. Each target's are made for the home as it is when they run.

    Targets with parts that must wait for one another have a workflow for each part.
    """
    due = due_time_of(goal).at_tick / 10
    by_lead: dict[int, list[Action]] = {}
    for target in goal.targets:
        parts, before = _planned(home, target, due - lead, lead)
        if before != lead:  # what takes time begins earlier, and the home may be another then
            parts, before = _planned(home, target, due - before, lead)
        for later, part in enumerate(reversed(parts)):
            steps = [{"tool": act["name"], "args": arguments_of(act)} for act in part]
            by_lead.setdefault(before + later * DOCKING_SECONDS, []).extend(steps)
    return [_schedule_call(home, due - before, steps) for before, steps in sorted(by_lead.items(), reverse=True) if steps]


def _planned(home: Home, target: TargetDevice, seconds: float, lead: int) -> tuple[list[list[Action]], int]:
    """(the calls for a target in a home after so many seconds, how long before its goal is due they are made)."""
    then = home.fork()
    passage.advance(then, max(then.tick, 10 * int(seconds) - 1))
    parts = fulfil_asserts(then, target.device_id, target.asserts)
    return parts, _lead(then, parts, target, lead)


def _schedule_call(home: Home, seconds: float, steps: list[Action]) -> Action:
    at = home.plan.base_time + timedelta(seconds=max(1, int(seconds)))
    return {"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps}


def _lead(home: Home, parts: list[list[Action]], target: TargetDevice, lead: int) -> int:
    """How many seconds before a target's goal is due the last calls are made.

    What holds for a while only, such as that a vacuum is docked before it stops, shall hold from as long before to as long
    after.
    """
    then = _played(home, parts)
    if then is None or _stays(then, target, 2 * lead):
        return lead
    passage.advance(then, then.tick + evaluate.SETTLE_TICKS)
    holds = [evaluate.asserts_hold(then, target.device_id, target.asserts) for _ in _seconds(then, LONGEST)]
    first = next((second for second, held in enumerate(holds) if held), 0)
    last = next((second for second, held in enumerate(holds) if second > first and not held), None)
    if last is not None and last < first + 2 * lead:
        return math.ceil((first + last) / 2)
    return lead + first + bool(first)


def _stays(home: Home, target: TargetDevice, seconds: int) -> bool:
    """Whether a target's asserts hold at once, and after so many seconds."""
    then = home.fork()
    for ticks in (evaluate.SETTLE_TICKS, round(seconds / then.interval)):
        passage.advance(then, then.tick + ticks)
        if not evaluate.asserts_hold(then, target.device_id, target.asserts):
            return False
    return True


# Commands and writes


class DeviceCalls:
    """Builds calls for one device."""

    def __init__(self, home: Home, device: Device, way: Way = "usual") -> None:
        self.home, self.device, self.way = home, device, way

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
        if away and self.is_tenths_away(mode, target) and self.way != "writing":
            return self.setpoint(mode, target)
        return [*away, self.write("Thermostat", SETPOINTS[mode], target)]

    def is_tenths_away(self, mode: int, target: int) -> bool:
        """Whether a setpoint can be moved to `target`."""
        now: int = self.read("Thermostat", SETPOINTS[mode])
        return (target - now) % 10 == 0

    def _clear(self, mode: int, target: float) -> list[Action]:
        """The call that takes the other setpoint out of the way of this one, now and at `target`, unless it is."""
        now, other = (self.read("Thermostat", SETPOINTS[at]) for at in (mode, 1 - mode))
        if abs(target - other) >= DEADBAND and (target > other) is bool(mode):
            return []
        away = min(now, target) - DEADBAND if mode else max(now, target) + DEADBAND
        if self.way == "writing":
            return [self.write("Thermostat", SETPOINTS[1 - mode], away)]
        tenths = (away - other) / 10
        return [self._move(1 - mode, math.floor(tenths) if mode else math.ceil(tenths))]

    def _move(self, mode: int, tenths: int) -> Action:
        return self.command("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(tenths, 500)))


# Attributes (QT3, QT4)


def arguments_of(act: Action) -> dict[str, Any]:
    """The arguments of a call."""
    return {key: value for key, value in act.items() if key != "name"}


def fulfil_asserts(home: Home, device_id: str, asserts: Sequence[AttributeAssert]) -> list[list[Action]]:
    """The calls that make a device's asserts hold, in parts: of the plans that are tried, the first that does so.

    A part must wait for `DOCKING_SECONDS` after the one before: a vacuum that cleans must have come home before it maps.
    """
    device = home.device(device_id)
    if device is None:
        return []
    wanted = _wanted(asserts)
    plans = (_plan(home, device, wanted, order, way) for way in WAYS for order in _orders(wanted))
    usual = next(plans)
    tried = chain((usual,), islice(plans, MOST_PLANS))
    return next((parts for parts in tried if seconds_until(_played(home, parts), device_id, asserts) is not None), usual)


def _orders(wanted: Mapping[Path, Any]) -> Iterator[list[Path]]:
    """The orders in which attributes may be set, the usual one first."""
    off_last = wanted.get(SWITCH) in (False, 0)
    first, last = (SET_FIRST[1:], (*SET_LAST, "OnOff")) if off_last else (SET_FIRST, SET_LAST)
    order = [*first, None, *last]
    usual = sorted(wanted, key=lambda path: order.index(path[0] if path[0] in order else None))
    yield from map(list, permutations(usual))


def _plan(home: Home, device: Device, wanted: Mapping[Path, Any], order: Sequence[Path], way: Way) -> list[list[Action]]:
    """The calls that set attributes in this order and way, each for the home as those before it leave it."""
    then = home.fork()
    calls = DeviceCalls(then, device, way)
    parts: list[list[Action]] = [[]]
    for act in chain(
        _prepare(calls, wanted, order), (act for path in order for act in _set_attribute(calls, *path, wanted[path]))
    ):
        if any(act in part for part in parts):  # an agent that follows a plan makes each call of it once
            continue
        refused = _is_refused(then, act)
        if refused and parts[-1] and device.type.name == "rvc":
            passage.advance(then, then.tick + round(DOCKING_SECONDS / then.interval))
            tools.call_tool(then, act["name"], arguments_of(act))
            parts.append([])
        parts[-1].append(act)
    return parts


def _prepare(calls: DeviceCalls, wanted: Mapping[Path, Any], order: Sequence[Path]) -> list[Action]:
    """What comes before any attribute is set: the power, and that a machine which shall run begins anew."""
    if wanted.get(("OperationalState", "OperationalState")) == 1:
        return [*calls.switch_on(), calls.command("OperationalState", "Stop")]
    if order[0] == SWITCH or wanted.get(SWITCH):
        return []
    return calls.switch_on() if _needs_power(calls, {cluster for cluster, _ in wanted}) else []


def _played(home: Home, parts: Iterable[Iterable[Action]]) -> Home | None:
    """The home after the calls of a plan; None if one of them is refused."""
    then = home.fork()
    for number, part in enumerate(parts):
        if number:
            passage.advance(then, then.tick + round(DOCKING_SECONDS / then.interval))
        if any(_is_refused(then, act) for act in part):
            return None
    return then


def seconds_until(home: Home | None, device_id: str, asserts: Sequence[AttributeAssert]) -> int | None:
    """The seconds after which asserts hold of a device, if nothing more is done.

    None if they do not hold within `LONGEST`, or if there is no home.
    """
    if home is None:
        return None
    then = home.fork()
    passage.advance(then, then.tick + evaluate.SETTLE_TICKS)
    held = (second for second in _seconds(then, LONGEST) if evaluate.asserts_hold(then, device_id, asserts))
    return next(held, None)


def seconds_until_taken(home: Home, act: Action) -> int | None:
    """The seconds after which a call is not refused, if nothing is done before; None if it is within `LONGEST`."""
    then = home.fork()
    return next((second for second in _seconds(then, LONGEST) if not _is_refused(then.fork(), act)), None)


def _is_refused(home: Home, act: Action) -> bool:
    """Make a call, and say whether it is refused."""
    return tools.is_refused(tools.call_tool(home, act["name"], arguments_of(act)))


def _seconds(home: Home, most: int) -> Iterator[int]:
    """Let the home live second by second, from now on."""
    for second in range(most):
        yield second
        passage.advance(home, home.tick + max(1, round(1 / home.interval)))


def _wanted(asserts: Iterable[AttributeAssert]) -> dict[Path, Any]:
    """What is wanted, by cluster and attribute. Of a structure it is an object with the members that are asserted."""
    wanted: dict[Path, Any] = {}
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
        case "OnOff", _ if calls.way == "toggling" and calls.is_off is bool(value):
            yield calls.command("OnOff", "Toggle")
        case "OnOff", _:
            yield calls.command("OnOff", "On" if value else "Off")
        case "LaundryWasherControls", _ if calls.way == "toggling" and value is None:  # as after it was switched off
            yield from (*calls.switch_on(), calls.command("OnOff", "Off"))
        case _ if calls.way == "writing" and cluster in WRITTEN:
            yield calls.write(cluster, attribute, value)
        case "LevelControl", "CurrentLevel":
            options = {"OptionsMask": 1, "OptionsOverride": 1} if calls.is_off else {}
            yield calls.command("LevelControl", "MoveToLevel", Level=value, **options)
        case "FanControl", "PercentCurrent" | "SpeedCurrent":
            yield calls.write("FanControl", attribute.replace("Current", "Setting"), value)
        case "WindowCovering", "CurrentPositionLiftPercent100ths" | "TargetPositionLiftPercent100ths":
            yield calls.command("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=value)
        case "TemperatureControl", _:
            yield calls.command("TemperatureControl", "SetTemperature", target_temperature=value)
        case "Thermostat", "OccupiedHeatingSetpoint":
            moved = calls.is_tenths_away(0, value) and calls.way != "writing"
            yield from calls.setpoint(0, value) if moved else calls.exact_setpoint(0, value)
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
    if now == 0 and state in (64, 66):
        yield calls.command("RVCOperationalState", "GoHome")


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
