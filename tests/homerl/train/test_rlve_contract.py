"""RLVE on a real trainer: whose tokens carry which advantage, and that sampler and loss agree."""

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from homerl.models.policy.policy_agent import Sample, TokenLedger
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.faults import InfraError
from homerl.play.replay import reverify_file
from homerl.play.trajectory import Outcome
from homerl.train.credit.anchor import compute_anchor_credit
from homerl.train.credit.step import compute_state_credit, compute_step_credit, scale_advantages
from homerl.train.credit.trajectory import compute_trajectory_credit
from homerl.train.data.rollout import Rollout
from homerl.train.data.rollout_batches import has_return_variance, hash_seed
from homerl.train.engines.transformers import InPlace
from homerl.train.losses.contract import list_losses
from homerl.train.model_settings import LoraSettings
from homerl.train.packing.packed_updates import TargetScores
from homerl.train.recipe import RLVERecipe, RLVESettings
from homerl.train.update import rlve
from homerl.train.update.objective import RolloutObjective, SampledTokens, collect_sampled_tokens
from homerl.train.update.rlve import RLVETrainer, train_rlve
from homerl.train.watch.lost_signal import SignalLost
from homerl.train.watch.phase_deadlines import SHARES
from homerl.worlds.registry import restore_situation
from homerl.worlds.users import ScriptedUser

SETTINGS = {
    "learning_rate": 1e-3,
    "lr_scheduler": "constant",
    "warmup": 0.0,
    "updates": 2,
    "blueprints_per_update": 2,
    "group": 4,
    "max_tokens": 24,
    "max_episode_tokens": 512,
    "save_steps": 100,
    "log_steps": 1,
}


@pytest.fixture(scope="session")
def wild(model, tokenizer, tmp_path_factory) -> Path:
    """The tiny model with weights that make it try calls (and spoil them), so that its rewards vary."""
    folder = tmp_path_factory.mktemp("wild")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def recipe(wild, task, tmp_path) -> Callable[..., RLVERecipe]:
    def make(sentinel: dict[str, Any] | None = None, out: str = "run", **rlve_settings: Any) -> RLVERecipe:
        return RLVERecipe.model_validate(
            {
                "homerl": 1,
                "run": "rlve",
                "cpu": True,
                "seed": 6,
                "out": tmp_path / out,
                "parallel": "none",
                "model": {"name": str(wild), "dtype": "float32"},
                "wandb": {"mode": "disabled"},
                "blueprints": {"recipe": task.model_dump(), "count": 16},
                "rewards": {"audit": 0.5, "collateral": 0.2, "turn_limit": 0.3, "max_turns": 1},
                "limits": {"turns": 3, "steps": 4, "steps_per_turn": 2},
                "rlve": SETTINGS | rlve_settings,
                "sentinel": sentinel or {},
            }
        )

    return make


@pytest.fixture
def updates(monkeypatch) -> Iterator[list[tuple[RLVETrainer, SampledTokens, list[Rollout]]]]:
    """What every update handed to the loss, with the rollouts that it came from."""
    seen: list = []

    class Watched(RLVETrainer):
        def _report_rollouts(self, batch):
            super()._report_rollouts(batch)
            seen.append((self, self.objective.tokens, list(self.batch_rollouts)))

    monkeypatch.setattr(rlve, "RLVETrainer", Watched)
    return seen


