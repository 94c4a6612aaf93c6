"""Rollouts that one run has stored with their tokens, and another one trains on."""

import copy
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from launches import ROOT

from homerl.app.runs.preflight import check_machine
from homerl.envs.core.documents import InputError
from homerl.host.processes import free_port
from homerl.models.endpoint.vllm_server import describe_server_trouble
from homerl.models.policy.policy_agent import TokenLedger
from homerl.train.data.rollout import Rollout, RolloutPlayer
from homerl.train.data.stored_rollouts import read_group, write_group
from homerl.train.recipe import RLVERecipe, refuse_untrainable
from homerl.train.update.rlve import train_rlve
from homerl.train.update.weights_digest import digest_weights
from homerl.train.watch.lost_signal import SignalLost

STAND_IN = ROOT / "tests/helpers/stand_in_vllm.py"
SERVER = {"kind": "server", "url": "http://127.0.0.1:1/v1"}
TIMES = ("time/", "perf/", "train_", "epoch")


@pytest.fixture
def recipe(model, tokenizer, task, tmp_path) -> Callable[..., RLVERecipe]:
    model.save_pretrained(tmp_path / "policy")
    tokenizer.save_pretrained(tmp_path / "policy")

    def make(out: str, seed: int = 6, **settings) -> RLVERecipe:
        sizes = {"updates": 2, "blueprints_per_update": 2, "group": 4, "max_tokens": 24, "max_episode_tokens": 512}
        data = {
            "homerl": 1, "run": "rlve", "cpu": True, "seed": seed, "out": tmp_path / out, "parallel": "none",
            "model": {"name": str(tmp_path / "policy"), "dtype": "float32"}, "wandb": {"mode": "disabled"},
            "blueprints": {"recipe": task.model_dump(), "count": 16},
            "limits": {"turns": 2, "steps": 3, "steps_per_turn": 2},
            "rewards": {"audit": 0.5, "turn_limit": 0.3, "max_turns": 1},
            "rlve": {**sizes, "learning_rate": 1e-3, "log_steps": 1, "curriculum": {"refill": 1}, **settings},
        }  # fmt: skip
        return RLVERecipe.model_validate(data)

    return make


def metrics(out: Path) -> list[dict]:
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if not key.startswith(TIMES)} for line in lines]


def test_an_update_from_stored_rollouts_gives_the_same_bytes_as_the_run_that_played_them(recipe, monkeypatch):
    first = recipe("first", store_tokens=True)
    train_rlve(first)

    async def plays(*args, **kwargs):
        raise AssertionError("it plays")

    monkeypatch.setattr(RolloutPlayer, "play_concurrently", plays)
    again = recipe("again", from_rollouts=str(first.out))
    train_rlve(again)
    for name in ("model/model.safetensors", "rollouts/update_000001.jsonl", "rollouts/update_000002.jsonl"):
        assert (again.out / name).read_bytes() == (first.out / name).read_bytes(), name
    assert metrics(again.out)[0]["loss"] == metrics(first.out)[0]["loss"] and metrics(again.out) == metrics(first.out)
    assert {"grad_norm", "reward"} <= metrics(first.out)[0].keys() and any(line.get("loss") for line in metrics(first.out))
    # another loss may be tried on them, and another run's groups are refused
    other = recipe("other", from_rollouts=str(first.out), loss="cispo", updates=1)
    train_rlve(other)
    assert (other.out / "model/model.safetensors").read_bytes() != (first.out / "model/model.safetensors").read_bytes()
    with pytest.raises(InputError, match="of another (seed|blueprint) than this run draws"):
        train_rlve(recipe("wrong", seed=7, from_rollouts=str(first.out)))


def test_groups_are_played_without_a_trainer_and_trained_on_elsewhere(recipe, capfd):
    """The first update's are those of a training. Older ones are weighted, since another model played them."""
    played = recipe("played", play_only=True)
    train_rlve(played)
    assert not (played.out / "model").exists()
    groups = 2 * played.rlve.blueprints_per_update
    assert f"{groups}/{groups}" in "".join(capfd.readouterr()), "the groups of two updates, as they end"
    train_rlve(recipe("trained", store_tokens=True, updates=1))
    for name in ("rollouts/update_000001.jsonl", "rollouts/tokens/group_0000000_0.jsonl"):
        assert (played.out / name).read_bytes() == (played.out.parent / "trained" / name).read_bytes(), name
    again = recipe("again", from_rollouts=str(played.out), warmup=0)  # else the first update moves no weight
    train_rlve(again)
    first, second = (line for line in metrics(again.out) if "loss" in line)
    assert "policy/staleness" not in first
    assert second["policy/staleness"] == 1 and second["policy/too_old"] == 0 and second["policy/ratio"] != 1


