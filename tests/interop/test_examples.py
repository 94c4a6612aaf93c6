"""The examples of interop/: short, and run against what they are for, or against its interface."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import homerl

ROOT = Path(__file__).parents[2]
EXAMPLES = [*sorted((ROOT / "interop/examples").glob("*.*")), ROOT / "recipes/openenv/train_grpo.py"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_at_most_forty_lines(example):
    assert len(example.read_text("utf-8").splitlines()) <= 40


@pytest.mark.parametrize("example", ["interop/examples/trl_homes.py", "recipes/openenv/train_grpo.py"])
def test_the_page_shows_what_the_file_does(example):
    code = (ROOT / example).read_text("utf-8").partition("\n\n")[2]  # after its docstring
    assert code and f"```\n{code}```" in (ROOT / "docs/interop.md").read_text("utf-8")


def test_the_settings_for_prime_rl_name_tasks_that_there_are():
    """By their form at commit 2119bdb of prime-rl; its `turn_credit` reads what test_verifiers.py checks."""
    settings = tomllib.loads((ROOT / "interop/examples/prime_rl.toml").read_text("utf-8"))["orchestrator"]
    (learnt,), (tested,) = settings["train"]["env"], settings["eval"]["env"]
    assert settings["algo"] == {"type": "turn_credit"}
    assert learnt["env"]["taskset"]["id"] == tested["env"]["taskset"]["id"] == "homerl-homes"
    source = homerl.load_tasks(json.loads(learnt["env"]["taskset"]["tasks"]), count=1)
    assert source[0].tools and homerl.load_suite(tested["env"]["taskset"]["suite"], count=1)[0].tools
    vf = pytest.importorskip("verifiers.v1")
    sys.path.insert(0, str(ROOT / "interop/verifiers"))
    for env in (learnt["env"], tested["env"]):
        loaded = vf.load_environment(vf.resolve_env_config(env))
        assert next(iter(loaded.taskset)).data.prompt


def test_verifiers_plays_the_example_and_its_command_line_the_suite(tmp_path):
    vf = pytest.importorskip("verifiers.v1")
    from replayed_replies import serve_stored_replies

    sys.path.insert(0, str(ROOT / "interop/verifiers"))
    records = []
    for task in homerl.load_suite("smarthome-bench", count=3):
        env = task.start()
        while not env.done:
            env.step("I cannot do that.")
        records.append(env.trajectory())
    example = load_example("verifiers_steps.py")
    with serve_stored_replies(records) as url:
        traces: list[vf.Trace] = asyncio.run(example.play_homes(url, "stored", 3))
        command = [Path(sys.executable).with_name("vf-eval"), *"homerl-homes -n 1 -m stored --client.base-url".split(), url]
        command += "--env.agent.runtime.type subprocess --no-push".split()
        variables = os.environ | {"OPENAI_API_KEY": "none"}
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [trace.ok for trace in traces] == [True] * 3
    assert sorted(trace.task.data.id for trace in traces) == sorted(one.blueprint["id"] for one in records)


@dataclass
class TokenOutput:
    """What verl's server gives."""

    token_ids: list[int]
    log_probs: list[float] | None


class AgentLoopBase:
    """verl 0.9.1's, as far as an agent loop calls it. A token is a character; what the model did not say has the mask 0."""

    def __init__(self, replies: list[str], log_probs: bool) -> None:
        self.rollout_config = SimpleNamespace(response_length=2000)
        self.tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens=False: "".join(map(chr, ids)))
        self.server_manager, self._replies, self._log_probs = self, iter(replies), log_probs

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        ids = [*map(ord, next(self._replies))]
        return TokenOutput(ids, [-0.5] * len(ids) if self._log_probs else None)

    async def ct_build_initial_tokens(self, messages: list[dict], tools: list[dict] | None = None) -> list[int]:
        return [*map(ord, str((messages, tools)))]

    async def ct_merge_assistant_token(
        self,
        runtime_token_ids: list[int],
        assistant_token_ids: list[int],
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        assistant_logprobs: list[float] | None = None,
    ) -> tuple[Any, list[int], list[float] | None]:
        merged = SimpleNamespace(token_ids=runtime_token_ids + assistant_token_ids)
        known = None if response_logprobs is None else response_logprobs + (assistant_logprobs or [])
        return merged, response_mask + [1] * len(assistant_token_ids), known

    async def ct_merge_context_msg(
        self,
        previous_messages: list[dict],
        updated_messages: list[dict],
        runtime_token_ids: list[int],
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        tools: list[dict] | None = None,
    ) -> tuple[Any, list[int], list[float] | None]:
        assert updated_messages[: len(previous_messages)] == previous_messages
        new = [*map(ord, "".join(message["content"] for message in updated_messages[len(previous_messages) :]))]
        known = None if response_logprobs is None else response_logprobs + [0.0] * len(new)
        return SimpleNamespace(token_ids=runtime_token_ids + new), response_mask + [0] * len(new), known


@dataclass
class AgentLoopOutput:
    """verl 0.9.1's, without what is for pictures."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    metrics: dict[str, Any]
    response_logprobs: list[float] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    extra_fields: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(("split", "log_probs"), [("train", True), ("heldout", False)])
def test_the_agent_loop_for_verl_gives_tokens_masks_and_the_reward_of_each_step(monkeypatch, split, log_probs):
    pytest.importorskip("pyarrow", reason="what exports data is of the extra train")
    from homerl.report.cards.exported_data import task_to_row

    interface = ModuleType("verl.experimental.agent_loop.agent_loop")
    interface.AgentLoopBase, interface.AgentLoopOutput = AgentLoopBase, AgentLoopOutput
    interface.register = lambda name: lambda loop: loop
    for name in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    example = load_example("verl_agent_loop.py")
    task = homerl.load_tasks("recipes/rlve_full.yaml", split=split)[3]
    tool = task.tools[0]["function"]["name"]
    replies = [f'<tool_call>{{"name": "{tool}", "arguments": {{"nonsense": 1}}}}</tool_call>', *["I cannot."] * 20]
    env, expected, said = task.start(), [], ""
    for reply in replies:
        if env.done:
            break
        expected.append(env.step(reply).reward)
        said += reply
    loop = example.HomeAgentLoop(replies, log_probs)
    row = {**task_to_row(task, 3), "raw_prompt": []}  # as `homerl export-data` writes it
    output = asyncio.run(loop.run({"temperature": 1.0}, **row))
    assert output.extra_fields["turn_scores"] == expected and output.reward_score == sum(expected) and len(expected) > 1
    assert len(output.response_ids) == len(output.response_mask)
    learnt = [id for id, own in zip(output.response_ids, output.response_mask) if own]
    assert "".join(map(chr, learnt)) == said
    assert "".join(map(chr, output.prompt_ids)) == str((task.messages, task.tools))
    if log_probs:
        assert [value != 0 for value in output.response_logprobs] == [bool(own) for own in output.response_mask]
    else:
        assert output.response_logprobs is None


def load_example(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), ROOT / "interop/examples" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