def metrics(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def anchored(group: list[Rollout]) -> list[list[float]]:
    states = [[step.decision for step in r.trajectory.steps] for r in group]
    return compute_anchor_credit([r.rewards_by_step for r in group], states)


def valued(group: list[Rollout]) -> list[list[float]]:
    return scale_advantages(compute_state_credit([rollout.credit_input for rollout in group]))


def of_rewards(rule: Callable) -> Callable:
    return lambda group: rule([r.rewards_by_step for r in group])


def unless_flat(rule: Callable, group: list[Rollout]) -> list[list[float]]:
    some = has_return_variance([rollout.credit_input for rollout in group])
    return rule(group) if some else [[0.0] * len(r.rewards_by_step) for r in group]


MODES = {
    "step": ({"credit": "step"}, of_rewards(compute_step_credit)),
    "trajectory": ({"credit": "trajectory", "temperature": 0.8, "loss": "grpo"}, of_rewards(compute_trajectory_credit)),
    "state": ({"credit": "step", "baseline": "state", "kl": 0.0, "entropy": 1e-4}, valued),
    "anchor": ({"credit": "anchor"}, anchored),
}


DEAR = ("anchor", "state", "trajectory")  # unit tests have their figures too, tests/homerl/train/test_credit.py


@pytest.mark.parametrize("mode", [pytest.param(name, marks=pytest.mark.long) if name in DEAR else name for name in MODES])
def test_advantages_are_each_steps_credit_on_its_sampled_tokens(mode, recipe, updates):
    settings, rule = MODES[mode]
    settings = recipe(**settings)
    train_rlve(settings)
    assert len(updates) == 2
    any_credit = False
    for _, tokens, rollouts in updates:
        size = settings.rlve.group
        credit = [row for i in (0, size) for row in unless_flat(rule, rollouts[i : i + size])]
        for row, (values, rollout) in enumerate(zip(credit, rollouts, strict=True)):
            ledger, mine = rollout.ledger, slice(tokens.starts[row], tokens.starts[row + 1])
            sequence = tokens.sequences[row]
            assert sequence.ids.tolist() == ledger.ids[: len(sequence.ids)] and not any(ledger.mask[len(sequence.ids) :])
            assert sequence.targets.tolist() == [i for i, sampled in enumerate(ledger.mask) if sampled]
            expected = np.zeros(len(ledger.ids))
            for value, (start, end) in list(zip(values, ledger.spans, strict=True))[ledger.shared :]:
                expected[start:end] = value
            assert tokens.advantages[mine] == pytest.approx(expected[sequence.targets])
            any_credit |= bool(expected.any())
    assert any_credit, "no group varied: the test proves nothing"
    lines = metrics(settings.out)
    assert [line["step"] for line in lines] == [1, 2]
    assert all(sum(line[f"time/{share}"] for share in SHARES) == pytest.approx(1) for line in lines)
    assert ("anchor/coverage" in lines[0]) == (mode == "anchor")
    assert all(line["sentinel/logp_gap"] < 1e-5 for line in lines)
    assert all(0.95 <= line["packing/unique"] <= 1 for line in lines)
    if settings.rlve.kl and updates[0][1].advantages.any():
        assert abs(lines[0]["kl"]) < 1e-8 < lines[1]["kl"]
    for update in (1, 2):
        assert f"{2 * settings.rlve.group} trajectories" in reverify_file(
            settings.out / f"rollouts/update_{update:06d}.jsonl", restore_situation
        )
    assert (settings.out / "model/model.safetensors").exists() and (settings.out / "model/tokenizer.json").exists()


@pytest.mark.parametrize("truncated", [pytest.param("counted", marks=pytest.mark.long), "masked"])
def test_a_sample_that_was_cut_is_counted_or_masked(recipe, updates, monkeypatch, truncated):
    """In the run, and in the objective of every loss."""
    sample = InPlace.sample

    async def ends_half_of_them(self, prompt):
        found = await sample(self, prompt)
        if len(prompt) % 2 == 0:
            return found
        return Sample((*found.ids[:-1], self.tokenizer.eos_token_id), (*found.logprobs[:-1], math.nan), found.version)

    monkeypatch.setattr(InPlace, "sample", ends_half_of_them)
    settings = recipe(updates=1, truncated=truncated, max_tokens=12)
    train_rlve(settings)
    [(trainer, tokens, rollouts)] = updates
    ends = [[rollout.ledger.ids[end - 1] for _, end in rollout.ledger.spans] for rollout in rollouts]
    cut = [[last != trainer.processing_class.eos_token_id for last in row] for row in ends]
    assert 0 < sum(map(sum, cut)) < sum(map(len, cut)), "all are of a kind: the test proves nothing"
    learnt = [
        [
            i
            for span, was in zip(rollout.ledger.spans, row, strict=True)
            if truncated == "counted" or not was
            for i in range(*span)
        ]
        for rollout, row in zip(rollouts, cut, strict=True)
    ]
    assert [sequence.targets.tolist() for sequence in tokens.sequences] == learnt
    counts = [*map(len, learnt)]
    assert len(tokens.advantages) == sum(counts)
    by_rollout, by_token = [1 / (len(counts) * max(1, n)) for n in counts], [1 / sum(counts)] * len(counts)
    constant = [1 / (len(counts) * settings.rlve.max_episode_tokens)] * len(counts)
    for loss in list_losses():
        objective = RolloutObjective(tokens, settings.rlve.model_copy(update={"loss": loss}), 0, sum(counts))
        shares = {"grpo": by_rollout, "gspo": by_rollout, "dr_grpo": constant}.get(loss, by_token)
        expected = [share for share, n in zip(shares, counts, strict=True) for _ in range(n)]
        assert objective.weights.tolist() == pytest.approx(expected), loss
    [line] = metrics(settings.out)
    assert line["completions/clipped_ratio"] == pytest.approx(sum(map(sum, cut)) / sum(map(len, cut)))


@pytest.mark.parametrize(("truncated", "moves"), [("counted", True), ("masked", False)])
def test_what_is_masked_moves_no_weight(recipe, updates, truncated, moves):
    """Every sample is cut after two tokens."""
    settings = recipe(updates=1, truncated=truncated, max_tokens=2, kl=0.1, entropy=0.01)
    before = load_file(Path(settings.model.name) / "model.safetensors")
    train_rlve(settings)
    after = load_file(settings.out / "model/model.safetensors")
    assert any(not torch.equal(before[name], tensor) for name, tensor in after.items()) == moves
    [line] = metrics(settings.out)
    assert line["completions/clipped_ratio"] == 1
    assert (line["credit_by_step/tokens/0"] > 0) == moves


@pytest.mark.long
def test_passes_and_iterations_change_no_rollouts(recipe, updates, tmp_path):
    """Passes change neither rollouts nor advantages; a second iteration trains on the same rollouts."""
    for tokens, iterations in (("auto", 1), (200, 1), (200, 2)):
        train_rlve(recipe(out=f"{tokens} {iterations}", updates=1, tokens_per_step=tokens, iterations=iterations))
    lines = [metrics(tmp_path / name) for name in ("auto 1", "200 1", "200 2")]
    assert [[line["step"] for line in some] for some in lines] == [[1], [1], [2]], "a line an update"
    assert lines[0][0]["packing/passes"] == 1 < lines[1][0]["packing/passes"]
    (_, whole, _), (_, parts, _), (_, twice, _) = updates
    for other in (parts, twice):
        assert [one.ids.tolist() for one in other.sequences] == [one.ids.tolist() for one in whole.sequences]
        assert np.array_equal(other.advantages, whole.advantages)


@pytest.mark.long  # packing/test_updates.py and test_spread_updates.py compare updates in few and in many passes
def test_passes_change_nothing_in_what_is_learned(recipe, tmp_path):
    for tokens in ("auto", 200):
        train_rlve(recipe(out=f"{tokens}", updates=1, tokens_per_step=tokens, learning_rate=1e-2))
    weights, others = (load_file(tmp_path / f"{tokens}/model/model.safetensors") for tokens in ("auto", 200))
    for name, tensor in weights.items():
        moved = (others[name] - tensor).abs()  # where a gradient is 0 but for rounding, Adam takes its sign
        assert moved.max() < 1e-2 and (moved > 1e-4).float().mean() < 1e-3, name


def test_rollouts_that_do_not_divide_over_processes_are_refused(recipe, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(ValueError, match=r"^rlve.blueprints_per_update: 3 blueprints x group 4 = 12 rollouts"):
        rlve.make_rlve_arguments(recipe(blueprints_per_update=3))


def test_a_process_that_sees_several_gpus_is_refused(recipe, monkeypatch):
    monkeypatch.setattr(rlve.TrainingArguments, "n_gpu", 2)
    with pytest.raises(ValueError, match="one process sees 2 GPUs"):
        rlve.make_rlve_arguments(recipe())


def test_a_run_without_signal_is_stopped_with_its_cause(recipe, monkeypatch):
    monkeypatch.setattr(
        "homerl.train.credit.step.compute_step_credit", lambda group, *_: [[0.0] * len(row) for row in group]
    )
    with pytest.raises(SignalLost, match=r"no advantage: .*held for 2 updates"):
        train_rlve(recipe({"patience": 2}, updates=3))


def _nobody_speaks(patch) -> None:
    async def fails(self, episode):
        raise InfraError("gone")

    patch.setattr(ScriptedUser, "speak", fails)


def _sampler_that_takes_no_weights(patch) -> None:
    sample = InPlace.sample

    async def other(self, prompt):
        found = await sample(self, prompt)
        off = 0.5 if found.version else 0.0  # not in the first episodes, which are compared before any update
        return Sample(found.ids, tuple(p - off for p in found.logprobs), found.version)

    patch.setattr(InPlace, "sample", other)


def _certain_policy(patch) -> None:
    load = rlve.load_policy

    def certain(*args):
        model = load(*args)
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(1e4)  # the head too: they are tied
        return model

    patch.setattr(rlve, "load_policy", certain)


@pytest.mark.long
@pytest.mark.parametrize(
    ("cause", "provoke"),
    [
        ("no rollouts", _nobody_speaks),
        ("sampler and trainer disagree", _sampler_that_takes_no_weights),
        ("entropy collapsed", _certain_policy),
    ],
)
def test_every_cause_stops_a_real_run(recipe, monkeypatch, cause, provoke):
    """`no advantage` is above; thresholds are the defaults."""
    provoke(monkeypatch)
    settings = recipe({"patience": 2}, updates=4, kl=0.0, learning_rate=1e-9)
    with pytest.raises(SignalLost, match=f"^{cause}.*held for 2 updates"):
        train_rlve(settings)


@pytest.mark.long
def test_a_loss_that_is_no_number_stops_the_run_before_it_spoils_the_weights(recipe, monkeypatch):
    steps: list[int] = []
    stepped = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, *args: (steps.append(1), stepped(self, *args))[1])
    monkeypatch.setattr(
        "homerl.train.credit.step.compute_step_credit", lambda group, *_: [[math.nan] * len(row) for row in group]
    )
    with pytest.raises(SignalLost, match=r"^loss is not finite \(nan\)"):
        train_rlve(recipe())
    assert not steps


def test_a_group_whose_user_fails_is_dropped_and_the_rest_learns(recipe, updates, monkeypatch):
    """The first blueprint's user fails before anybody spoke, or at its second sentence, which some rollouts do not reach."""
    spoke: list[int] = []

    class Unsteady(ScriptedUser):
        async def speak(self, episode):
            spoke.append(episode.blueprint.seed)
            if episode.blueprint.seed == spoke[0] and (self.seed % 2 or episode.steps):
                raise InfraError("gone")
            return await super().speak(episode)

    monkeypatch.setattr("homerl.worlds.users.ScriptedUser", Unsteady)
    settings = recipe(updates=1)
    train_rlve(settings)
    [(_, tokens, rollouts)] = updates
    failed = [r.trajectory.fault.reason for r in rollouts if r.trajectory.outcome is Outcome.INFRA_ERROR]
    assert failed and set(failed) == {"gone"} and all(r.trajectory.fault is None for r in rollouts[4:])
    assert not tokens.advantages[: tokens.starts[4]].any() and tokens.advantages[tokens.starts[4] :].any()
    [line] = metrics(settings.out)
    assert line["sentinel/dropped_groups"] == 0.5
    assert line["fault/server"] == line["outcome/infra_error"] == len(failed) / 8
    assert "8 trajectories" in reverify_file(settings.out / "rollouts/update_000001.jsonl", restore_situation)


@pytest.mark.parametrize("of", ["recipe", pytest.param("model", marks=pytest.mark.long)])
def test_a_run_that_meets_a_prompt_too_long_goes_on_and_so_does_its_resume(recipe, updates, wild, tmp_path, of):
    """About half of the episodes begin with more tokens than an episode may have, or than the model has positions for."""
    limit = {"max_episode_tokens": 62 if of == "recipe" else 512, "save_steps": 1, "blueprints_per_update": 4}
    named = shutil.copytree(wild, tmp_path / "policy")
    config = json.loads((named / "config.json").read_text()) | ({"max_position_embeddings": 62} if of == "model" else {})
    (named / "config.json").write_text(json.dumps(config))

    def train(**more: Any) -> None:
        whole = recipe(**limit, **more)
        train_rlve(whole.model_copy(update={"model": whole.model.model_copy(update={"name": str(named)})}))

    train(updates=1)
    train(updates=2)  # goes on from the checkpoint
    train(updates=2, out="unbroken")
    assert len(updates) == 1 + 1 + 2
    for _, tokens, rollouts in updates:
        spoiled = [rollout.trajectory.outcome is Outcome.INFRA_ERROR for rollout in rollouts]
        reasons = [
            rollout.trajectory.fault.reason for rollout in rollouts if rollout.trajectory.outcome is Outcome.INFRA_ERROR
        ]
        assert all("the first prompt has" in reason and "an episode may have 62" in reason for reason in reasons)
        assert [count > 0 for count in tokens.rollout_lengths] == [not one for one in spoiled]
    shares = [line["fault/server"] for line in metrics(tmp_path / "run")]
    assert len(shares) == 2 and all(0 < share < 1 for share in shares)
    weights = [load_file(tmp_path / f"{out}/model/model.safetensors") for out in ("run", "unbroken")]
    assert all(torch.equal(weights[0][name], tensor) for name, tensor in weights[1].items())


def test_a_sample_that_a_failing_world_never_answered_gets_no_credit():
    ledger = TokenLedger()
    ledger.add_context([1, 2])
    for _ in range(2):
        ledger.add_sample(Sample((5, 9), (-1.0, -1.0)), 9)
    assert collect_sampled_tokens([(Rollout(SimpleNamespace(), ledger), [0.5])]).advantages.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_thoughts_that_are_masked_are_no_targets_of_the_loss(recipe, updates, monkeypatch):
    said = itertools.cycle(["<think>hm</think>Done.", "<tool_call>{", "<think>hm</think><tool_call>{", "I see."])

    async def sample(self, prompt):
        ids = (*self.tokenizer.encode(next(said)), self.tokenizer.eos_token_id)
        return Sample(ids, (math.nan,) * len(ids))  # not told

    monkeypatch.setattr(TransformersEngine, "sample", sample)
    made = recipe(thoughts="masked", updates=1)
    train_rlve(made)
    [(trainer, tokens, rollouts)] = updates
    read = [trainer.processing_class.decode(np.array(one.ids)) for one in tokens.sequences]
    learnt = [trainer.processing_class.decode(np.array(one.ids)[one.targets]) for one in tokens.sequences]
    assert (
        any("hm" in text for text in read) and not any("hm" in text for text in learnt) and any("Done." in t for t in learnt)
    )
    sampled = sum(sum(rollout.sampled_lengths) for rollout in rollouts)
    assert metrics(made.out)[0]["policy/thoughts"] == pytest.approx(1 - len(tokens.advantages) / sampled)


def test_the_reference_of_a_merged_adapter_is_the_merged_model(recipe, wild, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    adapted = get_peft_model(
        AutoModelForCausalLM.from_pretrained(wild), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    adapted.save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(wild).save_pretrained(tmp_path / "adapter")
    settings = recipe(updates=1, learning_rate=1e-9)
    model = settings.model.model_copy(update={"name": str(tmp_path / "adapter")})
    train_rlve(settings.model_copy(update={"model": model}))
    assert abs(metrics(settings.out)[0]["kl"]) < 1e-8


def test_seeds_are_the_same_everywhere():
    assert hash_seed(0, 1, 2) == 1772749440416956875
    assert len({hash_seed(a, b) for a in range(9) for b in range(9)}) == 81


# Ahead, refilled, evaluated


def test_rollouts_ahead_are_of_older_weights_and_weighed_by_truncated_ratios(recipe, updates):
    settings = recipe(async_rollouts=1, updates=4, learning_rate=3e-3, ratio_cap=1.05)
    train_rlve(settings)
    ages = []
    for update, (_, tokens, _) in enumerate(updates):
        assert set(tokens.versions) == {max(0, update - 1)}, "one update old, but for the first, whatever the clock"
        ages.append(update - max(0, update - 1))
    lines = metrics(settings.out)
    assert [line["policy/staleness"] for line in lines] == pytest.approx(ages) and ages == [0, 1, 1, 1]
    assert all(line["policy/too_old"] == 0 for line in lines)
    assert abs(lines[0]["policy/ratio"] - 1) < 1e-4
    moved = [abs(line["policy/ratio"] - 1) > 1e-4 for line in lines[1:]]
    assert any(moved), "where a group taught something, the weights moved: the ratios show it"


@pytest.mark.long
def test_rollouts_that_flow_are_never_older_than_the_bound_and_none_is_lost(recipe, updates):
    """Three updates ahead, with groups that are replaced: each number once, and versions within the bound."""
    settings = recipe(async_rollouts=3, updates=6, learning_rate=3e-3, curriculum={"refill": 1})
    train_rlve(settings)
    for update, (_, _, rollouts) in enumerate(updates):
        versions = {v for r in rollouts for v in r.ledger.versions if v >= 0}
        assert max(0, update - 3) <= min(versions) and max(versions) <= update
        groups = [rollouts[i : i + 4] for i in (0, 4)]
        assert all(len({r.trajectory.blueprint["id"] for r in group}) == 1 for group in groups)
    lines = metrics(settings.out)
    assert all(line["policy/too_old"] == 0 and line["policy/staleness"] <= 3 for line in lines)
    assert max(line["policy/staleness"] for line in lines) > 1
    assert len({r.trajectory.seed for _, _, rollouts in updates for r in rollouts}) == 48, "no rollout came twice"


def objective_of(tokens: SampledTokens, update: int, before: torch.Tensor | None = None, **rlve_settings: Any):
    settings = RLVESettings.model_validate({"kl": 0.0, "loss": "dapo", **rlve_settings})
    return RolloutObjective(tokens, settings, update, sum(tokens.rollout_lengths), old_logps=before)


def of_versions(*versions: int) -> SampledTokens:
    ledger = TokenLedger()
    ledger.add_context([1, 2])
    for version in versions:
        ledger.add_sample(Sample((5, 9), (-1.0, -1.5), version), 9)
        ledger.add_context([7])
    return collect_sampled_tokens([(Rollout(SimpleNamespace(), ledger), [1.0] * len(versions))])


def test_ratios_weigh_the_advantages_and_are_cut():
    tokens, now = of_versions(0), torch.tensor([-0.5, -3.5], requires_grad=True)
    objective = objective_of(tokens, 1, async_rollouts=1, ratio_cap=1.2)
    loss, sums = objective([0], TargetScores(now, torch.zeros(2), None))
    weighed = [min(1.2, math.exp(0.5)), math.exp(-2.0)]
    assert loss.item() == pytest.approx(-sum(weighed) / 2)
    loss.backward()
    assert now.grad.tolist() == pytest.approx([-w / 2 for w in weighed])
    assert objective.objective_metrics(sums.tolist())["policy/ratio"] == pytest.approx(sum(weighed) / 2)


def test_a_token_older_than_the_bound_has_no_advantage():
    objective = objective_of(of_versions(3, 5), 5, async_rollouts=1)
    now = torch.full((4,), -1.0, requires_grad=True)
    loss, sums = objective([0], TargetScores(now, torch.zeros(4), None))
    loss.backward()
    assert [bool(value) for value in now.grad] == [False, False, True, True]
    figures = objective.objective_metrics(sums.tolist())
    assert figures["policy/too_old"] == 0.5 and figures["policy/staleness"] == 1.0


def test_the_gap_to_the_sampler_is_not_what_further_iterations_learn():
    """They move the policy away from the rollouts by right, which is no fault of the sampler."""
    objective = objective_of(of_versions(0), 0, before=torch.tensor([-1.02, -1.5]), iterations=2)
    _, sums = objective([0], TargetScores(torch.tensor([-0.5, -3.5], requires_grad=True), torch.zeros(2), None))
    assert objective.objective_metrics(sums.tolist())["sentinel/logp_gap"] == pytest.approx(0.01)


def test_engines_that_share_the_gpu_cannot_be_ahead(recipe):
    with pytest.raises(ValueError, match="shares the trainer's GPU"):
        recipe(async_rollouts=1, engine={"kind": "vllm"})


@pytest.mark.parametrize("iterations", [pytest.param(1, marks=pytest.mark.long), 2])
def test_evaluation_keeps_the_best_model_and_changes_nothing_else(recipe, iterations):
    """It is due by batches of rollouts, however many optimizer updates each of them makes."""
    plain, watched = (recipe(out=out, iterations=iterations, updates=1) for out in ("plain", "watched"))
    watched = watched.model_copy(update={"evaluation": type(watched.evaluation)(every=1, count=3)})
    train_rlve(plain)
    train_rlve(watched)
    written = sorted(path.name for path in (plain.out / "rollouts").iterdir())
    assert len(written) == 1
    for name in written:
        assert (plain.out / "rollouts" / name).read_bytes() == (watched.out / "rollouts" / name).read_bytes()
    lines = [json.loads(line) for line in (watched.out / "metrics.jsonl").read_text().splitlines()]
    evaluated = [line["step"] for line in lines if "eval/success" in line]
    assert evaluated == [0, iterations] and all("loss" not in line for line in lines if "eval/success" in line)
    best = json.loads((watched.out / "best/score.json").read_text())
    assert best["update"] == 0 and best["eval/counted"] == 1.0
    assert (watched.out / "best/model/model.safetensors").exists() and not (watched.out / "best.making").exists()


@pytest.mark.long
def test_each_evaluation_has_a_line_also_after_a_resume(recipe):
    """Two updates to a line, an evaluation each; the run stops after the second and goes on."""
    settings = {"log_steps": 2, "save_steps": 2, "lr_scheduler": "constant"}
    for updates in (2, 4):
        made = recipe(updates=updates, **settings)
        train_rlve(made.model_copy(update={"evaluation": type(made.evaluation)(every=1, count=3)}))
    lines = [json.loads(line) for line in (made.out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "eval/counted" in line] == [0, 1, 2, 3, 4]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 4]


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.long), 0.5])
def test_ratios_weigh_what_adapters_with_dropout_learn(recipe, dropout):
    made = recipe(updates=1)
    made = made.model_copy(update={"model": made.model.model_copy(update={"lora": LoraSettings(r=4, dropout=dropout)})})
    train_rlve(made)
    assert [("policy/ratio" in line) for line in metrics(made.out)] == [dropout > 0]


