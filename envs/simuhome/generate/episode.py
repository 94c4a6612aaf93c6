"""Episodes of the 12 query types (SimuHome 4.1, A.5), each proved before it is given out.

Invariants: the same arguments give the same episode; in a feasible one that a rule decides, the reference agent passes and
doing nothing but what is required fails (every goal does, or for QT4-3, where a machine may first have to stand still, one
of them); in an infeasible one the device is absent, no call in the
room moves the variable, or the two times that are named differ by at least five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from envs.simuhome import evaluate, load, tools
from envs.simuhome.air import WATCHED
from envs.simuhome.config import VARIABLES, HomeConfig
from envs.simuhome.episodes import Episode, Goal
from envs.simuhome.generate import times
from envs.simuhome.generate.furnish import Scale, config_of, furnished, perform
from envs.simuhome.generate.wants import AT_ONCE, WANTS, Want, claim, spoken
from envs.simuhome.home import Device, Home
from envs.simuhome.reference import levers, reference

ATTEMPTS = 200
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


class Unfit(Exception):
    """This home does not offer what the episode needs: try the next."""


@dataclass
class Draft:
    """An episode in the making."""

    config: HomeConfig
    query: str
    goals: list[dict[str, Any]]
    meta: dict[str, Any] = field(default_factory=dict)
    required: list[dict[str, Any]] | None = None  # None: the devices of the goals' rooms
    conflict: dict[str, Any] | None = None


def generate(query_type: str, case: str, seed: int, scale: Scale = Scale()) -> Episode:
    """The episode of a seed."""
    for attempt in range(ATTEMPTS):
        rng = Random(f"{query_type} {case} {seed} {attempt}")
        try:
            config = furnished(rng, scale)
            home = load.start(config)
            draft = MAKERS[query_type](rng, config, home, case == "feasible")
            _in_scale(draft, scale)
            episode = _episode(query_type, case, seed, draft, rng)
            prove(episode)
            return episode
        except (Unfit, times.NoAnchor):
            continue
    raise RuntimeError(f"no {query_type} {case} episode came of seed {seed} in {ATTEMPTS} homes")


def _in_scale(draft: Draft, scale: Scale) -> None:
    """A device that is missing is of a kind that other homes have, or its name alone would give it away."""
    if not {goal["device_type"] for goal in draft.goals if "device_type" in goal} <= set(scale.kinds):
        raise Unfit


def _episode(query_type: str, case: str, seed: int, draft: Draft, rng: Random) -> Episode:
    rooms = [target["room_id"] for goal in draft.goals for target in goal.get("targets", [goal])]
    looks = [{"tool": "get_room_devices", "params": {"room_id": room}} for room in dict.fromkeys(rooms)]
    counts = {
        "num_rooms": len(draft.config.rooms),
        "num_devices": sum(len(room.devices) for room in draft.config.rooms.values()),
    }
    return Episode.model_validate({
        "meta": {"seed": seed, "query_type": query_type, "case": case, **counts, **draft.meta},
        "query": draft.query[0].upper() + draft.query[1:],
        "user_location": rng.choice(sorted(draft.config.rooms)),
        "temporal_conflict": draft.conflict,
        "eval": {"required_actions": looks if draft.required is None else draft.required, "goals": draft.goals},
        "initial_home_config": draft.config,
    })  # fmt: skip


def prove(episode: Episode, strict: bool = True) -> None:
    """`Unfit` unless the reference agent passes and the required actions alone reach no goal."""
    if not episode.ruled:
        return
    home = load.start(episode.initial_home_config, strict)
    idle = evaluate.evaluate(episode, evaluate.final_state(home), ())
    calls: list[evaluate.Call] = []
    for action in reference(episode, home):
        arguments = {key: value for key, value in action.items() if key != "name"}
        refused = tools.failed(tools.call(home, action["name"], arguments))
        calls.append(evaluate.Call(action["name"], arguments, refused))
    done = evaluate.evaluate(episode, evaluate.final_state(home), calls)
    reached_by_nothing = all(idle.goals) if episode.meta.query_type == "qt4-3" else any(idle.goals)
    if done.score != evaluate.PASS or reached_by_nothing or any(call.refused for call in calls):
        raise Unfit


# What each query type asks for


def _pick(rng: Random, home: Home, count: int, kinds: tuple[str, ...] = tuple(WANTS)) -> list[Device]:
    fitting = [device for device in home.plan.devices.values() if device.type.name in kinds]
    if len(fitting) < count:
        raise Unfit
    return rng.sample(fitting, count)


def _absent(rng: Random, home: Home, kinds: tuple[str, ...] = tuple(WANTS)) -> dict[str, str]:
    """A device of a type that a room has none of."""
    room = rng.choice(list(home.plan.rooms))
    missing = sorted(set(kinds) - {device.type.name for device in home.plan.by_room[room]})
    if not missing:
        raise Unfit
    kind = rng.choice(missing)
    return {"room_id": room, "device_id": f"{room}_{kind}_1", "device_type": kind}


def place_of(device: Device) -> dict[str, str]:
    """Room, id and type of a device, as goals name it."""
    return {"room_id": device.room, "device_id": device.id, "device_type": device.type.name}


def say(place: dict[str, str]) -> str:
    """The device at a place, as people call it."""
    return spoken(place["device_id"], place["room_id"], place["device_type"])


def _perceive(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT1: the value of an attribute, and perhaps of a room variable."""
    place = place_of(_pick(rng, home, 1)[0]) if feasible else _absent(rng, home)
    attribute = WANTS[place["device_type"]](rng).asserts[-1]["attribute"]
    name = attribute.split(".")[2]
    goals = [{"variant": "device_attribute", **place, "attribute": attribute}]
    required = [{"tool": "get_room_devices", "params": {"room_id": place["room_id"]}}]
    query = f"what does the {say(place)} show as its {_words(name)}?"
    if rng.random() < 0.5:
        room, variable = rng.choice(sorted(home.plan.rooms)), rng.choice(sorted(VARIABLES))
        unit, scale = UNITS[variable]
        value = round(home.room_state(room)[variable] / scale, 2)
        reading = {"room_id": room, "room_state": variable, "current_value": value, "unit": unit}
        goals.append({"variant": "room_state", **reading})
        required.append({"tool": "get_room_states", "params": {"room_id": room}})
        query += f" And what is the {variable} in the {room.replace('_', ' ')}?"
    counts = {"num_target_device_attributes": 1, "num_target_room_states": len(goals) - 1}
    return Draft(config, query, goals, counts, required)


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _hint(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT2: a room variable is complained of."""
    if feasible:
        goals = [_movable(home, room, *wish) for room, wish in _wishes(rng, home, rng.randint(1, 2))]
        meta: dict[str, Any] = {"feasibility": True}
    elif rng.random() < 0.5:
        (room, wish), *_ = _wishes(rng, home, 1)
        config, home = _saturated(home, room, *wish)
        goals = [_goal(room, *wish) | {"feasibility": False}]
        meta = {"feasibility": False, "infeasible_family": "contextual_saturation"}
    else:
        (room, wish), *_ = _wishes(rng, home, 1)
        absent = rng.choice(WATCHED[wish[0]])
        if any(device.type.name in WATCHED[wish[0]] for device in home.plan.by_room[room]):
            raise Unfit
        goals = [_goal(room, *wish) | {"device_id": f"{room}_{absent}_1", "device_type": absent}]
        meta = {"feasibility": False, "infeasible_family": "nonexistence"}
    said = [HINTS[goal["room_state"], goal["direction"]].format(room=goal["room_id"].replace("_", " ")) for goal in goals]
    return Draft(config, ", and ".join(said) + ".", goals, meta | {"num_target_metrics": len(goals)})


def _wishes(rng: Random, home: Home, count: int) -> list[tuple[str, tuple[str, str]]]:
    rooms = rng.sample(sorted(home.plan.rooms), count)
    return [(room, rng.choice(sorted(HINTS))) for room in rooms]


def _goal(room: str, variable: str, direction: str) -> dict[str, Any]:
    return {"room_id": room, "room_state": variable, "direction": direction}


def _movable(home: Home, room: str, variable: str, direction: str) -> dict[str, Any]:
    if not levers(home, room, variable, direction):
        raise Unfit
    return _goal(room, variable, direction) | {"feasibility": True}


def _saturated(home: Home, room: str, variable: str, direction: str) -> tuple[HomeConfig, Home]:
    """The home once everything in a room has been done that moves a variable, so that nothing is left to do."""
    acts = levers(home, room, variable, direction)
    if not acts:
        raise Unfit
    used = home.fork()
    perform(used, acts)
    config = config_of(used)
    home = load.start(config)
    again = home.fork()
    perform(again, levers(again, room, variable, direction))
    goal = Goal(room_id=room, room_state=variable, direction=direction)
    if evaluate.moved(goal, evaluate.final_state(again), evaluate.final_state(home)):
        raise Unfit
    return config, home


def _command(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT3: devices are to be set."""
    count = rng.randint(1, 3)
    places = [place_of(device) for device in _pick(rng, home, count)] if feasible else []
    while not feasible and len(places) < count:
        absent = _absent(rng, home)
        places += [absent] if absent not in places else []
    wants = [WANTS[place["device_type"]](rng) for place in places]
    goals = [{**place, "asserts": list(want.asserts)} for place, want in zip(places, wants)]
    said = [f"set the {say(place)} {want.words}" for place, want in zip(places, wants)]
    return Draft(config, ", then ".join(said) + ", please.", goals, {"devices_count": count})


def _target(device: Device, want: Want) -> dict[str, Any]:
    return {**place_of(device), "asserts": list(want.asserts)}


def _later(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT4-1: two devices at times from now."""
    devices, now = _pick(rng, home, 2, AT_ONCE), home.plan.base_time
    goals: list[dict[str, Any]] = []
    said: list[str] = []
    for device in devices if feasible else devices[:1]:
        minutes, want = rng.randint(5, 30), WANTS[device.type.name](rng)
        goals.append({"when": times.when(0, "after", minutes), "anchor": {}, "targets": [_target(device, want)]})
        said.append(f"in {minutes} minutes set the {say(place_of(device))} {want.words}")
    if feasible:
        return Draft(config, ", and ".join(said) + ".", goals)
    expected = goals[0]["when"]["at_minutes"]
    conflict = times.mismatch(rng, now, expected, "absolute_time_mismatch_nonop_multi")
    query = f"{said[0]}, that is at {conflict['conflict_time'][:5]}."
    return Draft(config, query, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _after(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT4-2: two devices before or after a running programme ends."""
    anchor, end = times.anchor(rng, home)
    relation, offset = rng.choice(("before", "after")), rng.randint(5, 30)
    moment = times.when(end, relation, offset)
    if moment["at_tick"] < 3000:
        raise Unfit
    devices = _pick(rng, home, 2, AT_ONCE)
    wants = [WANTS[device.type.name](rng) for device in devices]
    targets = [_target(device, want) for device, want in zip(devices, wants)]
    goals = [{"when": moment, "anchor": place_of(anchor), "targets": targets}]
    said = " and ".join(f"set the {say(place_of(device))} {want.words}" for device, want in zip(devices, wants))
    query = f"{offset} minutes {relation} the {say(place_of(anchor))} finishes, {said}"
    if feasible:
        return Draft(config, query + ".", goals)
    conflict = times.mismatch(rng, home.plan.base_time, moment["at_minutes"], "timing_mismatch_op_nonop")
    conflict |= {"relation": relation, "offset_minutes": offset, **times.ends(home, end)}
    query += f", so at {conflict['conflict_time'][:5]}."
    return Draft(config, query, goals, {"conflict_type": conflict["type"]}, [], conflict)


def _together(rng: Random, config: HomeConfig, home: Home, feasible: bool) -> Draft:
    """QT4-3: one programme in step with another."""
    anchor, end = times.anchor(rng, home)
    target = times.idle_programme(rng, home, anchor)
    scenario = rng.choice(sorted(times.SCENARIOS))
    delay = rng.randint(5, 30) if scenario == "delayed_start" else 0
    first, second = times.SCENARIOS[scenario]
    path = "1.OperationalState.OperationalState"
    goals: list[dict[str, Any]] = []
    for state, moment in (
        (first, times.when(end + 600 * delay, "before", 1, tolerance=0)),
        (second, times.when(end, "after", delay)),
    ):
        asserts = [
            {key: value for key, value in claim(path, state, "enum", times.STATES[state]).items() if key != "value_type"}
        ]
        goals.append({"when": moment, "anchor": place_of(anchor), "targets": [{**place_of(target), "asserts": asserts}]})
    names = {"anchor": say(place_of(anchor)), "target": say(place_of(target)), "delay": delay}
    query, meta = times.ASKED[scenario].format(**names), {"scenario": scenario}
    if goals[0]["when"]["at_tick"] < 3000:
        raise Unfit
    if feasible:
        return Draft(config, query + ".", goals, meta)
    conflict, clause = times.contradiction(rng, home, scenario, end, delay)
    return Draft(config, f"{query}{clause}.", goals, meta | {"conflict_type": conflict["type"]}, [], conflict)


MAKERS: dict[str, Callable[[Random, HomeConfig, Home, bool], Draft]] = {
    "qt1": _perceive, "qt2": _hint, "qt3": _command, "qt4-1": _later, "qt4-2": _after, "qt4-3": _together,
}  # fmt: skip
