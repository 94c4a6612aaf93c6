"""What a flawless agent does in a feasible episode that a rule decides: its calls, in order.

Invariants: every call is one that an agent could make; nothing is read that an agent could not read; what is wanted at a
time is scheduled a little ahead of it, since a workflow due at a tick is seen only after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from envs.simuhome.config import TIME_FORMAT
from envs.simuhome.episodes import Assert, Episode, Goal, time_of
from envs.simuhome.home import Device, Home

Action = dict[str, Any]
AHEAD = 50  # ticks
NEEDS = ("OnOff", "LaundryWasherMode", "LaundryDryerControls", "Thermostat", "FanControl")  # the order in which to set


def reference(episode: Episode, home: Home) -> list[Action]:
    """Required actions, then what reaches the goals from `home`."""
    looks = [{"name": action.tool, **action.params} for action in episode.eval.required_actions]
    kind, goals = episode.meta.query_type, episode.eval.goals
    if kind == "qt2":
        acts = [act for goal in goals for act in levers(home, goal.room_id, goal.room_state, goal.direction)]
    elif kind == "qt3":
        acts = [act for goal in goals for act in fulfil(home, goal.device_id, goal.asserts)]
    else:
        acts = [schedule(home, goal, goals) for goal in goals]
    return [*looks, *acts, {"name": "finish", "answer": "Done."}]


def schedule(home: Home, goal: Goal, goals: Iterable[Goal]) -> Action:
    """A workflow that brings a goal's targets about just before its time."""
    due = time_of(goal).at_tick
    earlier = {t.device_id for other in goals if time_of(other).at_tick < due for t in other.targets}
    steps = [
        {"tool": act["name"], "args": {key: value for key, value in act.items() if key != "name"}}
        for target in goal.targets
        for act in fulfil(home, target.device_id, target.asserts, running=target.device_id in earlier)
    ]
    at = home.plan.base_time + timedelta(seconds=max(1, (due - AHEAD) // 10))
    return {"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps}


# Commands and writes


class Worker:
    """Writes calls for one device."""

    def __init__(self, home: Home, device: Device) -> None:
        self.home, self.device = home, device

    def read(self, cluster: str, attribute: str) -> Any:
        """The present value of an attribute."""
        return self.home.view(self.device.id, cluster)[attribute]

    def do(self, cluster: str, command: str, **args: Any) -> Action:
        """The call of a command."""
        return {"name": "execute_command", **self._place(cluster), "command_id": command, "args": args}

    def write(self, cluster: str, attribute: str, value: Any) -> Action:
        """The write of an attribute."""
        return {"name": "write_attribute", **self._place(cluster), "attribute_id": attribute, "value": value}

    def _place(self, cluster: str) -> Action:
        endpoint = self.device.type.where[cluster]
        return {"device_id": self.device.id, "endpoint_id": endpoint, "cluster_id": cluster}

    def on(self) -> list[Action]:
        """The call that switches the device on, if it can be switched."""
        return [self.do("OnOff", "On")] if "OnOff" in self.device.type.where else []

    def setpoint(self, mode: int, target: float) -> Action:
        """A setpoint by raising or lowering it, which no dead band forbids."""
        attribute = "OccupiedCoolingSetpoint" if mode else "OccupiedHeatingSetpoint"
        amount = round((target - self.read("Thermostat", attribute)) / 10)
        return self.do("Thermostat", "SetpointRaiseLower", Mode=mode, Amount=max(-500, min(amount, 500)))


# Attributes (QT3, QT4)


def fulfil(home: Home, device_id: str, asserts: Iterable[Assert], running: bool = False) -> list[Action]:
    """Calls that make a device's asserts hold; `running` says that its programme will run by then."""
    device = home.device(device_id)
    if device is None:
        return []
    wanted: dict[tuple[str, str], Any] = {}
    for one in asserts:
        cluster, attribute = one.attribute.split(".")[1:3]
        wanted[cluster, attribute] = one.value
    ordered = sorted(wanted, key=lambda path: NEEDS.index(path[0]) if path[0] in NEEDS else len(NEEDS))
    worker = Worker(home, device)
    starts = wanted.get(("OperationalState", "OperationalState")) == 1
    prepare = [*worker.on(), worker.do("OperationalState", "Stop")] if starts else []
    if not starts and wanted.get(("OnOff", "OnOff")) is None and "FanControl" in {cluster for cluster, _ in wanted}:
        prepare = worker.on()
    return [*prepare, *(act for path in ordered for act in _set(worker, *path, wanted[path], running))]


def _set(worker: Worker, cluster: str, attribute: str, value: Any, running: bool) -> Iterator[Action]:
    match cluster, attribute:
        case "OnOff", _:
            yield worker.do("OnOff", "On" if value else "Off")
        case "LevelControl", "CurrentLevel":
            yield worker.do("LevelControl", "MoveToLevel", Level=value)
        case "WindowCovering", _:
            yield worker.do("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=value)
        case "TemperatureControl", _:
            yield worker.do("TemperatureControl", "SetTemperature", target_temperature=value)
        case "Thermostat", "OccupiedHeatingSetpoint":
            yield worker.setpoint(0, value)
        case "LaundryWasherMode" | "DishwasherMode", _:
            yield worker.do(cluster, "ChangeToMode", new_mode=value)
        case "OperationalState", _:
            yield from _operate(worker, value, running)
        case "RVCOperationalState", _:
            yield from _clean(worker, value)
        case "MediaPlayback", _:
            yield from _play(worker, value)
        case "Channel", "CurrentChannel":
            yield worker.do("Channel", "ChangeChannelByNumber", major_number=value)
        case _:
            yield worker.write(cluster, attribute, value)


def _operate(worker: Worker, state: int, running: bool) -> Iterator[Action]:
    running = running or worker.read("OperationalState", "OperationalState") == 1
    if state == 2 and not running:
        yield from (*worker.on(), worker.do("OperationalState", "Start"))
    yield worker.do("OperationalState", {0: "Stop", 1: "Start", 2: "Pause"}[state])


def _clean(worker: Worker, state: int) -> Iterator[Action]:
    now = worker.read("RVCOperationalState", "OperationalState")
    if now == 2 and state == 1:
        yield worker.do("RVCOperationalState", "Resume")
    elif now not in (1, 2) and state in (1, 2):
        yield worker.do("RVCRunMode", "ChangeToMode", new_mode=2)
    if state == 2 and now != 2:
        yield worker.do("RVCOperationalState", "Pause")


def _play(worker: Worker, state: int) -> Iterator[Action]:
    now = worker.read("MediaPlayback", "CurrentState")
    if now != 0 and state in (0, 1):
        yield worker.do("MediaPlayback", "Play")
    if state == 1 and now != 1:
        yield worker.do("MediaPlayback", "Pause")
    if state == 2 and now != 2:
        yield worker.do("MediaPlayback", "Stop")


# Room variables (QT2)


def levers(home: Home, room: str, variable: str, direction: str) -> list[Action]:
    """Every call in a room that moves a variable in a direction."""
    up, value = direction == "increase", home.room_state(room)[variable]
    acts: list[Action] = []
    for device in home.plan.by_room[room]:
        if lever := _LEVERS.get((device.type.name, variable)):
            acts += lever(Worker(home, device), up, value)
    return acts


def _air_conditioner(worker: Worker, up: bool, value: float) -> Iterator[Action]:
    if up:
        yield worker.do("OnOff", "Off")
        return
    yield from (*worker.on(), worker.write("Thermostat", "SystemMode", 3), worker.setpoint(1, value - 500))
    yield worker.write("FanControl", "PercentSetting", 100)


def _heat_pump(worker: Worker, up: bool, value: float) -> Iterator[Action]:
    yield worker.write("Thermostat", "SystemMode", 4 if up else 0)
    if up:
        yield worker.setpoint(0, value + 500)


def _blow(worker: Worker, helps: bool) -> Iterator[Action]:
    if helps:
        yield from (*worker.on(), worker.write("FanControl", "PercentSetting", 100))
    else:
        yield worker.do("OnOff", "Off")


def _light(worker: Worker, up: bool, value: float) -> Iterator[Action]:
    yield worker.do("OnOff", "On" if up else "Off")
    if up and "LevelControl" in worker.device.type.where:
        yield worker.do("LevelControl", "MoveToLevel", Level=254)


_LEVERS: Mapping[tuple[str, str], Any] = {
    ("air_conditioner", "temperature"): _air_conditioner,
    ("heat_pump", "temperature"): _heat_pump,
    ("fan", "temperature"): lambda worker, up, _: _blow(worker, not up),
    ("humidifier", "humidity"): lambda worker, up, _: _blow(worker, up),
    ("dehumidifier", "humidity"): lambda worker, up, _: _blow(worker, not up),
    ("air_purifier", "pm10"): lambda worker, up, _: _blow(worker, not up),
    ("on_off_light", "illuminance"): _light,
    ("dimmable_light", "illuminance"): _light,
}
