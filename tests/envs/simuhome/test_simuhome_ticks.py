"""Released episodes with scripted correct actions, played by leaps and by the ticking oracle: the same verdicts."""

from __future__ import annotations

import json

import pytest

from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.episode_file import read_episode
from homerl.envs.simuhome.tasks.answer_checks import expert_reply, goals_answered
from homerl.envs.simuhome.tasks.expert import expert_plan
from tests.envs.simuhome.conftest import each_sample, samples
from tests.envs.simuhome.oracle import Ticking


def actions(episode):
    home = load.start_home(episode.initial_home_config)
    return [act for part in expert_plan(episode, home, expert_reply(episode, home, "en")) for act in part]


class Leaping:
    """The product's way, behind the oracle's interface."""

    def __init__(self, home):
        self.home = home

    def advance(self, tick):
        passage.advance_home(self.home, tick)


def act_in(way, episode, acts, thinking):
    """The state half a second after the last call, each of which takes some ticks, and the calls."""
    home, calls = way(load.build_home(episode.initial_home_config)), []
    home.advance(0)
    for act in acts:
        arguments = {key: value for key, value in act.items() if key != "name"}
        result = tools.call_tool(home.home, act["name"], arguments)
        calls.append(evaluate.AgentCall(act["name"], arguments, tools.is_refused(result)))
        home.advance(home.home.tick + thinking)
    home.advance(home.home.tick + evaluate.SETTLE_TICKS)
    return home, calls


def goals_by(way, episode, acts, thinking):
    """What the rules say, with nothing of the product's passage of time in it but what `way` brings."""
    played, calls = act_in(way, episode, acts, thinking)
    required = [evaluate.is_required_action_met(action, calls) for action in episode.eval.required_actions]
    if not episode.is_decided_by_rule:
        start = way(load.build_home(episode.initial_home_config))
        start.advance(0)
        return required, list(goals_answered(episode, start.home, played.home, acts[-1]["answer"]))
    if episode.meta.query_type == "qt2":
        fresh = way(load.build_home(episode.initial_home_config))
        fresh.advance(played.home.tick)
        return required, [evaluate.has_variable_moved(goal, played.home, fresh.home) for goal in episode.eval.goals]
    if episode.meta.query_type == "qt3":
        return required, [evaluate.asserts_hold(played.home, g.device_id, g.asserts) for g in episode.eval.goals]
    return required, list(_timed(played, episode.eval.goals))


def _timed(played, goals):
    """Every tick of every window is looked at."""
    for goal in sorted(goals, key=lambda goal: goal.when.at_tick):
        for tick in goal.when.tick_window:
            if tick >= played.home.tick:
                played.advance(tick)
            if all(evaluate.asserts_hold(played.home, t.device_id, t.asserts) for t in goal.targets):
                yield True
                break
        else:
            yield False


def compare(path):
    episode = read_episode(path)
    acts = actions(episode)
    for given, thinking in ((acts, 0), ([*acts[:1], acts[-1]], 20)):  # all of it at once, and next to nothing
        leaps, ticks = (goals_by(way, episode, given, thinking) for way in (Leaping, Ticking))
        assert leaps == ticks, (path.stem, given)
        passes = all((*leaps[0], *leaps[1]))
        home, calls = act_in(Leaping, episode, given, thinking)
        assert (
            not episode.is_decided_by_rule
            or (evaluate.evaluate_episode(episode, home.home, calls).score == evaluate.PASS) == passes
        )
        assert passes if given is acts else not (episode.is_decided_by_rule and passes), path.stem


def is_scheduled(path):
    meta = json.loads(path.read_text())["meta"]
    return meta["query_type"].startswith("qt4") and meta["case"] == "feasible"


@pytest.mark.long
@each_sample
def test_leaps_and_ticks_give_the_same_verdict(path):
    compare(path)


def test_leaps_and_ticks_give_the_same_verdict_where_no_hour_goes_by():
    short = [path for path in samples() if not is_scheduled(path)]
    if not short:
        pytest.skip("no samples")
    for path in short[::6]:
        compare(path)