def test_rollouts_of_other_weights_are_weighted_though_their_version_is_equal(recipe, model, tmp_path):
    """A digest of the weights tells. An older run's files have none, and count as of the weights of their update."""
    train_rlve(played := recipe("played", play_only=True, updates=1))
    with torch.no_grad():
        (other := copy.deepcopy(model)).get_input_embeddings().weight.mul_(1.05)
    other.save_pretrained(tmp_path / "policy")
    train_rlve(again := recipe("again", from_rollouts=str(played.out), updates=1))
    assert metrics(again.out)[0]["policy/ratio"] != 1 and metrics(again.out)[0]["policy/staleness"] == 1
    for file in (played.out / "rollouts/tokens").iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert all(len(row.pop("weights")["0"]) == 16 for row in rows)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SignalLost):  # they are taken for the trainer's own, and their log-probabilities are others
        train_rlve(recipe("older", from_rollouts=str(played.out), updates=1))


def test_a_digest_tells_weights_apart_whatever_their_number_format():
    def digest(*weights: torch.Tensor) -> str:
        return digest_weights(torch.nn.ParameterList([torch.nn.Parameter(weight) for weight in weights]))

    whole = torch.arange(6.0).reshape(2, 3)
    assert digest(whole, whole + 1) == digest(whole + 1, whole.clone()) != digest(whole, whole + 1.0000001)
    assert len({digest(whole), digest(-whole), digest(whole.bfloat16()), digest(whole.reshape(3, 2))}) == 4


@pytest.mark.long
def test_a_served_model_plays_and_no_weights_are_loaded(recipe, monkeypatch, tmp_path):
    port = free_port()
    serve = [sys.executable, str(STAND_IN), "serve", str(tmp_path / "policy"), str(port)]
    with subprocess.Popen(serve, env={**os.environ, "PYTHONPATH": str(STAND_IN.parent)}) as server:
        try:
            deadline = time.monotonic() + 120
            while describe_server_trouble(f"http://127.0.0.1:{port}/v1") and time.monotonic() < deadline:
                time.sleep(0.2)
            monkeypatch.setattr("homerl.train.update.play_only.load_trainable_model", lambda *_: pytest.fail("it is loaded"))
            engine = {"kind": "server", "url": f"http://127.0.0.1:{port}"}
            played = recipe("served", play_only=True, updates=1, engine=engine)
            check_machine(played, "recipe.yaml")  # neither vLLM nor a GPU is needed here
            train_rlve(played)
        finally:
            server.kill()
    assert len(list((played.out / "rollouts/tokens").iterdir())) >= 2
    monkeypatch.undo()
    train_rlve(again := recipe("again", from_rollouts=str(played.out), updates=1))
    # The trainer itself need not have the sampler's log-probabilities: it looks, and says what it found.
    assert metrics(again.out)[0]["policy/ratio"] == pytest.approx(1, abs=1e-4)


def test_tokens_are_read_as_they_were_written(recipe, tmp_path, played_rollout):
    rollout, blueprint, weights = played_rollout
    write_group(tmp_path, 3, 1, [rollout, rollout], {0: "a", 1: "b"})
    seeds = [rollout.trajectory.seed] * 2
    found = read_group(tmp_path, 3, 1, blueprint, seeds, weights, {0: "a"})
    for one in found:
        assert one.trajectory == rollout.trajectory and str(one.ledger) == str(rollout.ledger)
    assert any(math.isnan(value) for value in found[0].ledger.logprobs)
    assert found[0].ledger.versions == [-1, 0, 0, 0]
    assert read_group(tmp_path, 3, 1, blueprint, seeds, weights, {0: "c"})[0].ledger.versions == [-1] * 4
    with pytest.raises(InputError, match="group 3 was not played there as replacement 2"):
        read_group(tmp_path, 3, 2, blueprint, seeds, weights, {})
    with pytest.raises(InputError, match="group 3 is of another seed"):
        read_group(tmp_path, 3, 1, blueprint, [5, 5], weights, {})


@pytest.fixture
def played_rollout(recipe):
    """A rollout whose last log-probability is not known."""
    import asyncio

    from homerl.play.loop import play
    from homerl.play.replay import add_step_rewards
    from homerl.rewards.composite import RewardWeights
    from homerl.worlds.registry import begin_episode, default_world, make_blueprint_of_seed
    from homerl.worlds.users import ScriptedUser

    blueprint = make_blueprint_of_seed(recipe("none").blueprints.recipe, "train", 3)
    trajectory = asyncio.run(play(begin_episode(blueprint), default_world().baselines["expert"](), ScriptedUser(3), 3))
    ledger = TokenLedger(
        [1, 2, 3, 4], [0.0, -0.1, -1 / 3, math.nan], [0, 1, 1, 1], [-1, 0, 0, 0], [(1, 4)], 1, 0, [(1, 4)], 2
    )
    return Rollout(add_step_rewards(trajectory, RewardWeights()), ledger), blueprint, RewardWeights()


def test_what_cannot_be_is_refused_before_a_model_is_loaded(recipe, tmp_path):
    with pytest.raises(InputError, match="no rollouts with tokens are there"):
        refuse_untrainable(recipe("none", from_rollouts=str(tmp_path)))
    (tmp_path / "rollouts/tokens").mkdir(parents=True)
    with pytest.raises(InputError, match="stored rollouts are not played again"):
        refuse_untrainable(recipe("none", play_only=True, from_rollouts=str(tmp_path)))
    with pytest.raises(InputError, match="stored rollouts are not played ahead"):
        refuse_untrainable(recipe("none", from_rollouts=str(tmp_path), async_rollouts=1, engine=SERVER))
