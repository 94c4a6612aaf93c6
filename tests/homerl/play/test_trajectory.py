"""Trajectories on disk: nothing is lost, every row has one shape, and `datasets` reads them."""

import asyncio
import json
import os
from dataclasses import replace
from functools import cache

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import Boundary, Fault
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import (
    Outcome,
    Trajectory,
    read_rows,
    trajectory_from_row,
    trajectory_to_row,
    uniform_rows,
    write_rows,
)
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser


@cache
def trajectories() -> tuple[Trajectory, ...]:
    """Successes and failures, of one call and several, with refusals, errors and words."""
    expert = {"styles": {"snippet": 1, "stepwise": 1, "query_first": 1}}
    played = []
    for seed in range(20):
        blueprint = make_home_blueprint(BlueprintRecipe(), "train", seed)
        episode = begin_episode(blueprint, EpisodeLimits(turns=3, steps=6))
        played.append(asyncio.run(play(episode, Expert(seed, 0.6, **expert), ScriptedUser(seed), seed)))
    episode = begin_episode(make_home_blueprint(BlueprintRecipe(), "heldout", 1), EpisodeLimits(steps=1))
    episode.add_utterance("é “quoted”\u2028\n\\ please", 1)
    calls = [tool_call("query_spec", {"did": "1"}, "call_1"), tool_call("pyexec", {"code": "1/0 # ü\u0085"}, "call_2")]
    episode.apply_reply(Reply({"role": "assistant", "content": "so", "tool_calls": calls}, tokens=9))
    played.append(episode.to_trajectory("someone", "nobody", 3))
    return tuple(played)


def rewarded(trajectory: Trajectory) -> Trajectory:
    from dataclasses import replace

    weights = RewardWeights(collateral=0.2)
    return replace(
        trajectory, rewards=tuple(step_rewards(s.facts, weights) for s in trajectory.steps), weights=weights.model_dump()
    )


def test_the_sample_is_varied():
    outcomes = {trajectory.outcome for trajectory in trajectories()}
    assert {Outcome.SUCCESS, Outcome.STEP_LIMIT} < outcomes
    assert any(not t.is_valid for t in trajectories()) and any(t.is_valid for t in trajectories())


def test_a_row_gives_the_trajectory_back():
    for trajectory in map(rewarded, trajectories()):
        row = json.loads(json.dumps(trajectory_to_row(trajectory)))
        assert trajectory_from_row(row) == trajectory
        assert trajectory_to_row(trajectory_from_row(row)) == trajectory_to_row(trajectory)
        assert (
            trajectory_from_row(row).turns() == trajectory.turns() and trajectory_from_row(row).success == trajectory.success
        )


def test_all_rows_have_one_shape():
    rows = [trajectory_to_row(trajectory) for trajectory in trajectories()]
    assert len({tuple((key, type(value)) for key, value in row.items()) for row in rows}) == 1
    assert len({tuple(message) for row in rows for message in row["messages"]}) == 1


def test_a_file_gives_the_trajectories_back(tmp_path):
    write_rows(tmp_path / "t.jsonl", map(trajectory_to_row, trajectories()))
    assert tuple(map(trajectory_from_row, read_rows(tmp_path / "t.jsonl"))) == trajectories()
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_turns_hold_the_steps_that_answer_them():
    for trajectory in trajectories():
        turns = trajectory.turns()
        assert [step for turn in turns for step in turn.steps] == list(trajectory.steps)
        assert [turn.utterance for turn in turns] == [m["content"] for m in trajectory.messages if m["role"] == "user"]


def test_a_trajectory_is_complete_in_itself():
    for trajectory in trajectories():
        blueprint = Blueprint.model_validate(json.loads(json.dumps(trajectory.blueprint)))
        again = begin_episode(blueprint, EpisodeLimits(turns=3, steps=6))
        for turn in trajectory.turns():
            again.add_utterance(turn.utterance)
            for step in turn.steps:
                replayed = again.apply_reply(Reply(step.message))
                assert replayed.state_key == step.state_key and replayed.observations == step.observations
                assert replayed.facts.progress_after == step.facts.progress_after
                assert replayed.facts.changed == step.facts.changed


