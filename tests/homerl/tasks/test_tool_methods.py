"""A task's tools as methods, and TRL's own trainer on them."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import homerl
from homerl.tasks.tool_methods import make_tool_environment, score_tool_environments

EXAMPLE = Path(__file__).parents[3] / "interop/examples/trl_homes.py"
SIMPLE = {"toolset": "assist", "intents": [1, 1], "families": {"atomic": 1}, "home": {"devices": [3, 4]}}
ONE_STEP = {  # options of TRL's trainer
    "use_cpu": True, "bf16": False, "report_to": "none", "max_steps": 1, "per_device_train_batch_size": 2,
    "num_generations": 2, "logging_steps": 1, "save_strategy": "no",
}  # fmt: skip


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


def test_trls_grpo_trains_a_model_of_homerl_on_them(tasks, tiny: Path, tmp_path: Path, monkeypatch):
    """One update on a group in which one rollout makes the expert's call and the other does nothing, whatever the tiny model
    would have sampled. The rewards that TRL logs are those of our steps, and what it writes around a tool's answer are the
    tokens that homerl writes.
    """
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from transformers.generation.utils import GenerationMixin

    from homerl.envs.core.messages import tool_call
    from homerl.models.policy.chat_template import encode_messages, render_assistant_message, render_new_messages
    from homerl.train.training_setup import load_chat_tokenizer

    tokenizer = load_chat_tokenizer(str(tiny))
    tokenizer.save_pretrained(tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(tiny).save_pretrained(tmp_path / "model")
    expert = next(message for message in tasks[0].play_expert().messages if message["role"] == "assistant")
    end = tokenizer.eos_token
    sampled = [[render_assistant_message(tokenizer, expert), f"No.{end}"], [f"Done.{end}"]]  # of both, then after the call

    def generate(model, input_ids, **_):
        texts = sampled.pop(0)
        assert len(texts) == len(input_ids)
        rows = [torch.tensor(tokenizer(text)["input_ids"]) for text in texts]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        return torch.cat([input_ids, padded], dim=1)

    rows = [{"prompt": tasks[0].messages, "task": 0}] * 2
    settings = trl.GRPOConfig(str(tmp_path / "run"), **ONE_STEP, max_completion_length=256, beta=0.0)
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
    before = [weight.clone() for weight in trainer.model.parameters()]
    monkeypatch.setattr(GenerationMixin, "generate", generate)
    trainer.train()
    assert not sampled, "the result of the call was answered"
    (row,) = [row for row in trainer.state.log_history if "reward" in row]
    nothing = replace(tasks[0], limits=replace(tasks[0].limits, turns=1)).start().step("No.").reward
    assert nothing < 0, "nothing was done, and the end is charged"
    assert row["reward"] == pytest.approx((2.0 + nothing) / 2) and row["reward_std"] > 1
    assert any((weight != old).any() for weight, old in zip(trainer.model.parameters(), before)), "it learns from the group"


def test_the_example_trains(tiny: Path, tmp_path: Path):
    """The file as it is, by its command line. What a tiny model samples does nothing, and is charged."""
    from transformers import AutoModelForCausalLM

    from homerl.train.training_setup import load_chat_tokenizer

    load_chat_tokenizer(str(tiny)).save_pretrained(tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(tiny).save_pretrained(tmp_path / "model")
    paths = {"model_name_or_path": tmp_path / "model", "output_dir": tmp_path / "run"}
    settings = paths | ONE_STEP | {"max_completion_length": 16}
    arguments = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    done = subprocess.run(
        [sys.executable, EXAMPLE, *arguments], cwd=EXAMPLE.parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (reward,) = map(float, re.findall(r"'reward': '?(-?[\d.e-]+)", done.stdout))
    assert reward < 0
