"""Episodes made anew: proved feasible or infeasible, the same from the same seed, readable as released ones are."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.sim.episode_file import read_episode
from homerl.envs.simuhome.sim.reference_solution import solution_calls
from homerl.envs.simuhome.tasks.episode_generator import generate_episode

TYPES = ("qt1", "qt2", "qt3", "qt4-1", "qt4-2", "qt4-3")
each_type = pytest.mark.parametrize("query_type", TYPES)
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]


def ids(episode):
    return {device.device_id for room in episode.initial_home_config.rooms.values() for device in room.devices}


@each_type
@pytest.mark.parametrize("case", ["feasible", "infeasible"])
def test_the_same_seed_makes_the_same_episode(query_type, case, tmp_path):
    episode, again, other = (generate_episode(query_type, case, seed) for seed in (7, 7, 8))
    assert episode == again and episode != other
    path = tmp_path / "episode.json"
    path.write_text(json.dumps(episode.model_dump(mode="json"), ensure_ascii=False))
    read = read_episode(path)
    assert read.model_dump(mode="json") == episode.model_dump(mode="json")
    home = episode.initial_home_config
    assert len(home.rooms) == 5 and 19 <= len(ids(episode)) <= 33
    assert all(device.device_type in device_types() for room in home.rooms.values() for device in room.devices)


@each_type
@pytest.mark.parametrize("seed", SEEDS)
def test_in_feasible_ones_the_reference_passes_and_doing_nothing_fails(query_type, seed):
    episode = generate_episode(query_type, "feasible", seed)
    if not episode.is_decided_by_rule:
        assert {goal.device_id for goal in episode.eval.goals} - {""} <= ids(episode)
        return
    env = SimuHome(episode)
    for action in solution_calls(episode, env.state.home):
        *_, ended, _, info = env.step(action)
        assert info["blocked"] is None, (action, info["blocked"])
    assert ended and info["progress"] == 1.0
    idle = evaluate.evaluate_episode(episode, evaluate.final_state(load.start_home(episode.initial_home_config)), ())
    assert idle.score == evaluate.FAIL


@pytest.mark.parametrize("query_type", ["qt4-1", "qt4-2", "qt4-3"])
@pytest.mark.parametrize("seed", SEEDS)
def test_who_does_at_once_what_was_to_be_scheduled_fails_unless_strict(query_type, seed):
    episode = generate_episode(query_type, "feasible", seed)
    passes = {}
    for strict in (True, False):
        scheduled, hasty = (load.start_home(episode.initial_home_config, strict) for _ in range(2))
        calls = []
        for action in solution_calls(episode, scheduled):
            arguments = {key: value for key, value in action.items() if key != "name"}
            tools.call_tool(scheduled, action["name"], arguments)
            calls.append(evaluate.AgentCall(action["name"], arguments))
            for step in action.get("steps", ()):
                tools.call_tool(hasty, step["tool"], step["args"])
        scores = [evaluate.evaluate_episode(episode, evaluate.final_state(home), calls).score for home in (scheduled, hasty)]
        assert scores[0] == evaluate.PASS
        passes[strict] = scores[1] == evaluate.PASS
    assert passes == {True: query_type != "qt4-3", False: False}


@pytest.mark.parametrize("query_type", ["qt1", "qt3"])
@pytest.mark.parametrize("seed", SEEDS)
def test_in_infeasible_ones_the_device_is_absent(query_type, seed):
    episode = generate_episode(query_type, "infeasible", seed)
    for goal in episode.eval.goals:
        assert not goal.device_id or goal.device_id not in ids(episode)


@pytest.mark.parametrize("seed", range(10))
def test_in_infeasible_hints_nothing_in_the_room_helps(seed):
    episode = generate_episode("qt2", "infeasible", seed)
    (goal,) = episode.eval.goals
    family = episode.meta.infeasible_family
    home = load.start_home(episode.initial_home_config)
    fresh = home.fork()
    for action in solution_calls(episode, home):
        tools.call_tool(home, action["name"], {key: value for key, value in action.items() if key != "name"})
    assert not evaluate.has_variable_moved(goal, evaluate.final_state(home), evaluate.final_state(fresh)), family


@pytest.mark.parametrize("query_type", ["qt4-1", "qt4-2", "qt4-3"])
@pytest.mark.parametrize("seed", SEEDS)
def test_in_infeasible_schedules_two_times_disagree(query_type, seed):
    episode = generate_episode(query_type, "infeasible", seed)
    conflict, base = episode.temporal_conflict, datetime.fromisoformat(episode.initial_home_config.base_time)
    assert conflict["type"] == episode.meta.conflict_type and conflict["base_time"] == str(base)
    assert episode.eval.required_actions == ()
    said = conflict.get("expected_at", conflict.get("anchor_end_at"))
    if "conflict_at" in conflict:
        assert 5 <= abs(conflict["conflict_at"] - said) <= 30
        assert conflict["conflict_time"][:5] in episode.query
    else:
        assert conflict["requested_action"] == "completion"