def test_datasets_reads_the_file(tmp_path):
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    from datasets import load_dataset

    sample = trajectories()
    write_rows(tmp_path / "t.jsonl", map(trajectory_to_row, sample))
    data = load_dataset("json", data_files=str(tmp_path / "t.jsonl"), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(data) == len(sample)
    for row, trajectory in zip(data, sample, strict=True):
        assert [m["role"] for m in row["messages"]] == [m["role"] for m in trajectory.messages]
        assert json.loads(row["tools"])[0]["type"] == "function"
        back = trajectory_from_row(row)
        assert (
            back.steps == trajectory.steps and back.outcome == trajectory.outcome and back.blueprint == trajectory.blueprint
        )
        for mine, theirs in zip(back.messages, trajectory.messages, strict=True):
            assert (mine["role"], mine["content"]) == (theirs["role"], theirs["content"])
            called = [call["function"] for call in mine.get("tool_calls", [])]
            assert called == [call["function"] for call in theirs.get("tool_calls", [])]


FAULT = Fault(Boundary.SERVER, "“m” did not answer\u2028(status 500)")


def test_a_fault_is_in_its_row_and_in_no_other():
    played = trajectories()[0]
    faulty = replace(played, outcome=Outcome.INFRA_ERROR, fault=FAULT)
    row = json.loads(json.dumps(trajectory_to_row(faulty)))
    assert trajectory_from_row(row) == faulty and json.loads(row["fault"]) == {"boundary": "server", "reason": FAULT.reason}
    assert "fault" not in trajectory_to_row(played) and trajectory_from_row(trajectory_to_row(played)).fault is None
    assert (
        trajectory_from_row(trajectory_to_row(played) | {"fault": None})
        == trajectory_from_row(trajectory_to_row(played) | {"fault": "null"})
        == played
    )


def test_rows_are_as_they_are_where_none_has_a_fault():
    rows = [trajectory_to_row(trajectory) for trajectory in trajectories()]
    assert [json.dumps(row) for row in uniform_rows(lambda: rows)] == [json.dumps(row) for row in rows]


@pytest.mark.parametrize("faulty", [{0, 1}, {5}, {10, 11}], ids=["first", "amidst", "last"])
def test_datasets_reads_a_file_in_which_some_have_a_fault(tmp_path, faulty):
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    from datasets import load_dataset

    sample = [replace(t, fault=FAULT if i in faulty else None) for i, t in enumerate(trajectories()[:12])]
    rows = [trajectory_to_row(trajectory) for trajectory in sample]
    for name, some in (("mixed", rows), ("shaped", uniform_rows(lambda: rows))):
        write_rows(tmp_path / f"{name}.jsonl", some)
    block = 2 * len(json.dumps(rows[0]))  # a reader that takes a few rows at a time
    for name, options in (("mixed", {}), ("shaped", {}), ("shaped", {"chunksize": block})):
        path, cache = str(tmp_path / f"{name}.jsonl"), str(tmp_path / f"{name} {len(options)}")
        data = load_dataset("json", data_files=path, split="train", cache_dir=cache, **options)
        assert [trajectory_from_row(row).fault for row in data] == [trajectory.fault for trajectory in sample]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-30], lambda text: text.replace("{", "[", 1), lambda text: "\n" + text]
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, damage):
    path = tmp_path / "t.jsonl"
    write_rows(path, map(trajectory_to_row, trajectories()[:2]))
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError) as refused:
        list(read_rows(path))
    assert refused.value.where.startswith(f"{path}:") and refused.value.remedy


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(tmp_path / "none.jsonl"))


def test_an_episode_that_goes_on_is_no_trajectory_yet():
    with pytest.raises(ValueError, match="not over"):
        begin_episode(make_home_blueprint(BlueprintRecipe(), "train", 0)).to_trajectory("a", "u")
