"""The taskset for verifiers, played by verifiers itself.

It needs a Python environment of its own, since verifiers pins another version of `mcp` than the extra `mcp`:
`scripts/check_interop --verifiers` makes one and runs it.
"""

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

vf = pytest.importorskip("verifiers.v1")
pytest.importorskip("openai")

from replayed_replies import serve_stored_replies  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import homerl  # noqa: E402
from homerl.app.cli.app import app  # noqa: E402
from homerl.play.trajectory import Trajectory, read_rows, read_trajectories  # noqa: E402

SUITE, COUNT = "smarthome-bench", 8
sys.path.insert(0, str(Path(__file__).parents[2] / "interop/verifiers"))


def play(url: str, taskset: dict[str, Any], **agent: Any) -> list[Any]:
    """The traces of the episodes that verifiers plays."""
    seat = {"runtime": {"type": "subprocess"}, **agent}
    config = vf.resolve_env_config({"taskset": {"id": "homerl-homes", **taskset}, "agent": seat})
    loaded = vf.load_environment(config)
    ctx = vf.ModelContext(
        model="stored", client=vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY"), sampling=vf.SamplingConfig()
    )

    async def episodes() -> list[Any]:
        async with loaded.serving():
            return [await loaded.run_episode(task, ctx) for task in loaded.taskset]

    return [episode.traces[0] for episode in asyncio.run(episodes())]


@pytest.fixture(scope="module")
def benched(tmp_path_factory) -> Path:
    """The folder of `homerl bench run`."""
    out = tmp_path_factory.mktemp("bench") / "run"
    done = CliRunner().invoke(app, f"bench run {SUITE} --model keywords --limit {COUNT} --out {out}".split())
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def traces(benched) -> dict[str, Any]:
    with serve_stored_replies(read_trajectories(benched / "trajectories.jsonl")) as url:
        return {trace.task.data.id: trace for trace in play(url, {"suite": SUITE, "count": COUNT})}


def test_scores_are_those_of_homerl_bench_to_the_digit(benched, traces):
    results = {row["id"]: row for row in read_rows(benched / "results.jsonl")}
    assert results.keys() == traces.keys() and len(results) == COUNT
    assert {row["success"] for row in results.values()} == {True, False}
    for id, row in results.items():
        trace = traces[id]
        assert trace.ok and not trace.errors
        assert trace.reward == trace.rewards["success"].score == float(row["success"])
        assert trace.metrics["progress"] == row["progress"]
        assert trace.info["outcome"] == row["outcome"]


def test_each_message_has_its_own_reward(benched, traces):
    played: dict[str, Trajectory] = {one.blueprint["id"]: one for one in read_trajectories(benched / "trajectories.jsonl")}
    for task in homerl.load_suite(SUITE, count=COUNT):
        trace, env = traces[task.id], task.start()
        rewards = [env.step(step.message).rewards for step in played[task.id].steps]
        assert trace.info["step_rewards"] == rewards
        sums = [*itertools.accumulate(sum(parts.values()) for parts in rewards)]
        assert trace.info["turn_rewards"] == pytest.approx(sums)
        assert trace.rewards["step_rewards"].score == pytest.approx(sums[-1])


def test_prime_rls_turn_credit_can_read_the_rewards(traces):
    """Its rule: one finite number, or null, for each sampled message, in their order."""
    for trace in traces.values():
        turns = json.loads(json.dumps(trace.to_record()["info"]["turn_rewards"]))
        assert len(turns) == trace.num_turns == sum(node.sampled for node in trace.nodes)
        assert all(isinstance(entry, float | int) for entry in turns)


def test_the_dialogue_is_one_branch_with_the_tools_and_the_person(benched, traces):
    played = {one.blueprint["id"]: one for one in read_trajectories(benched / "trajectories.jsonl")}
    for id, trace in traces.items():
        assert trace.num_branches == 1, "so a trainer learns from one sequence"
        told = [(message.role, message.content or "") for message in trace.messages]
        stored = [(message["role"], message.get("content") or "") for message in played[id].messages]
        assert told == stored[: len(told)] and len(told) >= len(stored) - 2, "the end of the episode is asked for no reply"
        assert {tool.name for tool in trace.tools} == {tool["function"]["name"] for tool in played[id].tools}


def test_neither_goals_nor_plans_are_in_a_task():
    taskset = vf.load_taskset(vf.taskset_config_type("homerl-homes")(id="homerl-homes", suite=SUITE, count=2))
    (task, second), goals = taskset, ["intents", "conditions", "plan", "goals"]
    assert task.key != second.key
    assert not any(f'"{name}"' in task.data.model_dump_json() for name in goals)
    assert task.data.prompt[-1].role == "user"


def test_tasks_are_made_of_a_recipe_too(benched):
    source = json.dumps({"toolset": "assist", "intents": [1, 1], "home": {"devices": [3, 4]}})
    config = vf.taskset_config_type("homerl-homes")(id="homerl-homes", tasks=source, count=3, split="heldout")
    found = [task.data.description for task in vf.load_taskset(config)]
    assert found == [task.sentence for task in homerl.load_tasks(json.loads(source), 3, split="heldout")]


def test_a_limit_of_the_run_ends_an_episode_and_no_reward_is_lost(benched):
    with serve_stored_replies(read_trajectories(benched / "trajectories.jsonl")) as url:
        traces = play(url, {"suite": SUITE, "count": COUNT}, max_turns=1)
    for trace in traces:
        assert trace.ok and len(trace.info["turn_rewards"]) == trace.num_turns == 1
