"""A task's tools as methods, and TRL's own trainer on them."""

from dataclasses import replace
from pathlib import Path

import pytest

import homerl
from homerl.tasks.tool_methods import make_tool_environment, score_tool_environments

SIMPLE = {"toolset": "assist", "intents": [1, 1], "families": {"atomic": 1}, "home": {"devices": [3, 4]}}


@pytest.fixture(scope="module")
def tasks() -> list[homerl.Task]:
    return [*homerl.load_tasks(SIMPLE, count=2)]


@pytest.mark.parametrize("toolset", ["assist", "direct", "smh", "homeflow"])
def test_the_schemas_that_a_trainer_reads_are_those_of_the_tools(toolset):
    from transformers.utils import get_json_schema

    (task,) = homerl.load_tasks({**SIMPLE, "toolset": toolset}, count=1)
    environment = make_tool_environment([task])()
    for tool in task.tools:
        function = tool["function"]
        found = get_json_schema(getattr(environment, function["name"]))["function"]
        wanted = function["parameters"]
        assert found["parameters"].get("properties", {}).keys() == wanted.get("properties", {}).keys()
        assert set(found["parameters"].get("required", ())) == set(wanted.get("required", ()))
        assert found["description"].split() == function["description"].split()


def test_a_call_is_a_step_and_the_last_words_end_the_episode(tasks):
    environment = make_tool_environment(tasks)()
    assert environment._run_call("anything", {}) == "refused: the episode is over"
    environment.reset(task=0, prompt="a column of the row")
    name = tasks[0].tools[0]["function"]["name"]
    env = replace(tasks[0], limits=replace(tasks[0].limits, turns=1)).start()
    first = env.step([{"name": name, "arguments": {"nonsense": 1}}])
    assert getattr(environment, name)(nonsense=1) == first.new_messages[-1]["content"]
    expected = first.reward + env.step("I cannot.").reward
    assert env.done
    said = [{"role": "assistant", "content": "I cannot."}]
    assert score_tool_environments([said], [environment]) == [pytest.approx(expected)]
    assert environment._env.messages == env.messages
    environment.reset(task=1)
    assert environment._env.messages == tasks[1].messages and environment._reward == 0


def test_trls_grpo_trains_a_model_of_homerl_on_them(tasks, tiny: Path, tmp_path: Path):
    """One update of a tiny model as homerl saves it; the rewards that TRL logs are those of our steps, and what it writes
    around a tool's answer are the tokens that homerl writes.
    """
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM

    from homerl.envs.core.messages import tool_call
    from homerl.models.policy.chat_template import encode_messages, render_new_messages
    from homerl.train.training_setup import load_chat_tokenizer

    tokenizer = load_chat_tokenizer(str(tiny))
    tokenizer.save_pretrained(tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(tiny).save_pretrained(tmp_path / "model")
    rows = [{"prompt": task.messages, "task": at} for at, task in enumerate(tasks)]
    settings = trl.GRPOConfig(
        str(tmp_path / "run"), use_cpu=True, bf16=False, report_to=[], max_steps=1, per_device_train_batch_size=2,
        num_generations=2, max_completion_length=16, logging_steps=1, save_strategy="no", beta=0.0,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        str(tmp_path / "model"),
        score_tool_environments,
        settings,
        Dataset.from_list(rows),
        environment_factory=make_tool_environment(tasks),
    )
    answers = [{"role": "tool", "name": "pyexec", "content": text} for text in ("on", "off")]
    asked = {"role": "assistant", "content": "", "tool_calls": [tool_call("pyexec", {}), tool_call("pyexec", {})]}
    written = encode_messages(tokenizer, render_new_messages(tokenizer, [asked, *answers], (), first=False), first=False)
    assert trainer._get_tool_suffix_ids(answers) == written
    trainer.train()
    (row,) = [row for row in trainer.state.log_history if "reward" in row]
    assert row["reward"] < 0, "nothing was done, and the end is charged"
