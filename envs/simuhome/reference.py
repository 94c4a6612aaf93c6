"""The reference agent: the calls that solve a feasible episode that a rule decides, in order.

Invariants:
- Every call is one that an agent could make, and rests only on what an agent could read.
- What must hold at a time is scheduled a little earlier, because the effect of a workflow is only seen after its tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from envs.simuhome.config import TIME_FORMAT
from envs.simuhome.episodes import AttributeAssert, EpisodeFile, GoalSpec, due_time_of
from envs.simuhome.home import Device, Home

Action = dict[str, Any]
LEAD_TICKS = 50  # how much earlier than its goal a workflow runs: 5 s
# Clusters are set in this order, since a device may need power or a mode first. All others follow.
SET_ORDER = ("OnOff", "LaundryWasherMode", "LaundryDryerControls", "Thermostat", "FanControl")


def reference_calls(episode: EpisodeFile, home: Home) -> list[Action]:
    """The required actions, then the calls that reach all goals from the state of `home`, then `finish`."""
    looks = [{"name": action.tool, **action.params} for action in episode.eval.required_actions]
    kind, goals = episode.meta.query_type, episode.eval.goals
    if kind == "qt2":
        acts = [act for goal in goals for act in moving_calls(home, goal.room_id, goal.room_state, goal.direction)]
    elif kind == "qt3":
        acts = [act for goal in goals for act in fulfil_asserts(home, goal.device_id, goal.asserts)]
    else:
        acts = [schedule_call(home, goal, goals) for goal in goals]
    return [*looks, *acts, {"name": "finish", "answer": "Done."}]


def schedule_call(home: Home, goal: GoalSpec, goals: Iterable[GoalSpec]) -> Action:
    """The call that schedules a workflow, which makes a goal's targets hold just before the goal is due."""
    due = due_time_of(goal).at_tick
    earlier = {t.device_id for other in goals if due_time_of(other).at_tick < due for t in other.targets}
    steps = [
        {"tool": act["name"], "args": {key: value for key, value in act.items() if key != "name"}}
        for target in goal.targets
        for act in fulfil_asserts(home, target.device_id, target.asserts, running=target.device_id in earlier)
    ]
    at = home.plan.base_time + timedelta(seconds=max(1, (due - LEAD_TICKS) // 10))
    return {"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps}


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

    def setpoint(self, mode: int, target: float) -> Action:
        """The call that moves a setpoint (`mode` 0: heating, 1: cooling) to `target`, in 0.01 °C.

        It raises or lowers the setpoint. A write could be refused, because the two setpoints must stay apart.
        """
        attribute = "OccupiedCoolingSetpoint" if mode else "OccupiedHeatingSetpoint"
        amount = round((target - self.read("Thermostat", attribute)) / 10)
        return self.command("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(amount, 500)))


# Attributes (QT3, QT4)


def fulfil_asserts(home: Home, device_id: str, asserts: Iterable[AttributeAssert], running: bool = False) -> list[Action]:
    """The calls that make a device's asserts hold. `running` says that its programme will be running by then."""
    device = home.device(device_id)
    if device is None:
        return []
    wanted: dict[tuple[str, str], Any] = {}
    for one in asserts:
        cluster, attribute = one.attribute.split(".")[1:3]
        wanted[cluster, attribute] = one.value
    ordered = sorted(wanted, key=lambda path: SET_ORDER.index(path[0]) if path[0] in SET_ORDER else len(SET_ORDER))
    calls = DeviceCalls(home, device)
    starts = wanted.get(("OperationalState", "OperationalState")) == 1
    prepare = [*calls.switch_on(), calls.command("OperationalState", "Stop")] if starts else []
    if not starts and wanted.get(("OnOff", "OnOff")) is None and "FanControl" in {cluster for cluster, _ in wanted}:
        prepare = calls.switch_on()
    return [*prepare, *(act for path in ordered for act in _set_attribute(calls, *path, wanted[path], running))]


def _set_attribute(calls: DeviceCalls, cluster: str, attribute: str, value: Any, running: bool) -> Iterator[Action]:
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
            yield calls.setpoint(0, value)
        case "LaundryWasherMode" | "DishwasherMode", _:
            yield calls.command(cluster, "ChangeToMode", new_mode=value)
        case "OperationalState", _:
            yield from _set_operational_state(calls, value, running)
        case "RVCOperationalState", _:
            yield from _set_vacuum_state(calls, value)
        case "MediaPlayback", _:
            yield from _set_playback_state(calls, value)
        case "Channel", "CurrentChannel":
            yield calls.command("Channel", "ChangeChannelByNumber", major_number=value)
        case _:
            yield calls.write(cluster, attribute, value)


def _set_operational_state(calls: DeviceCalls, state: int, running: bool) -> Iterator[Action]:
    running = running or calls.read("OperationalState", "OperationalState") == 1
    if state == 2 and not running:
        yield from (*calls.switch_on(), calls.command("OperationalState", "Start"))
    yield calls.command("OperationalState", {0: "Stop", 1: "Start", 2: "Pause"}[state])


def _set_vacuum_state(calls: DeviceCalls, state: int) -> Iterator[Action]:
    now = calls.read("RVCOperationalState", "OperationalState")
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
    yield from (*calls.switch_on(), calls.write("Thermostat", "SystemMode", 3), calls.setpoint(1, value - 500))
    yield calls.write("FanControl", "PercentSetting", 100)


def _heat_pump(calls: DeviceCalls, up: bool, value: float) -> Iterator[Action]:
    yield calls.write("Thermostat", "SystemMode", 4 if up else 0)
    if up:
        yield calls.setpoint(0, value + 500)


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
