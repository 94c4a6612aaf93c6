"""The rules that decide feasible QT2 to QT4, as pure functions of end states (SimuHome 5.1).

Invariants: no home that is given is changed (time goes on in a fork); a verdict says of each goal whether it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envs.simuhome import air, load, passage, workflows
from envs.simuhome.episodes import AttributeAssert, EpisodeFile, GoalSpec, RequiredAction, due_time_of
from envs.simuhome.home import Home
from envs.simuhome.results import OperationError, is_number

MIN_DIFFERENCE = 1e-8  # by which a room variable must differ from the untouched home's
SETTLE_TICKS = 5  # ticks between the agent's end and the final state
NEVER = 1 << 62  # ticks
PASS, FAIL, NOT_EVALUATED = 1, 0, -1


@dataclass(frozen=True)
class AgentCall:
    """A tool call of the agent, and whether it was refused."""

    tool: str
    params: Mapping[str, Any]
    refused: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """`score` 1 pass, 0 fail, -1 not evaluated: time itself failed, or a judge must decide (`judged`)."""

    score: int
    goals: tuple[bool, ...] = ()
    required: tuple[bool, ...] = ()
    needs_judge: bool = False


def evaluate(episode: EpisodeFile, final: Home, calls: Iterable[AgentCall]) -> EvaluationResult:
    """The verdict on an end state. A judged episode fails here if a required action is missing, and is open if not."""
    calls = list(calls)
    required = tuple(required_action_met(action, calls, final.plan.strict) for action in episode.eval.required_actions)
    if not episode.decided_by_rule:
        return EvaluationResult(NOT_EVALUATED if all(required) else FAIL, (), required, needs_judge=True)
    try:
        goals = goals_hold(episode, final)
    except OperationError:
        return EvaluationResult(NOT_EVALUATED, (), required)
    return EvaluationResult(PASS if all(goals) and all(required) else FAIL, goals, required)


def final_state(home: Home) -> Home:
    """The state that is judged: half a second after the agent's end."""
    final = home.fork()
    passage.advance(final, home.tick + SETTLE_TICKS)
    return final


def goals_hold(episode: EpisodeFile, final: Home) -> tuple[bool, ...]:
    """For each goal of a ruled episode, whether it holds in the end state."""
    goals = episode.eval.goals
    if episode.meta.query_type == "qt2":
        fresh = untouched_home(episode, final)
        return tuple(variable_moved(goal, final, fresh) for goal in goals)
    if episode.meta.query_type == "qt3":
        return tuple(asserts_hold(final, goal.device_id, goal.asserts) for goal in goals)
    return timed_goals(goals, final)


# Required actions


def required_action_met(action: RequiredAction, calls: Iterable[AgentCall], strict: bool = True) -> bool:
    """A call with the tool and at least the parameters was made; strict, a refused one counts as well."""
    return any(
        call.tool == action.tool and contains_params(call.params, action.params) and (strict or not call.refused)
        for call in calls
    )


def contains_params(given: Any, wanted: Any) -> bool:
    """Objects recursively, lists by membership, anything else by equality."""
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            key in given and contains_params(given[key], part) for key, part in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(given, list) and all(any(contains_params(one, part) for one in given) for part in wanted)
    return bool(given == wanted)


# Room variables (QT2)


def untouched_home(episode: EpisodeFile, final: Home) -> Home:
    """The home as it would be now had nobody done anything."""
    fresh = load.build_home(episode.initial_home_config, final.plan.strict)
    passage.advance(fresh, final.tick, [goal.room_id for goal in episode.eval.goals])
    return fresh


def variable_moved(goal: GoalSpec, final: Home, fresh: Home) -> bool:
    """Whether a room variable has gone the goal's way, by `LEAST` at least, against the untouched home."""
    if goal.room_id not in final.plan.rooms or goal.room_id not in fresh.plan.rooms:
        return False
    now, then = (home.room_state(goal.room_id).get(goal.room_state) for home in (final, fresh))
    if now is None or then is None:
        return False
    return now - then >= MIN_DIFFERENCE if goal.direction == "increase" else then - now >= MIN_DIFFERENCE


# Attributes (QT3)


def asserts_hold(home: Home, device_id: str, asserts: Iterable[AttributeAssert]) -> bool:
    """Whether a device's attributes have these values now."""
    return all(same_value(value_at(home, device_id, one.attribute), one.value) for one in asserts)


def value_at(home: Home, device_id: str, key: str) -> Any:
    """The value of a flat attribute, null if there is none. Not strict, the key may go on into a structure."""
    device = home.device(device_id)
    if device is None:
        return None
    if key in device.offsets:
        return home.values[device.base + device.offsets[key]]
    if home.plan.strict or key.count(".") <= 2:
        return None
    parts = key.split(".")
    value = value_at(home, device_id, ".".join(parts[:3]))
    for part in parts[3:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def same_value(value: Any, wanted: Any) -> bool:
    """Numbers compare as numbers: true is 1 and 1 is 1.0."""
    return value == wanted if is_number(value) == is_number(wanted) else False


# Attributes at a time (QT4)


def timed_goals(goals: Iterable[GoalSpec], final: Home) -> tuple[bool, ...]:
    """Goals in order of time; each must hold at one tick of its window, from where the one before was found to hold."""
    goals = list(goals)
    rooms = set().union(*(goal.rooms for goal in goals))
    home, held = final.fork(), [False] * len(goals)
    for index in sorted(range(len(goals)), key=lambda i: due_time_of(goals[i]).at_tick):
        held[index] = _holds_in_window(goals[index], home, sorted(rooms))
    return tuple(held)


def _holds_in_window(goal: GoalSpec, home: Home, rooms: list[str]) -> bool:
    """Look at every tick of the window at which something may differ from the tick before."""
    window = due_time_of(goal).window
    tick = max(window.start, home.tick)
    while tick in window:
        passage.advance(home, tick, rooms, live=False)
        if all(asserts_hold(home, target.device_id, target.asserts) for target in goal.targets):
            return True
        tick = tick + 1 if _changes_by_itself(home, goal) else _next_event(home)
    if home.tick in window:  # nothing happens any more, and the next goal begins where this window ends
        passage.advance(home, window[-1], rooms, live=False)
    return False


def _next_event(home: Home) -> int:
    """The first tick at which the next workflow's work is seen; `NEVER` if none waits."""
    due = workflows.next_due(home)
    return NEVER if due is None else max(due, home.tick) + 1


def _changes_by_itself(home: Home, goal: GoalSpec) -> bool:
    """Will a target change by itself? A pass that changes nothing of a device is followed by more such passes."""
    twin = home.fork()
    for target in goal.targets:
        device = twin.device(target.device_id)
        if device is None:
            continue
        if any(one.attribute in air.SENSORS.values() for one in target.asserts):
            return True
        passage.advance_device(twin, device, 1)
    return twin.values != home.values
