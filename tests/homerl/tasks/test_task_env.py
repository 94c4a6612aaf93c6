"""Tasks for other people's trainers: the same dialogues, rewards and outcomes as homerl's own loop."""

import asyncio
import json
import re
import subprocess
import sys
import time

import pytest

import homerl
from homerl.bench.suites import is_shipped_suite
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.envs.core.world import ToolCall
from homerl.play.loop import play
from homerl.play.replay import reward_differences
from homerl.play.situation import Reply, Utterance
from homerl.play.trajectory import trajectory_from_row, trajectory_to_row
from homerl.rewards.composite import RewardWeights
from homerl.tasks.load_tasks import load_splits
from homerl.worlds.contract import EXPERT
from homerl.worlds.registry import begin_episode, known_suites, world_of
from homerl.worlds.users import ScriptedUser

SHIPPED = [name for name, (_, suite) in known_suites().items() if is_shipped_suite(suite)]
HOMES = {"home": {"devices": [3, 5]}, "intents": [1, 1]}


@pytest.fixture(scope="module")
def task() -> homerl.Task:
    return homerl.load_tasks(HOMES, count=1)[0]


def replies_of(trajectory) -> list[Reply]:
    return [Reply(step.message) for step in trajectory.steps]


def expert_trajectory(task: homerl.Task, seed: int = 0):
    """What homerl's own loop makes of the task."""
    blueprint = task.blueprint.model_copy(update={"seed": task.blueprint.seed + seed})
    agent = world_of(blueprint).baselines[EXPERT]()
    return asyncio.run(play(begin_episode(blueprint, task.limits), agent, ScriptedUser(blueprint.seed), blueprint.seed))


def play_replies(env: homerl.TaskEnv, replies: list) -> list[homerl.Turn]:
    return [env.step(reply) for reply in replies]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_suites_tasks_are_those_of_the_benchmark_to_the_digit(name):
    for task in homerl.load_suite(name, count=3):
        expected = expert_trajectory(task)
        env = task.start()
        turns = play_replies(env, replies_of(expected))
        assert env.done and turns[-1].outcome == expected.outcome and not any(turn.done for turn in turns[:-1])
        assert env.observation.messages == expected.messages and env.progress == expected.progress
        assert [turn.facts for turn in turns] == [step.facts for step in expected.steps]
        stored = trajectory_from_row(trajectory_to_row(env.trajectory("expert")))
        assert [*reward_differences(stored)] == []
        assert [turn.rewards for turn in turns] == list(env.trajectory().rewards)


def test_seeds_are_runs_of_a_benchmark():
    task = homerl.load_tasks({**HOMES, "phrasings": 3}, count=1)[0]
    assert [task.start(seed).seed - task.blueprint.seed for seed in (0, 3)] == [0, 3]
    assert len({task.start(seed).messages[-1]["content"] for seed in range(3)}) > 1
    assert task.start(1).messages == task.start(1).messages and task.start().messages == task.messages


def test_a_reply_has_many_forms(task):
    (call,) = next(step.facts.calls for step in expert_trajectory(task).steps if step.facts.calls)
    plain = {"name": call.name, "arguments": dict(call.arguments)}
    forms = [
        [plain],
        [ToolCall(call.name, call.arguments)],
        {"role": "assistant", "content": "", "tool_calls": [tool_call(call.name, call.arguments, "call_0")]},
        {"content": None, "tool_calls": [{"id": "call_0", "function": plain}]},
        f"<tool_call>{json.dumps(plain)}</tool_call>",
    ]
    turns = [task.start().step(form) for form in forms]
    assert turns[0].facts.calls and all(turn.facts == turns[0].facts for turn in turns)
    results = [[message["content"] for message in turn.new_messages if message["role"] == "tool"] for turn in turns]
    assert results[0] and all(result == results[0] for result in results)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (7, "a reply is a text, a message or a list of calls, not int"),
        ({"role": "user", "content": "hello"}, "the role 'user'"),
        ({"role": "assistant", "content": [{"type": "text"}]}, "no text"),
        ([{"arguments": {}}], "call 1 of the reply has no `name`"),
    ],
)
def test_a_reply_of_another_form_is_refused_and_changes_nothing(task, reply, why):
    env = task.start()
    before = env.messages
    with pytest.raises(ValueError, match=why):
        env.step(reply)
    assert env.messages == before and not env.done


def test_forks_are_exact_and_independent(task):
    replies = replies_of(expert_trajectory(task))
    env = task.start()
    start = env.fork()
    key = env.state_key()
    first = play_replies(env, replies)
    assert env.state_key() != key == start.state_key() and not start.done
    assert play_replies(start.fork(), replies) == first and start.state_key() == key
    env.restore(start)
    assert env.state_key() == key and play_replies(env, replies) == first
    with pytest.raises(ValueError, match="the episode is over"):
        env.step("Done.")


def test_a_state_of_another_task_is_not_restored(task):
    other = homerl.load_tasks(HOMES, count=1, first_seed=3)[0]
    with pytest.raises(ValueError, match="another task"):
        task.start().restore(other.start())


class Leaver:
    """A user who says one thing and goes."""

    name = "leaver"

    async def speak(self, episode):
        return Utterance("" if episode.turn else "Turn it on.", 0)


