"""The rules that decide feasible QT2 to QT4 episodes from their end state (SimuHome, section 5.1).

Invariants: the given home never changes, because time goes on in a fork; the result says for each goal whether it
holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.simuhome.sim import air
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.episode_file import AttributeAssert, EpisodeFile, GoalSpec, RequiredAction
from homerl.envs.simuhome.sim.home import MatterHome, OperationError, is_number

MIN_DIFFERENCE = 1e-8  # the least difference of a room variable from that of the untouched home
SETTLE_TICKS = 5  # ticks between the agent's end and the final state
LEAD_TICKS = 300  # a goal may be reached so many ticks before it is due
NEVER = 1 << 62  # a tick that no window reaches
PASS, FAIL, NOT_EVALUATED = 1, 0, -1


@dataclass(frozen=True)
class AgentCall:
    """A tool call that the agent made, and whether it was refused."""

    tool: str
    params: Mapping[str, Any]
    refused: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation, and for each goal and each required action whether it holds.

    `score` is 1 (pass), 0 (fail) or -1 (not evaluated). It is -1 if time could not go on, or if a judge must decide.
    """

    score: int
    goals: tuple[bool, ...] = ()
    required: tuple[bool, ...] = ()


def evaluate_episode(episode: EpisodeFile, final: MatterHome, calls: Iterable[AgentCall]) -> EvaluationResult:
    """Evaluate an end state.

    An episode that a judge decides fails here if a required action is missing. Otherwise it is not evaluated.
    """
    calls = list(calls)
    required = tuple(is_required_action_met(action, calls, final.plan.strict) for action in episode.eval.required_actions)
    if not episode.is_decided_by_rule:
        return EvaluationResult(NOT_EVALUATED if all(required) else FAIL, (), required)
    try:
        goals = goals_hold(episode, final)
    except OperationError:
        return EvaluationResult(NOT_EVALUATED, (), required)
    return EvaluationResult(PASS if all(goals) and all(required) else FAIL, goals, required)


def final_state(home: MatterHome) -> MatterHome:
    """The state that is evaluated: a fork of the home, 5 ticks (0.5 s) after the agent's end."""
    final = home.fork()
    passage.advance_home(final, home.tick + SETTLE_TICKS)
    return final


def goals_hold(episode: EpisodeFile, final: MatterHome) -> tuple[bool, ...]:
    """For each goal of an episode that a rule decides, whether it holds in the end state."""
    goals = episode.eval.goals
    if episode.meta.query_type == "qt2":
        fresh = load.build_home(episode.initial_home_config, final.plan.strict)
        passage.advance_home(fresh, final.tick, [goal.room_id for goal in goals])
        return tuple(has_variable_moved(goal, final, fresh) for goal in goals)
    if episode.meta.query_type == "qt3":
        return tuple(asserts_hold(final, goal.device_id, goal.asserts) for goal in goals)
    held = timed_goals_hold(goals, final)
    if final.plan.strict:
        return held
    return tuple(holds and not early for holds, early in zip(held, _goals_done_early(episode, final)))


# Required actions


def is_required_action_met(action: RequiredAction, calls: Iterable[AgentCall], strict: bool = True) -> bool:
    """Whether one of the calls has the action's tool and at least its parameters.

    In strict mode refused calls count as well.
    """
    counted = (call for call in calls if strict or not call.refused)
    return any(call.tool == action.tool and _contains_params(call.params, action.params) for call in counted)


