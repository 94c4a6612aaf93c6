"""Episodes of the 12 groups (SimuHome, section 4.1 and appendix A.5). Each is tested before it is returned.

Invariants:
- The same arguments give the same episode.
- In a feasible episode that a rule decides, the reference agent passes. An agent that only makes the required actions
  reaches no goal. QT4-3 is an exception, because there a machine may have to be stopped at first: such an agent misses
  at least one goal.
- In an infeasible episode one of three things holds: the device does not exist, no call in the room moves the variable,
  or the two times in the request differ by at least five minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim.air import WATCHED
from homerl.envs.simuhome.sim.device_calls import moving_calls
from homerl.envs.simuhome.sim.episode_file import VARIABLES, EpisodeFile, GoalSpec, HomeConfig
from homerl.envs.simuhome.sim.generate import goal_choices as times
from homerl.envs.simuhome.sim.generate.furnish import Scale, furnished_config, home_to_config, perform_calls
from homerl.envs.simuhome.sim.generate.goal_choices import AT_ONCE, WANTED_KINDS, Want, draw_want, spoken_name
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.sim.reference_solution import solution_calls

MAX_HOMES = 200
UNITS = {"temperature": ("°C", 100), "humidity": ("%", 100), "illuminance": ("lux", 1), "pm10": ("μg/m³", 1)}
HINTS = {
    ("temperature", "increase"): "it is rather cold in the {room}",
    ("temperature", "decrease"): "it is far too warm in the {room}",
    ("humidity", "increase"): "the air in the {room} is so dry that my hands crack",
    ("humidity", "decrease"): "the {room} feels damp and sticky",
    ("illuminance", "increase"): "I can hardly read a page in the {room}",
    ("illuminance", "decrease"): "the {room} is so bright that my eyes hurt",
    ("pm10", "decrease"): "the air in the {room} is dusty and makes me cough",
}


class UnfitHome(Exception):
    """This home does not offer what the episode needs. The next one is tried."""


@dataclass
class EpisodeDraft:
    """An episode before it is tested.

    `required` holds the required actions; None stands for reading the devices of the goals' rooms. `conflict` describes
    the contradiction of an infeasible QT4 episode.
    """

    config: HomeConfig
    query: str
    goals: list[dict[str, Any]]
    meta: dict[str, Any] = field(default_factory=dict)
    required: list[dict[str, Any]] | None = None
    conflict: dict[str, Any] | None = None


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
                "query": draft.query[0].upper() + draft.query[1:],
                "user_location": rng.choice(sorted(draft.config.rooms)),
                "temporal_conflict": draft.conflict,
                "eval": {"required_actions": looks if draft.required is None else draft.required, "goals": draft.goals},
                "initial_home_config": draft.config,
            }
            episode = EpisodeFile.model_validate(written)
            _prove_episode(episode)
            return episode
        except (UnfitHome, times.NoAnchor):
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
        arguments = {key: value for key, value in action.items() if key != "name"}
        refused = tools.is_refused(tools.call_tool(home, action["name"], arguments))
        calls.append(evaluate.AgentCall(action["name"], arguments, refused))
    done = evaluate.evaluate_episode(episode, evaluate.final_state(home), calls)
    reached_by_nothing = all(idle.goals) if episode.meta.query_type == "qt4-3" else any(idle.goals)
    if done.score != evaluate.PASS or reached_by_nothing or any(call.refused for call in calls):
        raise UnfitHome


# The requests of each query type


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


def _ask_for_values(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT1: ask for an attribute of a device, and in half of the episodes for a room variable too."""
    place = _device_fields(_pick_devices(rng, home, 1)[0]) if feasible else _absent_device(rng, home)
    attribute = draw_want(place["device_type"], rng).asserts[-1]["attribute"]
    name = re.sub("[A-Z]", lambda letter: f" {letter[0].lower()}", attribute.split(".")[2]).strip()
    goals = [{"variant": "device_attribute", **place, "attribute": attribute}]
    required = [{"tool": "get_room_devices", "params": {"room_id": place["room_id"]}}]
    query = f"what does the {spoken_name(place)} show as its {name}?"
    if rng.random() < 0.5:
        room, variable = rng.choice(sorted(home.plan.rooms)), rng.choice(sorted(VARIABLES))
        unit, scale = UNITS[variable]
        value = round(home.room_state(room)[variable] / scale, 2)
        reading = {"room_id": room, "room_state": variable, "current_value": value, "unit": unit}
        goals.append({"variant": "room_state", **reading})
        required.append({"tool": "get_room_states", "params": {"room_id": room}})
        query += f" And what is the {variable} in the {room.replace('_', ' ')}?"
    counts = {"num_target_device_attributes": 1, "num_target_room_states": len(goals) - 1}
    return EpisodeDraft(config, query, goals, counts, required)