def test_the_last_step_before_a_user_leaves_is_rewarded_as_the_last(task):
    env = task.start(user=Leaver(), weights=RewardWeights(turn_limit=0.5))
    turn = env.step("It is done.")
    assert turn.done and turn.outcome == "agent_failure" and turn.facts.last
    assert turn.rewards["turn_limit"] == -0.5 == env.trajectory().rewards[-1]["turn_limit"]


class Faulty:
    """A user whose server is gone."""

    name = "faulty"

    async def speak(self, episode):
        from homerl.play.faults import InfraError

        if episode.turn:
            raise InfraError("the server is gone")
        return Utterance("Turn it on.", 0)


def test_what_a_server_spoils_does_not_count(task):
    turn = task.start(user=Faulty()).step("Which one?")
    assert turn.done and turn.outcome == "infra_error" and not turn.counts


def test_many_episodes_play_at_once_and_in_a_running_loop(task):
    replies = replies_of(expert_trajectory(task))

    async def play_one() -> list[homerl.Turn]:
        env = await task.start_async()
        return [await env.step_async(reply) for reply in replies]

    async def play_many() -> list[list[homerl.Turn]]:
        within = play_replies(task.start(), replies)  # as in a notebook
        return [within, *await asyncio.gather(*(play_one() for _ in range(4)))]

    found = asyncio.run(play_many())
    assert all(turns == found[0] for turns in found) and found[0][-1].outcome == "success"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({}, "no message of an agent"),
        ({"name": "get_states", "arguments": {}}, "give calls in a list"),
        ([{"name": "get_states", "parameters": {}}], "`parameters`: what a tool is given stands in `arguments`"),
        ([{"arguments": {}}], "call 1 of the reply has no `name`"),
        ({"tool_calls": "x"}, "tool_calls are no list, but str"),
        ({"tool_calls": ["x"]}, "call 1 of the reply has no `name`"),
    ],
)
def test_a_reply_in_another_form_is_refused_and_costs_nothing(task, reply, said):
    env = task.start()
    before = env.state_key()
    with pytest.raises(ValueError, match=re.escape(said)):
        env.step(reply)
    assert env.state_key() == before and not env.done


def test_weights_are_given_as_a_recipe_has_them(task):
    replies = replies_of(expert_trajectory(task))
    plain, weighted = (
        sum(turn.rewards["success"] for turn in play_replies(task.start(weights=weights), replies))
        for weights in (None, {"success": 2.0 * task.weights.success})
    )
    assert weighted == 2 * plain > 0
    with pytest.raises(InputError, match="did you mean progress"):
        task.start(weights={"progres": 1})


def test_tasks_are_listed_and_sliced(task):
    tasks = homerl.load_tasks(HOMES, count=6)
    assert len(tasks) == 6 and [one.id for one in tasks[1:5:2]] == [tasks[1].id, tasks[3].id] and tasks[-1].id == tasks[5].id
    assert tasks[0].id == task.id and tasks[0].sentence == task.messages[-1]["content"]
    with pytest.raises(IndexError, match="no task 6: there are 6, from 0 on"):
        tasks[6]
    assert homerl.load_tasks(HOMES, count=1, split="heldout")[0].sentence != task.sentence


def test_a_recipe_brings_its_limits_and_rewards():
    made = homerl.load_tasks("recipes/rlve_aligned.yaml", count=1)[0]
    assert made.weights.turn_cost == 0.02 and made.limits.calls == 16


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"toolsets": "assist"}, "toolsets"),
        ("recipes/sft_8b.yaml", "no `blueprints`"),
        ("nothing.yaml", "nothing.yaml"),
    ],
)
def test_a_source_that_makes_no_tasks_is_refused(source, why):
    with pytest.raises(InputError, match=why):
        homerl.load_tasks(source)


def test_splits_are_those_that_a_source_has():
    assert {name: len(tasks) for name, tasks in load_splits("simuhome").items()} == {
        "train": 10_000, "heldout": 10_000, "test": len(homerl.load_suite("simuhome"))
    }  # fmt: skip
    assert [*load_splits("smarthome-bench")] == ["test"] and [*load_splits("rlve_full.yaml")] == ["train", "heldout"]
    made = load_splits("homeenv")
    assert made["train"][0].blueprint != made["heldout"][0].blueprint
    with pytest.raises(InputError, match="smarthome-bench"):
        load_splits("smarthome-bensh")


def test_an_unknown_suite_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="there is no suite and no file 'smarthome-bank'"):
        homerl.load_suite("smarthome-bank")


def test_no_model_library_is_needed():
    program = (
        "import sys, homerl\n"
        "env = homerl.load_tasks({'intents': [1, 1], 'home': {'devices': [3, 4]}}, count=1)[0].start()\n"
        "env.step('Done.')\n"
        "print(sorted({'torch', 'transformers', 'trl', 'datasets', 'peft', 'accelerate'} & sys.modules.keys()))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_slow_import_says_at_once_that_it_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(homerl, "_SLOW", 0.05)
    homerl._import_and_say_if_slow("json")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(homerl, "import_module", lambda name: time.sleep(0.5))
    homerl._import_and_say_if_slow("json")
    assert "importing its worlds" in capsys.readouterr().err
