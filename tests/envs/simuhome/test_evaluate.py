"""The rules for feasible QT2 to QT4: a reference agent passes, doing nothing fails, the fine print holds."""

from __future__ import annotations

import json
import random

import pytest

from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.episode_file import EpisodeFile, RequiredAction, read_episode
from homerl.envs.simuhome.sim.evaluation import AgentCall
from homerl.envs.simuhome.sim.reference_solution import solution_calls
from tests.envs.simuhome.conftest import BASE_TIME, each_sample

each_mode = pytest.mark.parametrize("strict", [True, False])


def played(episode, strict, ticks):
    """The end state and the calls of the reference agent, each call taking some ticks."""
    home, calls = load.start_home(episode.initial_home_config, strict), []
    for action in solution_calls(episode, home):
        arguments = {key: value for key, value in action.items() if key != "name"}
        result = tools.call_tool(home, action["name"], arguments)
        calls.append(AgentCall(action["name"], arguments, tools.is_refused(result)))
        passage.advance_home(home, home.tick + ticks)
    return home, calls


@each_mode
@each_sample
def test_the_reference_passes_and_doing_nothing_fails(path, strict):
    episode = read_episode(path)
    idle = evaluate.evaluate_episode(episode, evaluate.final_state(load.start_home(episode.initial_home_config, strict)), ())
    if not episode.is_decided_by_rule:
        assert idle.score == (evaluate.FAIL if episode.eval.required_actions else evaluate.NOT_EVALUATED)
        return
    assert idle.score == evaluate.FAIL and not any(idle.required)
    home, calls = played(
        episode, strict, 0 if strict else 20
    )  # strict, a purifier changed later may clean less (stale rates)
    key = home.state_key()
    verdict = evaluate.evaluate_episode(episode, evaluate.final_state(home), calls)
    assert verdict.score == evaluate.PASS, verdict
    assert home.state_key() == key


def episode_of(query_type, goals, devices, **state):
    rooms = {"room": {"state": state, "devices": devices}}
    return EpisodeFile.model_validate(
        {
            "meta": {"query_type": query_type, "case": "feasible"},
            "query": "?",
            "eval": {"goals": goals},
            "initial_home_config": {"base_time": BASE_TIME, "rooms": rooms},
        }
    )


LAMP = {"device_id": "lamp", "device_type": "on_off_light"}
LIT = {"room_id": "room", "device_id": "lamp", "asserts": [{"attribute": "1.OnOff.OnOff", "value": True}]}


def lamp_at(at, tolerance, value=True):
    asserts = [{"attribute": "1.OnOff.OnOff", "value": value}]
    target = {"room_id": "room", "device_id": "lamp", "asserts": asserts}
    return {"when": {"at_tick": at, "tolerance_ticks": tolerance}, "anchor": {}, "targets": [target]}


def flip(home, second, command="On"):
    place = {"device_id": "lamp", "endpoint_id": 1, "cluster_id": "OnOff", "command_id": command, "args": {}}
    start = f"2025-08-23 10:{second // 60:02}:{second % 60:02}"
    workflows.schedule_workflow(home, start, [{"tool": "execute_command", "args": place}])


@pytest.mark.parametrize(
    ("second", "tolerance", "holds"), [(99, 0, True), (100, 0, False), (130, 300, False), (129, 300, True)]
)
def test_a_goal_holds_at_one_tick_of_its_window(second, tolerance, holds):
    """A workflow due at a tick acts after it, so its effect is seen from the next tick on."""
    episode = episode_of("qt4-1", [lamp_at(1000, tolerance)], [LAMP])
    home = load.start_home(episode.initial_home_config)
    flip(home, second)
    assert evaluate.goals_hold(episode, home) == (holds,)


def test_goals_follow_one_another_from_where_the_last_one_held():
    """Both windows are alike, and the lamp goes off after it was on, or the other way round."""
    episode = episode_of("qt4-1", [lamp_at(1000, 300, True), lamp_at(1000, 300, False)], [LAMP])
    home = load.start_home(episode.initial_home_config)
    flip(home, 90)
    assert evaluate.goals_hold(episode, home) == (True, False)
    flip(home, 95, "Off")
    assert evaluate.goals_hold(episode, home) == (True, True)
    passage.advance_home(home, 1301)
    assert evaluate.goals_hold(episode, home) == (False, False), "all checkpoints have passed"


@each_mode
@pytest.mark.parametrize(
    ("flips", "strict_holds", "mended_holds"),
    [([50], True, False), ([70], True, True), ([95], True, True), ([50, 60, 95], True, True)],
    ids=["early", "as the window opens", "in time", "early, but taken back"],
)
def test_what_is_done_before_its_time_does_not_count_unless_strict(flips, strict_holds, mended_holds, strict):
    episode = episode_of("qt4-1", [lamp_at(1000, 300)], [LAMP])
    home = load.start_home(episode.initial_home_config, strict)
    for second, command in zip(flips, ("On", "Off", "On"), strict=False):
        flip(home, second, command)
    assert evaluate.goals_hold(episode, home) == (strict_holds if strict else mended_holds,)


def test_what_an_earlier_goal_or_the_home_has_done_already_is_not_early():
    twice = episode_of("qt4-1", [lamp_at(1000, 300), lamp_at(3000, 300)], [LAMP])
    home = load.start_home(twice.initial_home_config, strict=False)
    flip(home, 95)
    assert evaluate.goals_hold(twice, home) == (True, True)
    lit = episode_of("qt4-1", [lamp_at(1000, 300)], [LAMP | {"attributes": {"1.OnOff.OnOff": True}}])
    home = load.start_home(lit.initial_home_config, strict=False)
    assert evaluate.goals_hold(lit, home) == (True,)


