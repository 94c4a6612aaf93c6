"""Gymnasium's ids of suites: its own checker, seeds, specs as JSON, and vectors of environments."""

import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import homerl
from homerl.bench.suites import is_shipped_suite
from homerl.envs.core.documents import InputError
from homerl.envs.core.spaces import JsonObjects
from homerl.worlds.registry import known_suites

SHIPPED = [name for name, (_, suite) in known_suites().items() if is_shipped_suite(suite)]
MADE = {"source": {"home": {"devices": [3, 5]}, "intents": [1, 1]}, "count": 20}
WORDS = "I cannot do that."


def make_env(**arguments) -> gym.Env:
    return gym.make("homerl.tasks:homerl/tasks-v0", **{**MADE, **arguments})


@pytest.mark.parametrize("name", SHIPPED)
def test_gymnasiums_checker_finds_nothing_in_a_suite(name):
    env = gym.make(f"homerl.tasks:homerl/{name}-v0", count=4, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the checker warns of what it does not refuse
        check_env(env)


def test_an_observation_has_the_users_sentence_and_what_the_agent_may_see():
    env, task = make_env(render_mode="ansi"), homerl.load_tasks(**MADE)[2]
    observation, info = env.reset(options={"task": 2})
    assert info == {"task": 2, "id": task.id}
    assert observation == {"sentence": task.sentence, "messages": task.messages, "tools": task.tools}
    expected = task.start().step(WORDS)
    observation, reward, terminated, truncated, info = env.step(WORDS)
    assert (reward, info["rewards"]) == (expected.reward, expected.rewards) and observation in env.observation_space
    assert tuple(observation["messages"][len(task.messages) :]) == expected.new_messages
    assert (terminated, truncated) == (expected.done, False) and info["outcome"] == (expected.outcome or "")
    assert task.sentence in env.render() and WORDS in env.render()


def test_seeds_decide_on_task_and_words():
    env = make_env()
    first = [env.reset(seed=7), *(env.reset() for _ in range(3))]
    env.step(WORDS)
    assert [env.reset(seed=7), *(env.reset() for _ in range(3))] == first
    assert len({info["id"] for _, info in first}) > 1
    assert [env.reset(seed=seed)[1]["id"] for seed in range(4)] != [info["id"] for _, info in first]
    again = make_env()
    assert again.reset(seed=7) == first[0]


def test_a_spec_is_json_from_which_the_same_is_made():
    env = make_env(rewards={"audit": 0.5})
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=3) == env.reset(seed=3)
    call = [{"name": "no such tool", "arguments": {}}]
    assert env.step(call)[-1]["rewards"]["audit"] == -0.5
    assert again.step(call)[0] == env.unwrapped._observe()


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.long)])  # processes begin from nothing
def test_tasks_are_played_side_by_side(mode):
    alone = []
    for seed in (5, 6):
        env = make_env()
        alone.append((env.reset(seed=seed)[0], env.step(WORDS)))
    beside = {"vector_kwargs": {"context": "spawn", "shared_memory": False}} if mode == "async" else {}
    vector = gym.make_vec("homerl.tasks:homerl/tasks-v0", 2, vectorization_mode=mode, **beside, **MADE)
    try:
        observations, _ = vector.reset(seed=5)
        assert list(observations["sentence"]) == [observation["sentence"] for observation, _ in alone]
        observations, rewards, *_, infos = vector.step((WORDS, WORDS))
        assert [list(observations[key]) for key in ("messages", "tools")] == [
            [step[0][key] for _, step in alone] for key in ("messages", "tools")
        ]
        assert rewards.tolist() == [step[1] for _, step in alone]
        assert list(infos["outcome"]) == [step[4]["outcome"] for _, step in alone]
    finally:
        vector.close()


def test_an_environment_of_a_task_forks():
    env = make_env()
    env.reset(seed=1)
    saved = env.unwrapped.task_env.fork()
    first = env.step(WORDS)
    env.unwrapped.task_env.restore(saved)
    assert env.step(WORDS) == first


def test_wrong_arguments_are_refused():
    for wrong, told in (
        ({"suite": "nothing"}, "or a source"),
        ({"source": None}, "give a suite"),
        ({"source": None, "suite": "nothing"}, "no suite and no file 'nothing'"),
        ({"rewards": {"audits": 1}}, "audits"),
    ):
        with pytest.raises(InputError, match=told):
            make_env(**wrong)
    env = make_env()
    with pytest.raises(gym.error.ResetNeeded):
        env.step(WORDS)
    with pytest.raises(InputError, match="there is no task 20"):
        env.reset(options={"task": 20})
    with pytest.raises(InputError, match="there is no option 'index'"):
        env.reset(options={"index": 2})


def test_samples_are_in_their_space():
    space = JsonObjects(seed=1)
    assert all(space.sample() in space for _ in range(20)) and JsonObjects() == space
    assert [{"a": [1]}] in space and [{"a": float("nan")}] not in space and [{"a": {1}}] not in space and [1] not in space