def test_training_stops_by_the_clock_between_batches_of_rollouts(recipe):
    """Within one, a resumed run would play its rollouts again."""
    made = recipe(iterations=2, updates=4, seconds=0.001, save_steps=None)
    train_rlve(made)
    assert [line["step"] for line in metrics(made.out)] == [2]


# Two ranks

SCRIPT = """
import json, os, sys
from pathlib import Path

import torch

from homerl.models.policy.policy_agent import Sample
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.train.recipe import RLVERecipe
from homerl.train import rlve

recipe = RLVERecipe.model_validate(json.loads(Path(sys.argv[1]).read_text()))
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
mine, asked = {(0, 1): 6, (0, 2): 2, (1, 2): 4}[rank, world], 0  # whole groups: one on the first rank, two on the second

async def sample(self, prompt):
    # What is said depends on the place in the whole batch alone, whoever holds it.
    global asked
    update, place = asked // mine, rank * 2 + asked % mine
    asked += 1
    text = ["Done.", "<tool_call>", "I see.", "<tool_call>{}", "<tool_call>[", "Yes, of course."][(place + update) % 6]
    ids = self.tokenizer.encode(text) + [self.tokenizer.eos_token_id]
    return Sample(tuple(ids), (float("nan"),) * len(ids))

TransformersEngine.sample = sample

class Watched(rlve.RLVETrainer):
    def _report_rollouts(self, batch):
        super()._report_rollouts(batch)
        tokens, starts = self.objective.tokens, self.objective.tokens.starts
        rows = [tokens.advantages[start:end].tolist() for start, end in zip(starts, starts[1:])]
        ids = [rollout.trajectory.blueprint["id"] for rollout in self.rollouts]
        seen.append([ids, rows])
        (recipe.out / f"seen_{rank}.json").write_text(json.dumps(seen))

def plain_descent(recipe, made=rlve.training_arguments):
    # Where a gradient is 0 but for rounding, Adam would step by its sign.
    arguments = made(recipe)
    arguments.optim = "sgd"
    return arguments

seen = []
rlve.RLVETrainer, rlve.training_arguments = Watched, plain_descent
recipe.out.mkdir(parents=True, exist_ok=True)
rlve.train_rlve(recipe)
"""