def _complain_of_air(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT2: complain about a room variable."""
    if feasible:
        wishes = _rooms_and_changes(rng, home, rng.randint(1, 2))
        if not all(moving_calls(home, room, *wish) for room, wish in wishes):
            raise UnfitHome
        goals = [_variable_goal(room, *wish) | {"feasibility": True} for room, wish in wishes]
        meta: dict[str, Any] = {"feasibility": True}
    elif rng.random() < 0.5:
        (room, wish), *_ = _rooms_and_changes(rng, home, 1)
        config, home = _saturated_home(home, room, *wish)
        goals = [_variable_goal(room, *wish) | {"feasibility": False}]
        meta = {"feasibility": False, "infeasible_family": "contextual_saturation"}
    else:
        (room, wish), *_ = _rooms_and_changes(rng, home, 1)
        absent = rng.choice(WATCHED[wish[0]])
        if any(device.type.name in WATCHED[wish[0]] for device in home.plan.devices_by_room[room]):
            raise UnfitHome
        goals = [_variable_goal(room, *wish) | {"device_id": f"{room}_{absent}_1", "device_type": absent}]
        meta = {"feasibility": False, "infeasible_family": "nonexistence"}
    said = [HINTS[goal["room_state"], goal["direction"]].format(room=goal["room_id"].replace("_", " ")) for goal in goals]
    return EpisodeDraft(config, ", and ".join(said) + ".", goals, meta | {"num_target_metrics": len(goals)})


def _rooms_and_changes(rng: Random, home: MatterHome, count: int) -> list[tuple[str, tuple[str, str]]]:
    rooms = rng.sample(sorted(home.plan.rooms), count)
    return [(room, rng.choice(sorted(HINTS))) for room in rooms]


def _variable_goal(room: str, variable: str, direction: str) -> dict[str, Any]:
    return {"room_id": room, "room_state": variable, "direction": direction}


def _saturated_home(home: MatterHome, room: str, variable: str, direction: str) -> tuple[HomeConfig, MatterHome]:
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
    return config, home


def _command_devices(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT3: set devices."""
    count = rng.randint(1, 3)
    places = [_device_fields(device) for device in _pick_devices(rng, home, count)] if feasible else []
    while not feasible and len(places) < count:
        absent = _absent_device(rng, home)
        places += [absent] if absent not in places else []
    wants = [draw_want(place["device_type"], rng) for place in places]
    goals = [{**place, "asserts": list(want.asserts)} for place, want in zip(places, wants)]
    said = [f"set the {spoken_name(place)} {want.words}" for place, want in zip(places, wants)]
    return EpisodeDraft(config, ", then ".join(said) + ", please.", goals, {"devices_count": count})


def _device_target(device: MatterDevice, want: Want) -> dict[str, Any]:
    return {**_device_fields(device), "asserts": list(want.asserts)}


def _schedule_later(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-1: set two devices at times from now."""
    devices = _pick_devices(rng, home, 2, AT_ONCE)
    goals: list[dict[str, Any]] = []
    said: list[str] = []
    for device in devices if feasible else devices[:1]:
        minutes, want = rng.randint(5, 30), draw_want(device.type.name, rng)
        target = _device_target(device, want)
        goals.append({"when": times.due_fields(0, "after", minutes), "anchor": {}, "targets": [target]})
        said.append(f"in {minutes} minutes set the {spoken_name(target)} {want.words}")
    if feasible:
        return EpisodeDraft(config, ", and ".join(said) + ".", goals)
    expected = goals[0]["when"]["at_minutes"]
    conflict = times.time_mismatch(rng, home.plan.base_time, expected, "absolute_time_mismatch_nonop_multi")
    query = f"{said[0]}, that is at {conflict['conflict_time'][:5]}."
    return EpisodeDraft(config, query, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _schedule_around_programme(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-2: set two devices before or after a running programme ends."""
    running, end = times.running_programme(rng, home)
    anchor = _device_fields(running)
    relation, offset = rng.choice(("before", "after")), rng.randint(5, 30)
    moment = times.due_fields(end, relation, offset)
    if moment["at_tick"] < 5 * times.MINUTE:  # too little time to act before
        raise UnfitHome
    devices = _pick_devices(rng, home, 2, AT_ONCE)
    wants = [draw_want(device.type.name, rng) for device in devices]
    targets = [_device_target(device, want) for device, want in zip(devices, wants)]
    goals = [{"when": moment, "anchor": anchor, "targets": targets}]
    said = " and ".join(f"set the {spoken_name(target)} {want.words}" for target, want in zip(targets, wants))
    query = f"{offset} minutes {relation} the {spoken_name(anchor)} finishes, {said}"
    if feasible:
        return EpisodeDraft(config, query + ".", goals)
    conflict = times.time_mismatch(rng, home.plan.base_time, moment["at_minutes"], "timing_mismatch_op_nonop")
    conflict |= {"relation": relation, "offset_minutes": offset, **times.end_fields(home, end)}
    query += f", so at {conflict['conflict_time'][:5]}."
    return EpisodeDraft(config, query, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _coordinate_programmes(rng: Random, config: HomeConfig, home: MatterHome, feasible: bool) -> EpisodeDraft:
    """QT4-3: coordinate one programme with another that is running."""
    running, end = times.running_programme(rng, home)
    anchor, target = (_device_fields(d) for d in (running, times.draw_appliance(rng, home, times.STOPPED, running)))
    scenario = rng.choice(sorted(times.SCENARIOS))
    delay = rng.randint(5, 30) if scenario == "delayed_start" else 0
    first, second = times.SCENARIOS[scenario]
    goals: list[dict[str, Any]] = []
    for state, moment in (
        (first, times.due_fields(end + times.MINUTE * delay, "before", 1, tolerance=0)),
        (second, times.due_fields(end, "after", delay)),
    ):
        wanted = {"attribute": "1.OperationalState.OperationalState", "value": state, "description": times.STATES[state]}
        goals.append({"when": moment, "anchor": anchor, "targets": [target | {"asserts": [wanted]}]})
    names = {"anchor": spoken_name(anchor), "target": spoken_name(target), "delay": delay}
    query, meta = times.REQUESTS[scenario].format(**names), {"scenario": scenario}
    if goals[0]["when"]["at_tick"] < 5 * times.MINUTE:  # too little time to act before
        raise UnfitHome
    if feasible:
        return EpisodeDraft(config, query + ".", goals, meta)
    conflict, clause = times.programme_conflict(rng, home, scenario, end, delay)
    return EpisodeDraft(config, f"{query}{clause}.", goals, meta | {"conflict_type": conflict["type"]}, [], conflict)


MAKERS: dict[str, Callable[[Random, HomeConfig, MatterHome, bool], EpisodeDraft]] = {
    "qt1": _ask_for_values,
    "qt2": _complain_of_air,
    "qt3": _command_devices,
    "qt4-1": _schedule_later,
    "qt4-2": _schedule_around_programme,
    "qt4-3": _coordinate_programmes,
}
