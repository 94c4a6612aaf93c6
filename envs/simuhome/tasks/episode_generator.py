"""Generating new episodes from a seed: homes, goals and requests of the 12 groups (SimuHome, sections 4.1 and 4.2, A.5).

A group is one of the six query types, with requests that are feasible or infeasible. Homes have five rooms and 19 to 33
devices, some of which are running. Times are in ticks of 0.1 s or in whole minutes since the start of the episode.

Invariants:
- The same arguments give the same episode. Each is tested before it is returned.
- Calls lead from a home whose devices are all off to the home of an episode, so the simulator can be in that state.
- In a feasible episode that a rule decides, the reference agent passes. An agent that only makes the required actions
  reaches no goal. QT4-3 is an exception, because there a machine may have to be stopped at first: such an agent misses
  at least one goal.
- In an infeasible episode one of three things holds: the device does not exist, no call in the room moves the variable,
  or the two times in the request differ by at least five minutes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from homerl.envs.core.world import action_arguments
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service, tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.air import WATCHED
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT, VARIABLES, EpisodeFile, GoalSpec, HomeConfig
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.sim.reference_solution import DeviceCalls, moving_calls, solution_calls
from homerl.envs.simuhome.tasks.sentences import SCALE, plain_speaker, request_text

FIXED_ROOMS = ("bathroom", "kitchen", "living_room", "utility_room")
OTHER_ROOMS = ("bedroom", "dining_room", "study_room", "kids_room", "office")
LIGHTS = ("on_off_light", "dimmable_light")
AIR = ("air_purifier", "humidifier", "dehumidifier", "fan")
LIVING = (*LIGHTS, *AIR, "air_conditioner", "heat_pump", "tv", "window_covering_controller", "rvc")
KINDS_BY_ROOM: dict[str, Sequence[str]] = {
    "bathroom": (*LIGHTS, *AIR, "laundry_washer", "laundry_dryer", "window_covering_controller"),
    "kitchen": (*LIGHTS, *AIR, "dishwasher", "refrigerator", "freezer", "rvc", "heat_pump"),
    "utility_room": (*LIGHTS, *AIR, "laundry_washer", "laundry_dryer", "dishwasher", "freezer", "heat_pump"),
    "living_room": LIVING,
}
FIXED_KINDS = {
    "bathroom": ("laundry_washer",),
    "kitchen": ("dishwasher", "refrigerator"),
    "utility_room": ("laundry_dryer", "laundry_washer"),
}
ALL_KINDS = tuple(sorted({kind for kinds in (*KINDS_BY_ROOM.values(), *FIXED_KINDS.values()) for kind in kinds}))
MAX_OF_A_KIND = 2


@dataclass(frozen=True)
class Scale:
    """The size of homes: the fewest and the most devices, and the kinds that they may have. The defaults are the paper's."""

    devices: tuple[int, int] = (19, 33)
    kinds: tuple[str, ...] = ALL_KINDS


def furnished_config(rng: Random, scale: Scale = Scale()) -> HomeConfig:
    """The configuration of a random home whose devices have been used a little."""
    rooms = [*FIXED_ROOMS, rng.choice(OTHER_ROOMS)]
    chosen = {room: [kind for kind in FIXED_KINDS.get(room, ()) if kind in scale.kinds] for room in rooms}
    for _ in range(rng.randint(*scale.devices) - sum(map(len, chosen.values()))):
        room = rng.choice(rooms)
        kinds = [kind for kind in KINDS_BY_ROOM.get(room, LIVING) if kind in scale.kinds]
        if free := [kind for kind in kinds if chosen[room].count(kind) < MAX_OF_A_KIND]:
            chosen[room].append(rng.choice(free))
    base_time = f"2025-08-23 {rng.randint(7, 19):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    filled: dict[str, Any] = {}
    for room in rooms:
        state = {name: float(rng.randint(*bounds)) for name, bounds in STARTING_AIR.items()}
        devices, numbers = [], Counter[str]()
        for kind in sorted(chosen[room]):
            numbers[kind] += 1
            devices.append({"device_id": f"{room}_{kind}_{numbers[kind]}", "device_type": kind})
        filled[room] = {"state": state, "devices": devices}
    home = load.start_home({"base_time": base_time, "rooms": filled})
    for device in home.plan.devices.values():
        perform_calls(home, _draw_past_calls(rng, DeviceCalls(home, device)))
    passage.advance_home(home, 10 * rng.randint(2, 300))
    return home_to_config(home)