@pytest.mark.long
def test_groups_over_two_ranks_are_those_of_one(recipe, wild, tmp_path):
    """Three groups of two straddle two ranks of three, and rollouts differ in length: over ten updates advantages, loss,
    gradient and weights are one process's, to 1e-5."""
    (tmp_path / "script.py").write_text(SCRIPT)
    found = []
    for world in (1, 2):
        settings = recipe(
            out=f"{world}",
            updates=10,
            group=2,
            blueprints_per_update=3,
            learning_rate=0.1,
            max_grad_norm=100.0,
            tokens_per_step=150,  # several passes, and not as many on each rank
        )
        settings = settings.model_copy(update={"limits": type(settings.limits)(turns=1, steps=1)})
        (tmp_path / "recipe.json").write_text(json.dumps(settings.model_dump(mode="json")))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={world}"]
        done = subprocess.run(
            [*(torchrun if world > 1 else [sys.executable]), "script.py", "recipe.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rlve.__file__).parents[2])},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        parts = [json.loads((settings.out / f"seen_{rank}.json").read_text()) for rank in range(world)]
        seen = [[[row for part in parts for row in part[update][i]] for i in (0, 1)] for update in range(10)]
        found.append((seen, metrics(settings.out), load_file(settings.out / "model/model.safetensors")))
    (seen, lines, weights), (their_seen, their_lines, their_weights) = found
    begun = load_file(wild / "model.safetensors")
    for (ids, rows), (their_ids, their_rows) in zip(seen, their_seen, strict=True):
        assert ids == their_ids and ids[0] == ids[1] and len(set(ids)) == 3
        assert rows == their_rows and any(value for row in rows for value in row)
    for ours, theirs in zip(lines, their_lines, strict=True):
        for key in ("loss", "grad_norm", "kl", "reward", "entropy", "sentinel/group_std"):
            assert theirs[key] == pytest.approx(ours[key], abs=1e-5, rel=1e-4), key
    moved = max((weights[name] - begun[name]).abs().max() for name in weights)
    apart = max((weights[name] - their_weights[name]).abs().max() for name in weights)
    assert apart < 1e-5 < 1e-2 < moved


HANGS = """
import asyncio, json, os, sys
from pathlib import Path

from homerl.train.recipe import RLVERecipe
from homerl.train import rlve
from homerl.worlds.users import ScriptedUser

async def speak(self, episode):
    await asyncio.sleep(3600)

if os.environ["RANK"] == "1":
    ScriptedUser.speak = speak
rlve.train_rlve(RLVERecipe.model_validate(json.loads(Path(sys.argv[1]).read_text())))
"""


@pytest.mark.long
def test_a_rank_whose_users_are_silent_is_named_by_the_one_that_waits_for_it(recipe, tmp_path):
    """Two ranks, the second one's users never answer: the first hangs in a collective, and the run ends with the reason."""
    (tmp_path / "script.py").write_text(HANGS)
    settings = recipe()
    settings = settings.model_copy(update={"deadlines": type(settings.deadlines)(collective=5)})
    (tmp_path / "recipe.json").write_text(json.dumps(settings.model_dump(mode="json")))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "script.py", "recipe.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rlve.__file__).parents[2])},
    )
    assert done.returncode != 0
    assert "homerl: the watchdog stopped the run: rank 0 has been in `collective` of update 0" in done.stderr
    assert "it waits for rank 1, which has been in `rollout` of update 0" in done.stderr
    assert "exitcode  : 4" in done.stderr, "torchrun says the code that the rank ended with"
