"""What is written on top of the protocol: tree search, credit by step, and TRL's trainer, each over a real server."""

import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="scripts/check_interop runs these tests: openenv needs mcp 1, and homerl[mcp] mcp 2")

from openenv_serving import PATIENT, SIMPLE, expert_messages, openenv_server, write_recipe

import homerl
from homerl.tasks.openenv.client import TaskClient

ROOT = Path(__file__).parents[4]
FOLDER, PAGE = ROOT / "recipes/openenv", ROOT / "docs/interop.md"
CODE = {**SIMPLE, "toolset": "homeflow"}
WRONG = "I have done all that you asked for."


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("recipe") / "code.yaml", CODE)


@pytest.fixture(scope="module")
def url(recipe):
    with openenv_server(recipe, "--fork") as (_, address):
        yield address


@pytest.fixture
def load_example(monkeypatch):
    """An example by its name, with `argv` as its arguments."""
    monkeypatch.syspath_prepend(FOLDER)

    def load(name: str, *argv: str):
        monkeypatch.setattr(sys, "argv", [name, *argv])
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_forks_over_the_wire_are_exact_and_independent(url, recipe):
    task = homerl.load_tasks(recipe)[0]
    messages = expert_messages(task)
    with TaskClient(url, **PATIENT) as client, TaskClient(url, **PATIENT) as other:
        start = client.reset(index=0)
        fork, key = client.fork(), client.state_key()
        first = [client.step(message) for message in messages]
        assert first[-1].metadata["outcome"] == "success" and client.state_key() != key
        again = client.restore(fork)
        assert again.observation.messages == start.observation.messages and client.state_key() == key
        assert client.state().step_count == 0
        assert [client.step(message) for message in messages] == first
        restored = other.restore(fork)  # by another session, which has begun nothing
        assert restored.observation == again.observation and [other.step(message) for message in messages] == first
        assert client.restore(fork).reward is None and client.step(WRONG) != first[0]
        client.reset(index=1)
        for gone in (fork, "none"):
            with pytest.raises(RuntimeError, match=r"there is no fork .*EXECUTION_ERROR"):
                other.restore(gone)
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            other.restore(5)


def test_a_search_finds_what_a_careless_policy_does_not(url, recipe, load_example):
    found, task = load_example("fork_search"), homerl.load_tasks(recipe)[2]
    plan, rng = expert_messages(task), random.Random(0)

    def propose(dialogue, tools, width):
        right = plan[sum(message["role"] == "assistant" for message in dialogue)]
        replies = [WRONG, "<tool_call>{}</tool_call>", right, {"content": "", "tool_calls": []}]
        return rng.sample(replies, width)

    with TaskClient(url, **PATIENT) as client:
        best = found.search_episode(client, propose, index=2, seed=0)
        assert best.outcome == "success" and best.earned == pytest.approx(2.0) and best.path[0] == plan[0]
        assert found.search_episode(client, lambda *_: [WRONG], index=2, seed=5).outcome != "success"
        assert client.state().seed == 5


def test_credit_by_forks_is_the_difference_that_a_reply_made(url, recipe, load_example):
    credit, task = load_example("fork_credit"), homerl.load_tasks(recipe)[0]
    plan, luck = expert_messages(task), iter([*[True] * len(expert_messages(task)), *[False, True] * 50])

    def policy(dialogue, tools):
        turn = sum(message["role"] == "assistant" for message in dialogue)
        return plan[turn] if turn < len(plan) and next(luck) else WRONG

    with TaskClient(url, **PATIENT) as client:
        credited = credit.credit_episode(client, policy, index=0, others=6)
    assert [one.reply for one in credited] == plan and credited[0].return_to_go == pytest.approx(2.0)
    assert credited[0].advantage > 1, "whoever left out the call failed"
    assert credited[-1].advantage == pytest.approx(0), "other last words would have done as well"
    for one, after in zip(credited, credited[1:]):
        assert one.return_to_go == pytest.approx(one.reward + after.return_to_go)


def test_the_loop_of_the_page_keeps_the_dialogue_as_it_was(url, recipe):
    """With the expert's replies as those of the model."""
    (loop,) = re.findall(r"```\n(from openenv.core import GenericEnvClient\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    task = homerl.load_tasks(recipe, split="heldout")[3]
    plan, seen = expert_messages(task), list[list[dict]]()

    def my_model(dialogue, tools):
        reply = plan[len(seen)]
        seen.append([*dialogue])
        functions = [call["function"] for call in reply.get("tool_calls", ())]
        calls = ({"name": one["name"], "arguments": json.loads(one["arguments"])} for one in functions)
        return (reply["content"] or "") + "".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)

    assert 'split="test"' in loop and "http://127.0.0.1:8000" in loop
    exec(loop.replace('"test"', '"heldout"').replace("http://127.0.0.1:8000", url), {"my_model": my_model})
    env = task.start(seed=0)
    for dialogue, reply in zip(seen, plan, strict=True):
        assert [message["role"] for message in dialogue] == [message["role"] for message in env.messages]
        assert [message["content"] for message in dialogue] == [message["content"] for message in env.messages]
        env.step(reply)
    assert env.outcome == "success"


def test_trls_grpo_trains_by_openenvs_client(tiny, tmp_path):
    """The example as it is, with a tiny model on the CPU: one update, whose rewards are the server's."""
    import trl
    from transformers import AutoTokenizer

    model = str(shutil.copytree(tiny, tmp_path / "model"))
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text("utf-8")
    tokenizer.save_pretrained(model)
    code = write_recipe(tmp_path / "tasks.yaml", CODE, limits={"turns": 1})
    settings = {
        "model_name_or_path": model, "output_dir": tmp_path / "run", "use_cpu": True, "bf16": False, "report_to": "none",
        "max_steps": 1, "per_device_train_batch_size": 2, "num_generations": 2, "max_completion_length": 16,
        "logging_steps": 1, "save_strategy": "no",
    }  # fmt: skip
    arguments = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    with openenv_server(code) as (_, address):
        done = subprocess.run(
            [sys.executable, FOLDER / "train_grpo.py", *arguments],
            env=os.environ | {"HOMES": address, "PYTHONPATH": ""}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (reward,) = map(float, re.findall(r"'reward': '?(-?[\d.e-]+)", done.stdout))
    nothing = homerl.load_tasks(code)[0].start().step("x")
    assert nothing.done and reward == pytest.approx(nothing.reward) and reward < 0, "words alone end it, and are charged"
