"""Suites as tasks of Inspect, run by Inspect itself with its own scripted model.

It needs the package `inspect-ai`, which is in the extra `interop`.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai.log import EvalLog, read_eval_log  # noqa: E402
from inspect_ai.model import ChatCompletionChoice, ChatMessage, ChatMessageAssistant, ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.tool import ToolCall  # noqa: E402
from replayed_replies import StoredReplies, serve_stored_replies  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import homerl  # noqa: E402
from homerl.app.cli.app import app  # noqa: E402
from homerl.play.trajectory import Trajectory, read_rows, read_trajectories  # noqa: E402
from homerl.tasks.inspect_tasks import SUITE_TASKS, make_inspect_task, to_tool_info  # noqa: E402

SUITE, COUNT = "smarthome-bench", 8


@pytest.fixture(scope="module")
def benched(tmp_path_factory) -> Path:
    """The folder of `homerl bench run`."""
    out = tmp_path_factory.mktemp("bench") / "run"
    done = CliRunner().invoke(app, f"bench run {SUITE} --model keywords --limit {COUNT} --out {out}".split())
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def played(benched) -> dict[str, Trajectory]:
    return {one.blueprint["id"]: one for one in read_trajectories(benched / "trajectories.jsonl")}


def stored_model(played: dict[str, Trajectory]) -> Any:
    """A model that gives each dialogue's stored replies in their turn."""
    replies = StoredReplies(played.values())

    def reply(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        stored = replies.reply_to([{"role": message.role, "content": message.text} for message in messages])
        calls = [
            ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in stored.get("tool_calls", ())
        ]
        message = ChatMessageAssistant(content=stored["content"] or "", tool_calls=calls or None)
        usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else Inspect loads a tokenizer to count
        return ModelOutput(model="stored", choices=[ChatCompletionChoice(message=message)], usage=usage)

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


@pytest.fixture(scope="module")
def log(played, tmp_path_factory) -> EvalLog:
    folder = tmp_path_factory.mktemp("logs")
    (done,) = inspect_ai.eval(
        make_inspect_task(SUITE, count=COUNT), stored_model(played), log_dir=str(folder), display="none"
    )
    assert done.status == "success", done.error
    return done


def test_scores_are_those_of_homerl_bench_to_the_digit(benched, log):
    results = {row["id"]: row for row in read_rows(benched / "results.jsonl")}
    assert {sample.id for sample in log.samples} == results.keys() and len(results) == COUNT
    assert {row["success"] for row in results.values()} == {True, False}
    for sample in log.samples:
        (score,) = sample.scores.values()
        row = results[sample.id]
        assert (score.value["success"], score.value["progress"]) == (float(row["success"]), row["progress"])
        assert sample.metadata["outcome"] == row["outcome"]
    (success,) = [one for one in log.results.scores if one.name == "success"]
    assert success.metrics["mean"].value == sum(row["success"] for row in results.values()) / COUNT


def test_the_log_has_the_dialogue_the_tools_and_the_reward_of_each_step(played, log):
    for sample in log.samples:
        stored = played[sample.id]
        assert [(message.role, message.text) for message in sample.messages] == [
            (message["role"], message.get("content") or "") for message in stored.messages
        ]
        env = next(task for task in homerl.load_suite(SUITE, count=COUNT) if task.id == sample.id).start()
        turns = [env.step(step.message) for step in stored.steps]
        told = [event.data for event in sample.events if event.event == "info"]
        assert [one["reward"] for one in told] == [turn.reward for turn in turns]
        assert [one["changed"] for one in told] == [list(turn.changed) for turn in turns]
        models = [event for event in sample.events if event.event == "model"]
        assert [tool.name for tool in models[0].tools] == [tool["function"]["name"] for tool in stored.tools]


def test_epochs_are_the_runs_of_the_benchmark(tmp_path):
    """The scripted user draws other words in each; the model says nothing of use."""

    def reply(*_: Any) -> ModelOutput:
        usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        said = ChatCompletionChoice(message=ChatMessageAssistant(content="I cannot do that."))
        return ModelOutput(model="stored", choices=[said], usage=usage)

    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = inspect_ai.eval(make_inspect_task(SUITE, count=2), model, epochs=2, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    tasks = {task.id: task for task in homerl.load_suite(SUITE, count=2)}
    for sample in log.samples:
        asked = [message.text for message in sample.messages if message.role == "user"]
        assert asked[0] == tasks[sample.id].start(sample.epoch - 1).messages[-1]["content"]
        assert next(iter(sample.scores.values())).value["success"] == 0


def test_the_command_line_finds_a_suite_by_its_name(tmp_path):
    env = next(iter(homerl.load_suite(SUITE, count=1))).start()
    while not env.done:
        env.step("I cannot do that.")
    command = [
        Path(sys.executable).with_name("inspect"),
        "eval",
        "homerl/smarthome_bench",
        "--model",
        "openai-api/home/stored",
    ]
    with serve_stored_replies([env.trajectory()]) as url:
        command += ["--model-base-url", url, "-T", "count=1", "--log-dir", tmp_path / "logs"]
        variables = os.environ | {"HOME_API_KEY": "none"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    (log,) = [read_eval_log(str(path)) for path in (tmp_path / "logs").iterdir()]
    assert log.status == "success", done.stdout + done.stderr
    assert [sample.scores["score_home"].value["success"] for sample in log.samples] == [0]


def test_each_suite_is_a_task_and_its_schemas_lose_nothing():
    assert SUITE in SUITE_TASKS and len(SUITE_TASKS) > 3
    for tool in itertools.chain.from_iterable(task.tools for task in homerl.load_suite(SUITE, count=2)):
        known = to_tool_info(tool).parameters.model_dump(exclude_none=True)
        wanted = tool["function"].get("parameters", {})
        assert known["properties"].keys() == wanted.get("properties", {}).keys()
        assert known["required"] == wanted.get("required", [])
        for name, schema in wanted.get("properties", {}).items():
            lost = schema.keys() - known["properties"][name].keys()
            assert not lost, f"{tool['function']['name']}.{name}: {lost}"