STARTING_AIR = {"temperature": (2000, 2900), "humidity": (3200, 6800), "illuminance": (150, 700), "pm10": (15, 60)}


def _draw_past_calls(rng: Random, calls: DeviceCalls) -> list[dict[str, Any]]:
    """Calls that someone may have made for a device before the episode."""
    kind = calls.device.type.name
    if kind == "air_conditioner":
        return [*calls.switch_on_calls(), calls.write_call("Thermostat", "SystemMode", 3)]
    if kind == "heat_pump":
        return [calls.write_call("Thermostat", "SystemMode", rng.choice((0, 4)))]
    if kind in AIR and rng.random() < 0.4:
        return [*calls.switch_on_calls(), calls.write_call("FanControl", "PercentSetting", rng.randint(5, 80))]
    if kind == "dimmable_light" and rng.random() < 0.5:
        return [*calls.switch_on_calls(), calls.command_call("LevelControl", "MoveToLevel", Level=rng.randint(1, 254))]
    if calls.device.type.cycle:
        starts = rng.random() < 0.5
        return calls.switch_on_calls() + ([calls.command_call("OperationalState", "Start")] if starts else [])
    if kind == "window_covering_controller":
        position = rng.choice((0, 5000, 7525, 10000))
        return [calls.command_call("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=position)]
    return []


def perform_calls(home: MatterHome, acts: list[dict[str, Any]]) -> None:
    """Run commands and writes in a home. Raises `OperationError` if one is refused, which is an error of the caller."""
    for act in acts:
        run = service.execute_command if act["name"] == "execute_command" else service.write_attribute
        run(home, **action_arguments(act))


def home_to_config(home: MatterHome) -> HomeConfig:
    """The configuration of a home that starts in the present state of `home`, as plain JSON values."""
    return HomeConfig(base_time=home.clock_text, rooms=json.loads(json.dumps(service.home_state(home)["rooms"])))


@dataclass(frozen=True)
class EpisodeDraft:
    """An episode before it is tested and worded.

    `required` holds the required actions; None stands for reading the devices of the goals' rooms. `conflict` describes
    the contradiction of an infeasible QT4 episode.
    """

    config: HomeConfig
    goals: list[dict[str, Any]]
    meta: dict[str, Any] = field(default_factory=dict)
    required: list[dict[str, Any]] | None = None
    conflict: dict[str, Any] | None = None


class UnfitHome(Exception):
    """This home does not offer what the episode needs. The next one is tried."""


MAX_HOMES = 200
# The order of random draws decides what a seed gives, so a draw must stay where it is.


def generate_episode(query_type: str, case: str, seed: int, scale: Scale = Scale()) -> EpisodeFile:
    """The episode of a seed.

    `query_type` is one of `qt1`, `qt2`, `qt3`, `qt4-1`, `qt4-2` and `qt4-3`; `case` is `feasible` or `infeasible`.
    Raises `RuntimeError` if no episode came of 200 homes.
    """
    for attempt in range(MAX_HOMES):
        rng = Random(f"{query_type} {case} {seed} {attempt}")
        try:
            config = furnished_config(rng, scale)
            home = load.start_home(config)
            draft = MAKERS[query_type](rng, config, home, case == "feasible")
            if not {goal["device_type"] for goal in draft.goals if "device_type" in goal} <= set(scale.kinds):
                continue  # a kind that homes of this scale never have would show by itself that the device is missing
            rooms = [target["room_id"] for goal in draft.goals for target in goal.get("targets", [goal])]
            looks = [{"tool": "get_room_devices", "params": {"room_id": room}} for room in dict.fromkeys(rooms)]
            devices = sum(len(room.devices) for room in draft.config.rooms.values())
            meta = {"seed": seed, "query_type": query_type, "case": case, "num_rooms": len(draft.config.rooms)}
            written = {
                "meta": meta | {"num_devices": devices, **draft.meta},
                "query": "",
                "user_location": rng.choice(sorted(draft.config.rooms)),
                "temporal_conflict": draft.conflict,
                "eval": {"required_actions": looks if draft.required is None else draft.required, "goals": draft.goals},
                "initial_home_config": draft.config,
            }
            episode = EpisodeFile.model_validate(written)
            _prove_episode(episode)
            query = request_text(episode, plain_speaker("en"))
            return episode.model_copy(update={"query": query[0].upper() + query[1:]})
        except UnfitHome:
            continue
    raise RuntimeError(f"no {query_type} {case} episode came of seed {seed} in {MAX_HOMES} homes")


def _prove_episode(episode: EpisodeFile) -> None:
    """Test an episode that a rule decides: see the module's invariants. Raises `UnfitHome` if it fails."""
    if not episode.is_decided_by_rule:
        return
    home = load.start_home(episode.initial_home_config)
    idle = evaluate.evaluate_episode(episode, evaluate.final_state(home), ())
    calls: list[evaluate.AgentCall] = []
    for action in solution_calls(episode, home):
        arguments = action_arguments(action)
        refused = tools.is_refused(tools.call_tool(home, action["name"], arguments))
        calls.append(evaluate.AgentCall(action["name"], arguments, refused))
    done = evaluate.evaluate_episode(episode, evaluate.final_state(home), calls)
    reached_by_nothing = all(idle.goals) if episode.meta.query_type == "qt4-3" else any(idle.goals)
    if done.score != evaluate.PASS or reached_by_nothing or any(call.refused for call in calls):
        raise UnfitHome


# What people may want of each kind of device: asserts that can hold together

PROGRAMMES = ("dishwasher", "laundry_washer", "laundry_dryer")
AT_ONCE = (  # kinds that have what is wanted as soon as they are told
    "on_off_light", "dimmable_light", "fan", "air_purifier", "humidifier", "dehumidifier", "air_conditioner", "heat_pump",
    "window_covering_controller", "freezer", "refrigerator",
)  # fmt: skip
WANTED_KINDS = (*AT_ONCE, *PROGRAMMES, "tv")


def assert_entry(attribute: str, value: Any, kind: str, description: str) -> dict[str, Any]:
    """An assert in the released file format."""
    return {"attribute": attribute, "value": value, "value_type": kind, "description": description}


POWER = assert_entry("1.OnOff.OnOff", True, "bool", "power on")


def draw_asserts(kind: str, rng: Random) -> list[dict[str, Any]]:
    """What somebody may want of a device of one of the `WANTED_KINDS`."""
    match kind:
        case "on_off_light":
            return [POWER]
        case "dimmable_light":
            level = rng.randrange(10, 250, 10)
            return [POWER, assert_entry("1.LevelControl.CurrentLevel", level, "level", f"level {level}")]
        case "heat_pump":
            return [assert_entry("4.Thermostat.SystemMode", 4, "enum", "heating mode")]
        case "window_covering_controller":
            closed = rng.randrange(5, 100, 5)
            path = "1.WindowCovering.TargetPositionLiftPercent100ths"
            return [assert_entry(path, closed * 100, "position_percent100ths", f"{closed}% closed")]
        case "tv":
            return [POWER, assert_entry("1.MediaPlayback.CurrentState", 0, "enum", "playing")]
        case "freezer" | "refrigerator":
            degrees = rng.randint(-23, -16) if kind == "freezer" else rng.randint(1, 6)
            path = "1.TemperatureControl.TemperatureSetpoint"
            return [assert_entry(path, degrees * 100, "temperature", f"{degrees} degrees")]
        case "dishwasher" | "laundry_washer" | "laundry_dryer":
            return [POWER, assert_entry("1.OperationalState.OperationalState", 1, "enum", "running")]
    percent = rng.randrange(10, 101, 10)
    fan = assert_entry("1.FanControl.PercentSetting", percent, "percent", f"fan {percent}%")
    cools = [assert_entry("1.Thermostat.SystemMode", 3, "enum", "cooling mode")] if kind == "air_conditioner" else []
    return [POWER, *cools, fan]


def _pick_devices(rng: Random, home: MatterHome, count: int, kinds: tuple[str, ...] = WANTED_KINDS) -> list[MatterDevice]:
    """`count` devices of these kinds, drawn without replacement. Raises `UnfitHome` if the home has fewer."""
    fitting = [device for device in home.plan.devices.values() if device.type.name in kinds]
    if len(fitting) < count:
        raise UnfitHome
    return rng.sample(fitting, count)


def _absent_device(rng: Random, home: MatterHome) -> dict[str, str]:
    """The fields of a device that does not exist: its room has none of its kind."""
    room = rng.choice(list(home.plan.rooms))
    missing = sorted(set(WANTED_KINDS) - {device.type.name for device in home.plan.devices_by_room[room]})
    if not missing:
        raise UnfitHome
    kind = rng.choice(missing)
    return {"room_id": room, "device_id": f"{room}_{kind}_1", "device_type": kind}


def _device_fields(device: MatterDevice) -> dict[str, str]:
    """Room, id and type of a device, with the keys of a goal."""
    return {"room_id": device.room, "device_id": device.id, "device_type": device.type.name}


def _draw_target(device: MatterDevice, rng: Random) -> dict[str, Any]:
    """A device with something that is wanted of it, with the keys of a QT4 target."""
    return {**_device_fields(device), "asserts": draw_asserts(device.type.name, rng)}


# Goals without a time

UNITS = {"temperature": "°C", "humidity": "%", "illuminance": "lux", "pm10": "μg/m³"}
COMPLAINTS = [  # changes of a room's variable that people ask for; of dust nobody wants more
    *((name, way) for name in ("humidity", "illuminance") for way in ("decrease", "increase")),
    ("pm10", "decrease"), ("temperature", "decrease"), ("temperature", "increase"),
]  # fmt: skip


def _ask_for_values(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT1: ask for an attribute of a device, and in half of the episodes for a room variable too."""
    place = _device_fields(_pick_devices(rng, home, 1)[0]) if feasible else _absent_device(rng, home)
    attribute = draw_asserts(place["device_type"], rng)[-1]["attribute"]
    goals = [{"variant": "device_attribute", **place, "attribute": attribute}]
    required = [{"tool": "get_room_devices", "params": {"room_id": place["room_id"]}}]
    if rng.random() < 0.5:
        room, variable = rng.choice(sorted(home.plan.rooms)), rng.choice(sorted(VARIABLES))
        value = round(home.room_state(room)[variable] / SCALE[variable], 2)
        reading = {"room_id": room, "room_state": variable, "current_value": value, "unit": UNITS[variable]}
        goals.append({"variant": "room_state", **reading})
        required.append({"tool": "get_room_states", "params": {"room_id": room}})
    counts = {"num_target_device_attributes": 1, "num_target_room_states": len(goals) - 1}
    return EpisodeDraft(config, goals, counts, required)


def _complain_of_air(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT2: complain about a room variable."""
    meta: dict[str, Any] = {"feasibility": feasible}
    saturates = not feasible and rng.random() < 0.5  # where the request is feasible, nothing is drawn
    rooms = rng.sample(sorted(home.plan.rooms), rng.randint(1, 2) if feasible else 1)
    wishes = [(room, *rng.choice(COMPLAINTS)) for room in rooms]
    goals = [{"room_id": room, "room_state": name, "direction": way} for room, name, way in wishes]
    if feasible:
        if not all(moving_calls(home, *wish) for wish in wishes):
            raise UnfitHome
        goals = [goal | meta for goal in goals]
    elif saturates:
        config = _saturated_config(home, *wishes[0])
        goals = [goals[0] | meta]
        meta["infeasible_family"] = "contextual_saturation"
    else:
        room, name, _ = wishes[0]
        absent = rng.choice(WATCHED[name])
        if any(device.type.name in WATCHED[name] for device in home.plan.devices_by_room[room]):
            raise UnfitHome
        goals = [goals[0] | {"device_id": f"{room}_{absent}_1", "device_type": absent}]
        meta["infeasible_family"] = "nonexistence"
    return EpisodeDraft(config, goals, meta | {"num_target_metrics": len(goals)})


def _saturated_config(home: MatterHome, room: str, variable: str, direction: str) -> HomeConfig:
    """The home after every call that moves the variable in this direction was made, so that nothing can be done any more."""
    acts = moving_calls(home, room, variable, direction)
    if not acts:
        raise UnfitHome
    used = home.fork()
    perform_calls(used, acts)
    config = home_to_config(used)
    home = load.start_home(config)
    again = home.fork()
    perform_calls(again, moving_calls(again, room, variable, direction))
    goal = GoalSpec(room_id=room, room_state=variable, direction=direction)
    if evaluate.has_variable_moved(goal, evaluate.final_state(again), evaluate.final_state(home)):
        raise UnfitHome
    return config


def _command_devices(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT3: set devices."""
    count = rng.randint(1, 3)
    places = [_device_fields(device) for device in _pick_devices(rng, home, count)] if feasible else []
    while not feasible and len(places) < count:
        absent = _absent_device(rng, home)
        places += [absent] if absent not in places else []
    goals = [{**place, "asserts": draw_asserts(place["device_type"], rng)} for place in places]
    return EpisodeDraft(config, goals, {"devices_count": count})


# Goals at a time

MINUTE = 600  # ticks
TOLERANCE = 300  # ticks
RUNNING, PAUSED, STOPPED = 1, 2, 0
STATES = {RUNNING: "Running state", PAUSED: "Paused state", STOPPED: "Stopped state"}
SCENARIOS = {  # for each QT4-3 scenario: the state one minute before its time, and the state at its time
    "pause_at_anchor_end": (RUNNING, PAUSED),
    "align_end_with_anchor": (RUNNING, STOPPED),
    "delayed_start": (STOPPED, RUNNING),
}


def due_fields(reference: int, relation: str, minutes: int, tolerance: int = TOLERANCE) -> dict[str, Any]:
    """The `when` object of a goal: a number of minutes `before` or `after` the tick `reference`."""
    at = reference + (MINUTE * minutes if relation == "after" else -MINUTE * minutes)
    return {
        "reference_tick": reference,
        "reference_minutes": reference // MINUTE,
        "relation": relation,
        "offset_ticks": MINUTE * minutes,
        "offset_minutes": minutes,
        "at_tick": at,
        "at_minutes": at // MINUTE,
        "tolerance_ticks": tolerance,
    }


def _draw_appliance(rng: Random, home: MatterHome, state: int, other: MatterDevice | None = None) -> MatterDevice:
    """An appliance, not `other`, whose programme is in this state. Raises `UnfitHome` if there is none."""
    fitting = [
        device
        for device in home.plan.devices.values()
        if device.type.name in PROGRAMMES
        and home.cluster_view(device.id, "OperationalState")["OperationalState"] == state
        and device is not other
    ]
    if not fitting:
        raise UnfitHome
    return rng.choice(fitting)


def _draw_running_programme(rng: Random, home: MatterHome) -> tuple[MatterDevice, int]:
    """A device whose programme is running, and the tick at which the programme ends. Raises `UnfitHome` if there is none."""
    device = _draw_appliance(rng, home, RUNNING)
    return device, 10 * home.cluster_view(device.id, "OperationalState")["CountdownTime"]


def _schedule_later(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-1: set two devices at times from now."""
    devices = _pick_devices(rng, home, 2, AT_ONCE)
    goals: list[dict[str, Any]] = []
    for device in devices if feasible else devices[:1]:
        when = due_fields(0, "after", rng.randint(5, 30))
        goals.append({"when": when, "anchor": {}, "targets": [_draw_target(device, rng)]})
    if feasible:
        return EpisodeDraft(config, goals)
    expected = goals[0]["when"]["at_minutes"]
    conflict = _time_mismatch(rng, home.plan.base_time, expected, "absolute_time_mismatch_nonop_multi")
    return EpisodeDraft(config, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _schedule_around_programme(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-2: set two devices before or after a running programme ends."""
    anchor, end = _draw_running_programme(rng, home)
    relation, offset = rng.choice(("before", "after")), rng.randint(5, 30)
    moment = due_fields(end, relation, offset)
    if moment["at_tick"] < 5 * MINUTE:  # too little time to act before
        raise UnfitHome
    targets = [_draw_target(device, rng) for device in _pick_devices(rng, home, 2, AT_ONCE)]
    goals = [{"when": moment, "anchor": _device_fields(anchor), "targets": targets}]
    if feasible:
        return EpisodeDraft(config, goals)
    conflict = _time_mismatch(rng, home.plan.base_time, moment["at_minutes"], "timing_mismatch_op_nonop")
    conflict |= {
        "relation": relation,
        "offset_minutes": offset,
        **_time_fields("anchor_end", home.plan.base_time, end // MINUTE),
    }
    return EpisodeDraft(config, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _coordinate_programmes(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-3: coordinate one programme with another that is running."""
    running, end = _draw_running_programme(rng, home)
    anchor, target = (_device_fields(d) for d in (running, _draw_appliance(rng, home, STOPPED, running)))
    scenario = rng.choice(sorted(SCENARIOS))
    delay = rng.randint(5, 30) if scenario == "delayed_start" else 0
    moments = due_fields(end + MINUTE * delay, "before", 1, tolerance=0), due_fields(end, "after", delay)
    goals: list[dict[str, Any]] = []
    for state, moment in zip(SCENARIOS[scenario], moments):
        wanted = {"attribute": "1.OperationalState.OperationalState", "value": state, "description": STATES[state]}
        goals.append({"when": moment, "anchor": anchor, "targets": [target | {"asserts": [wanted]}]})
    meta = {"scenario": scenario}
    if goals[0]["when"]["at_tick"] < 5 * MINUTE:  # too little time to act before
        raise UnfitHome
    if feasible:
        return EpisodeDraft(config, goals, meta)
    conflict = _programme_conflict(rng, home, scenario, end, delay)
    return EpisodeDraft(config, goals, meta | {"conflict_type": conflict["type"]}, [], conflict)


# Clock times that contradict the goals


def _time_fields(name: str, base: datetime, minutes: int) -> dict[str, Any]:
    """A time as the fields `<name>_at` (minutes) and `<name>_time` (clock time)."""
    return {f"{name}_at": minutes, f"{name}_time": (base + timedelta(minutes=minutes)).strftime("%H:%M:%S")}


def _time_mismatch(rng: Random, base: datetime, expected: int, kind: str, least: int = 10, most: int = 20) -> dict[str, Any]:
    """A conflict of times: a clock time that is `least` to `most` minutes away from the `expected` one."""
    conflict = expected + rng.choice((-1, 1)) * rng.randint(least, most)
    times = _time_fields("expected", base, expected) | _time_fields("conflict", base, conflict)
    return {"type": kind, "base_time": base.strftime(TIME_FORMAT), **times}


def _programme_conflict(rng: Random, home: MatterHome, scenario: str, end: int, delay: int) -> dict[str, Any]:
    """The conflict of an infeasible QT4-3 request."""
    base, minutes = home.plan.base_time, end // MINUTE
    known = {"base_time": base.strftime(TIME_FORMAT), **_time_fields("anchor_end", base, minutes)}
    if scenario == "delayed_start":
        return _time_mismatch(rng, base, minutes + delay, "delay_time_mismatch", 5, 15) | known | {"delay_minutes": delay}
    if scenario == "pause_at_anchor_end" and rng.random() < 0.5:
        return {"type": "completion_vs_pause", **known, "requested_action": "completion"}
    if scenario == "pause_at_anchor_end":
        late = _time_fields("conflict", base, minutes + rng.randint(10, 30))
        return {"type": "absolute_time_mismatch", **known, **late}
    early = _time_fields("conflict", base, minutes - rng.randint(5, 20))
    return {"type": "impossible_early_end", **known, **early}


MAKERS: dict[str, Callable[[Random, HomeConfig, MatterHome, bool], EpisodeDraft]] = {
    "qt1": _ask_for_values,
    "qt2": _complain_of_air,
    "qt3": _command_devices,
    "qt4-1": _schedule_later,
    "qt4-2": _schedule_around_programme,
    "qt4-3": _coordinate_programmes,
}