def test_a_workflow_that_breaks_time_leaves_the_verdict_open():
    episode = episode_of("qt4-1", [lamp_at(1000, 0)], [LAMP])
    home = load.start_home(episode.initial_home_config)
    workflows.schedule_workflow(home, "2025-08-23 10:00:10", [{"tool": "execute_command", "args": {"device_id": "lamp"}}])
    assert evaluate.evaluate_episode(episode, home, ()).score == evaluate.NOT_EVALUATED
    mended = load.start_home(episode.initial_home_config, strict=False)
    workflows.schedule_workflow(mended, "2025-08-23 10:00:10", [{"tool": "execute_command", "args": {"device_id": "lamp"}}])
    assert evaluate.evaluate_episode(episode, mended, ()).score == evaluate.FAIL


def test_numbers_compare_as_numbers():
    for value, wanted, same in ((True, 1, True), (1, 1.0, True), (None, 0, False), ("1", 1, False), (None, None, True)):
        assert evaluate.is_same_value(value, wanted) is same
    home = load.start_home(episode_of("qt3", [LIT], [LAMP]).initial_home_config)
    assert (
        evaluate.value_at(home, "lamp", "1.OnOff.Foo") is None and evaluate.value_at(home, "nobody", "1.OnOff.OnOff") is None
    )


def test_a_path_into_a_structure_is_followed_unless_strict():
    tv = {"device_id": "tv", "device_type": "tv"}
    for strict, found in ((True, None), (False, 1)):
        home = load.start_home(episode_of("qt3", [], [tv]).initial_home_config, strict)
        assert evaluate.value_at(home, "tv", "1.Channel.CurrentChannel.MajorNumber") == found


def test_required_actions_match_by_what_they_name():
    action = RequiredAction(tool="t", params={"a": {"b": [1]}, "c": "x"})
    call = AgentCall("t", {"a": {"b": [2, 1], "z": 0}, "c": "x", "d": 4})
    assert evaluate.is_required_action_met(action, [call])
    assert not any(
        evaluate.is_required_action_met(action, [other])
        for other in (AgentCall("u", call.params), AgentCall("t", {"a": {"b": [2]}, "c": "x"}), AgentCall("t", {"c": "x"}))
    )
    refused = AgentCall("t", call.params, refused=True)
    assert evaluate.is_required_action_met(action, [refused]) and not evaluate.is_required_action_met(
        action, [refused], strict=False
    )


def test_a_room_variable_must_differ_from_the_untouched_home():
    goal = {"room_id": "room", "room_state": "illuminance", "direction": "increase"}
    episode = episode_of("qt2", [goal], [LAMP], illuminance=300)
    home = load.start_home(episode.initial_home_config)
    tools.call_tool(
        home,
        "execute_command",
        {
            "device_id": "lamp",
            "endpoint_id": 1,
            "cluster_id": "OnOff",
            "command_id": "On",
            "args": {},
        },
    )
    assert evaluate.goals_hold(episode, home) == (False,), "no pass has gone by"
    assert evaluate.goals_hold(episode, evaluate.final_state(home)) == (True,)


def test_a_broken_file_is_refused_by_name(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"meta": {"query_type": "qt9", "case": "feasible"}}))
    with pytest.raises(ValueError, match=r"broken\.json.*not an episode"):
        read_episode(path)


@pytest.mark.parametrize("seed", range(12))
def test_looking_at_events_is_looking_at_every_tick(seed, monkeypatch):
    """Workflows at odd seconds, a vacuum that changes by itself, overlapping windows."""
    rng = random.Random(seed)
    robot = {"1.RVCOperationalState.OperationalState": 1, "1.RVCOperationalState.CountdownTime": rng.randint(5, 120)}
    vacuum = {"device_id": "rvc", "device_type": "rvc", "attributes": robot}
    docked = {
        **lamp_at(rng.randint(100, 900), 300),
        "targets": [
            {
                "room_id": "room",
                "device_id": "rvc",
                "asserts": [
                    {"attribute": "1.RVCOperationalState.OperationalState", "value": 0},
                ],
            }
        ],
    }
    goals = [lamp_at(rng.randint(100, 1500), rng.choice((0, 300)), rng.random() < 0.5) for _ in range(3)]
    episode = episode_of("qt4-1", [*goals, docked], [LAMP, vacuum])
    home = load.start_home(episode.initial_home_config)
    for _ in range(4):
        flip(home, rng.randint(1, 170), rng.choice(("On", "Off")))
    quick = evaluate.goals_hold(episode, home)
    monkeypatch.setattr(evaluate, "_changes_by_itself", lambda *_: True)
    assert evaluate.goals_hold(episode, home) == quick


def test_a_home_whose_time_is_up_answers_nothing():
    config = {"base_time": BASE_TIME, "max_ticks": 50, "rooms": {"room": {"devices": [LAMP]}}}
    home = load.start_home(config)
    passage.advance_home(home, 1000)
    assert home.tick == 50 and "503" in tools.call_tool(home, "get_rooms", {})["error"]["detail"]


@pytest.mark.parametrize(
    "change", [{"base_time": "noon"}, {"rooms": {"room": {"state": {"humidity": "wet"}}}}, {"tick_interval": 0}]
)
def test_a_malformed_home_is_refused(change):
    with pytest.raises(ValueError, match="not a home"):
        load.start_home({"base_time": BASE_TIME, "rooms": {}} | change)