def _contains_params(given: Any, wanted: Any) -> bool:
    """Whether `given` contains `wanted`: objects recursively, lists by membership, anything else by equality."""
    if isinstance(wanted, Mapping):
        if not isinstance(given, Mapping):
            return False
        return all(key in given and _contains_params(given[key], part) for key, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(given, list) and all(any(_contains_params(item, part) for item in given) for part in wanted)
    return bool(given == wanted)


# Room variables (QT2)


def has_variable_moved(goal: GoalSpec, final: MatterHome, fresh: MatterHome) -> bool:
    """Whether a room's variable differs from that of the untouched home in the goal's direction, by at least 1e-8."""
    if goal.room_id not in final.plan.rooms or goal.room_id not in fresh.plan.rooms:
        return False
    now, then = (home.room_state(goal.room_id).get(goal.room_state) for home in (final, fresh))
    if now is None or then is None:
        return False
    # The paper compares with the untouched home and not with the start, since the air also changes by itself.
    return now - then >= MIN_DIFFERENCE if goal.direction == "increase" else then - now >= MIN_DIFFERENCE


# Attributes (QT3)


def asserts_hold(home: MatterHome, device_id: str, asserts: Iterable[AttributeAssert]) -> bool:
    """Whether all attributes of a device have the asserted values now."""
    return all(is_same_value(value_at(home, device_id, one.attribute), one.value) for one in asserts)


def value_at(home: MatterHome, device_id: str, key: str) -> Any:
    """The value of a flat key, or None if the device or the attribute does not exist.

    In mended mode the key may lead into a structure: `1.Channel.CurrentChannel.MajorNumber`.
    """
    device = home.find_device(device_id)
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


def is_same_value(value: Any, wanted: Any) -> bool:
    """Whether two values are equal. Numbers compare as numbers: true equals 1, and 1 equals 1.0."""
    return value == wanted if is_number(value) == is_number(wanted) else False


# Attributes at a time (QT4)


def timed_goals_hold(goals: Iterable[GoalSpec], final: MatterHome) -> tuple[bool, ...]:
    """For each QT4 goal, whether it holds at a tick of its window.

    Goals are looked at in order of time. The search for each goal starts at the tick at which the previous search
    ended.
    """
    goals = list(goals)
    home, held = final.fork(), [False] * len(goals)
    for index in indices_by_time(goals):
        held[index] = _holds_in_window(goals[index], home, _concerned_rooms(goals))
    return tuple(held)


def _goals_done_early(episode: EpisodeFile, final: MatterHome) -> tuple[bool, ...]:
    """For each QT4 goal, whether the agent did it too early, such as at once where "in ten minutes" was asked.

    A goal is done early if the asserts of a target hold before the window, more than `LEAD_TICKS` before the goal is due,
    and do not hold in the untouched home. Targets of earlier goals are left out, since these goals may have set them. So
    are goals without tolerance, which say nothing of the time before.
    """
    goals = episode.eval.goals
    then, fresh = final.fork(), load.build_home(episode.initial_home_config, final.plan.strict)
    early, known = [False] * len(goals), set[str]()
    for index in indices_by_time(goals):
        due = goals[index].due_time
        before = due.at_tick - max(due.tolerance_ticks, LEAD_TICKS) - 1
        if due.tolerance_ticks and then.tick <= before:
            for home in (then, fresh):
                passage.advance_home(home, before, _concerned_rooms(goals), live=False)
            for target in goals[index].targets:
                had, has = (asserts_hold(home, target.device_id, target.asserts) for home in (fresh, then))
                early[index] |= has and not had and target.device_id not in known
        known |= {target.device_id for target in goals[index].targets}
    return tuple(early)


def indices_by_time(goals: Sequence[GoalSpec]) -> list[int]:
    """The indices of goals in the order in which they are due."""
    return sorted(range(len(goals)), key=lambda index: goals[index].due_time.at_tick)


def _concerned_rooms(goals: Iterable[GoalSpec]) -> list[str]:
    return sorted(set[str]().union(*(goal.concerned_rooms for goal in goals)))


def _holds_in_window(goal: GoalSpec, home: MatterHome, rooms: list[str]) -> bool:
    """Whether a goal holds at a tick of its window. Only ticks at which something may have changed are looked at."""
    window = goal.due_time.tick_window
    tick = max(window.start, home.tick)
    while tick in window:
        passage.advance_home(home, tick, rooms, live=False)
        if all(asserts_hold(home, target.device_id, target.asserts) for target in goal.targets):
            return True
        if _changes_by_itself(home, goal):
            tick += 1
        else:  # the effects of the next workflow can be seen one tick after it is due
            due = passage.next_due(home)
            tick = NEVER if due is None else max(due, home.tick) + 1
    if home.tick in window:  # nothing more happens in this window; the search for the next goal starts at its end
        passage.advance_home(home, window[-1], rooms, live=False)
    return False


def _changes_by_itself(home: MatterHome, goal: GoalSpec) -> bool:
    """Whether a target may change without a workflow.

    One pass is enough to tell: a device that does not change in a pass does not change in the next one either.
    """
    twin = home.fork()
    for target in goal.targets:
        device = twin.find_device(target.device_id)
        if device is None:
            continue
        if any(one.attribute in air.SENSORS.values() for one in target.asserts):
            return True
        passage.advance_device(twin, device, 1)
    return twin.values != home.values
