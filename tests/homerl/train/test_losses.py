"""Every loss by hand and against TRL's own, with KL divergence and entropy; importance ratios to another sampler."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trl import GRPOConfig, GRPOTrainer

from homerl.train.losses.contract import Tokens, Totals, list_losses
from homerl.train.packing.packed_updates import TargetScores
from homerl.train.recipe import RLVESettings
from homerl.train.update.objective import RolloutObjective, SampledTokens, compute_importance_ratios, compute_kl_divergences

LONGEST = 9


class Given(GRPOTrainer):
    """TRL's trainer, whose model's log-probabilities and entropies are given."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return *self.given, None


@pytest.fixture(scope="module")
def trl(model, tokenizer, tmp_path_factory) -> Given:
    arguments = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        use_cpu=True,
        report_to=[],
        bf16=False,
        num_generations=2,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=1,
        max_completion_length=LONGEST,
        beta=0.0,
        entropy_coef=0.01,
    )
    rows = Dataset.from_dict({"prompt": ["a"] * 4})
    return Given(model, lambda prompts, **_: [0.0] * len(prompts), arguments, train_dataset=rows, processing_class=tokenizer)


THEIRS = {  # as TRL names it
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
}


def theirs(trl: Given, recipe: RLVESettings, mask, logps, entropy, old, reference, advantages) -> torch.Tensor:
    named = {"loss_type": recipe.loss, "importance_sampling_level": "token"} | THEIRS.get(recipe.loss, {})
    trl.loss_type, trl.importance_sampling_level = named["loss_type"], named["importance_sampling_level"]
    trl.beta, trl.entropy_coef, trl._entropy_bonus_enabled = recipe.kl, recipe.entropy, recipe.entropy > 0
    trl.epsilon_low, trl.epsilon_high = recipe.epsilon, recipe.epsilon_high or recipe.epsilon
    if recipe.loss == "gspo":
        trl.epsilon_low, trl.epsilon_high = recipe.gspo_epsilon, recipe.gspo_epsilon_high
    if recipe.loss == "cispo":
        trl.epsilon_high = recipe.cispo_cap
    trl.current_gradient_accumulation_steps = 1
    trl.model.train()
    trl.given = logps, entropy
    inputs = {
        "prompt_ids": torch.ones(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.ones_like(mask),
        "completion_mask": torch.ones_like(mask),
        "tool_mask": mask,
        "advantages": advantages,
        "old_per_token_logps": old,
        "num_items_in_batch": mask.sum(),
    }
    if recipe.kl:
        inputs["ref_per_token_logps"] = reference
    return trl._compute_loss(trl.model, inputs)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([*list_losses()]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from([None, 0.3]),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
)
def test_loss_and_gradients_are_trls(trl, loss, kl, entropy, high, seed, rollouts):
    """Of every shipped loss. Under `gspo` TRL has one advantage a rollout, and a divergence by its ratio."""
    kl = 0.0 if loss == "gspo" else kl
    recipe = RLVESettings(
        loss=loss,
        kl=kl,
        entropy=entropy,
        epsilon_high=high,
        max_episode_tokens=LONGEST,
        cispo_cap=1.2,
        gspo_epsilon=0.05,
        gspo_epsilon_high=0.08,
    )
    generator = torch.Generator().manual_seed(seed)

    def drawn(low: float, high: float) -> torch.Tensor:
        return torch.rand(rollouts, LONGEST, generator=generator) * (high - low) + low

    mask = (drawn(0, 1) < 0.5).long()
    mask[0, 0] = 1
    old, reference, advantages, spread = drawn(-3, -0.1), drawn(-3, -0.1), drawn(-2, 2), drawn(0, 2)
    if loss == "gspo":
        advantages = advantages[:, :1].expand(-1, LONGEST)
    now, spread = (old + drawn(-0.5, 0.5)).requires_grad_(), spread.requires_grad_()
    expected = theirs(trl, recipe, mask, now, spread, old, reference, advantages)
    wanted = torch.autograd.grad(expected, [now, spread], allow_unused=True)

    flat = mask.bool()
    tokens = sampled(mask.sum(1).tolist(), advantages[flat], old[flat])
    objective = RolloutObjective(
        tokens, recipe, 0, int(mask.sum()), old_logps=old[flat], reference_logps=reference[flat] if kl else None
    )
    passes = [list(range(0, rollouts, 2)), list(range(1, rollouts, 2))]
    found, sums = zip(
        *(objective(p, TargetScores(*(rows(x, mask, p) for x in (now, spread)), None)) for p in passes), strict=True
    )
    ours = torch.autograd.grad(sum(found), [now, spread], allow_unused=True)
    assert sum(found).item() == pytest.approx(expected.item(), abs=1e-5)
    for one, other in zip(ours, wanted, strict=True):
        assert (one is None or not one.any()) if other is None else torch.allclose(one, other * mask, atol=1e-6)
    figures = objective.objective_metrics(sum(sums).tolist())
    same = {name: name for name in ("kl", "entropy")}
    if loss == "cispo":
        same["clip_ratio/high_mean"] = "cispo_clip_ratio"
    elif loss != "gspo":  # which TRL counts by rollouts
        same |= {name: name for name in ("clip_ratio/low_mean", "clip_ratio/high_mean")}
    for name, theirs_name in same.items():
        if name in figures:
            assert figures[name] == pytest.approx(trl._metrics["train"][theirs_name][-1], abs=1e-5), name


def sampled(counts: list[int], advantages: torch.Tensor, logps: torch.Tensor) -> SampledTokens:
    """Rollouts with so many sampled tokens."""
    none = np.zeros(sum(counts), int)
    return SampledTokens((), np.cumsum([0, *counts]), advantages.numpy(), logps.numpy(), none)


def test_a_loss_of_ones_own_is_one_file_and_that_of_the_docs_is_trls_sapo(trl):
    page = (Path(__file__).parents[3] / "docs/training.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(next(text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "LOSS =" in text), names)
    trl.args.sapo_temperature_pos = trl.args.sapo_temperature_neg = 2.0
    mask, generator = torch.tensor([[1, 1, 1], [1, 0, 0]]), torch.Generator().manual_seed(0)
    old, advantages = (torch.randn(2, 3, generator=generator) for _ in range(2))
    now, flat = old + 0.3 * torch.randn(2, 3, generator=generator), mask.bool()
    keys = RLVESettings(kl=0.0).model_copy(update={"loss": "sapo", "steepness": 2.0})
    expected = theirs(trl, keys, mask, now, now, old, None, advantages)
    tokens = Tokens(now[flat], old[flat], advantages[flat], torch.tensor([0, 0, 0, 1]))
    totals = Totals(rollouts=2, tokens=4, global_tokens=4, world_size=1, max_episode_tokens=9)
    weights = torch.tensor([names["LOSS"].weight(count, totals) for count in (3, 3, 3, 1)])
    assert (names["LOSS"].losses(tokens, keys).losses * weights).sum().item() == pytest.approx(expected.item())


# By hand: two rollouts of two tokens and one, whose probabilities are 1.5, 0.5 and 1.1 times as large as before

CHANGE = torch.tensor([1.5, 0.5, 1.1])
ADVANTAGES = torch.tensor([1.0, -1.0, 2.0])
MEAN = math.sqrt(0.75)  # the first rollout's ratio
BY_HAND = {  # the losses of the tokens, their gradients by log p, and the weights
    "grpo": ([-1.2, 0.8, -2.2], [0.0, 0.0, -2.2], [1 / 4, 1 / 4, 1 / 2]),
    "dapo": ([-1.2, 0.8, -2.2], [0.0, 0.0, -2.2], [2 / 10] * 3),
    "dr_grpo": ([-1.2, 0.8, -2.2], [0.0, 0.0, -2.2], [1 / 200] * 3),
    "bnpo": ([-1.2, 0.8, -2.2], [0.0, 0.0, -2.2], [1 / 3] * 3),
    "gspo": ([-MEAN, 0.9, -2.2], [-MEAN, 0.0, -2.2], [1 / 4, 1 / 4, 1 / 2]),
    "cispo": ([1.25 * 0.7, -0.5 * 0.7, 2 * 1.1 * 0.7], [-1.25, 0.5, -2.2], [2 / 10] * 3),
}


@pytest.mark.parametrize("name", list_losses())
def test_each_loss_by_hand(name):
    recipe = RLVESettings(loss=name, cispo_cap=1.25, gspo_epsilon=0.1, gspo_epsilon_high=0.2)
    expected, gradients, weights = BY_HAND[name]
    logps = torch.full((3,), -0.7, requires_grad=True)
    tokens = Tokens(logps, logps.detach() - CHANGE.log(), ADVANTAGES, torch.tensor([0, 0, 1]))
    found = list_losses()[name].losses(tokens, recipe)
    found.losses.sum().backward()
    assert found.losses.tolist() == pytest.approx(expected) and logps.grad.tolist() == pytest.approx(gradients)
    totals = Totals(rollouts=2, tokens=3, global_tokens=10, world_size=2, max_episode_tokens=100)
    assert [list_losses()[name].weight(count, totals) for count in (2, 2, 1)] == pytest.approx(weights)
    low, high = {"gspo": ([0, 1, 0], [0, 0, 0])}.get(name, ([0, name != "cispo", 0], [1, 0, 0]))
    assert found.low.tolist() == [bool(one) for one in low] and found.high.tolist() == [bool(one) for one in high]


def test_under_gspo_each_token_follows_the_credit_of_its_own_step():
    """The ratio is the rollout's; a step with credit is not averaged with one that has none."""
    logps = torch.zeros(3, requires_grad=True)
    tokens = Tokens(logps, torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]), torch.zeros(3, dtype=torch.int64))
    list_losses()["gspo"].losses(tokens, RLVESettings()).losses.sum().backward()
    assert logps.grad.tolist() == [-1.0, 0.0, 0.0]


RATIOS = torch.tensor([3.0, 0.25, 1.0, 1.3, 1.3])  # of rollouts of three tokens and two


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [2.0, 0.25, 1.0, 1.3, 1.3]),
        ({"ratio_floor": 0.5}, [2.0, 0.5, 1.0, 1.3, 1.3]),
        ({"ratio_mask": {}}, [2.0, 0.25, 1.0, 0.0, 0.0]),  # their geometric means are 0.91 and 1.3
        ({"ratio_mask": {"high": 1.4}}, [2.0, 0.25, 1.0, 1.3, 1.3]),
        ({"ratio_mask": {"by": "product", "high": 1.5}}, [0.0, 0.0, 0.0, 0.0, 0.0]),  # 0.75 and 1.69
        ({"ratio_mask": {"by": "product", "low": 0.7, "high": 1.5}, "ratio_cap": 3.0}, [3.0, 0.25, 1.0, 0.0, 0.0]),
    ],
)
def test_ratios_to_the_sampler_are_cut_raised_and_masked(keys, expected):
    recipe = RLVESettings.model_validate({"async_rollouts": 1, "kl": 0.0, "loss": "cispo"} | keys)
    sampler = -RATIOS.log()
    rollout = torch.tensor([0, 0, 0, 1, 1])
    assert compute_importance_ratios(torch.zeros(5), sampler, rollout, recipe).tolist() == pytest.approx(expected)
    objective = RolloutObjective(sampled([3, 2], torch.ones(5), sampler), recipe, 0, 5)
    now = torch.zeros(5, requires_grad=True)
    loss, sums = objective([0, 1], TargetScores(now, torch.zeros(5), None))
    loss.backward()
    assert now.grad.tolist() == pytest.approx([-ratio / 5 for ratio in expected]), "it weighs the advantages"
    figures = objective.objective_metrics(sums.tolist())
    masked = sum(ratio == 0 for ratio in expected) / 5
    assert figures.get("policy/masked") == (masked if "ratio_mask" in keys else None)


def test_with_dropout_the_trainers_pass_is_not_the_samplers():
    """The engine samples with the weights in training, but drops nothing."""
    tokens, recipe = sampled([5], torch.ones(5), -RATIOS.log()), RLVESettings(kl=0.0, ratio_cap=9.0)
    for dropout, expected in ((False, None), (True, RATIOS.mean().item())):
        objective = RolloutObjective(tokens, recipe, 0, 5, dropout=dropout)
        _, sums = objective([0], TargetScores(torch.zeros(5, requires_grad=True), torch.zeros(5), None))
        assert objective.objective_metrics(sums.tolist()).get("policy/ratio") == (expected and pytest.approx(expected))


def test_a_masked_rollout_has_no_divergence_either():
    recipe = RLVESettings.model_validate({"async_rollouts": 1, "kl": 0.1, "ratio_mask": {}})
    tokens = sampled([2, 2], torch.ones(4), torch.tensor([-1.0, -1.0, -3.0, -3.0]))
    objective = RolloutObjective(tokens, recipe, 0, 4, reference_logps=torch.full((4,), -2.0))
    now = torch.full((4,), -1.0, requires_grad=True)
    objective([0, 1], TargetScores(now, torch.zeros(4), None))[0].backward()
    assert now.grad[:2].all() and not now.grad[2:].any()


def test_a_ratio_that_the_sampler_could_not_tell_is_one():
    found = compute_importance_ratios(
        torch.tensor([-1.0, -1.0]), torch.tensor([-1.5, torch.nan]), torch.zeros(2).long(), RLVESettings()
    )
    assert found.tolist() == [pytest.approx(math.exp(0.5)), 1.0]


def test_what_the_sampler_could_not_tell_makes_no_gap_smaller():
    tokens = sampled([2], torch.ones(2), torch.tensor([-1.5, torch.nan]))
    objective = RolloutObjective(tokens, RLVESettings.model_validate({"async_rollouts": 1, "kl": 0.0}), 0, 2)
    _, sums = objective([0], TargetScores(torch.tensor([-1.0, -1.0]), torch.zeros(2), None))
    assert objective.objective_metrics(sums.tolist())["sentinel/logp_gap"] == 0.5


def test_the_bonus_of_ranks_is_that_of_one():
    """Whatever tokens each rank has: three of the first rank's and one of the second's weigh the same."""

    def pulls(counts: list[int], ranks: int) -> list[float]:
        spread = torch.ones(sum(counts), requires_grad=True)
        tokens = sampled(counts, torch.zeros(sum(counts)), torch.zeros(sum(counts)))
        objective = RolloutObjective(tokens, RLVESettings(kl=0.0, entropy=0.1), 0, 4, ranks)
        objective([*range(len(counts))], TargetScores(torch.zeros(sum(counts)), spread, None))[0].backward()
        return [pull / ranks for pull in spread.grad.tolist()]

    assert pulls([2, 1], 2) + pulls([1], 2) == pytest.approx(pulls([2, 1, 1], 1))
    assert pulls([0], 2) == []


def test_without_any_token_no_mean_is_made_up():
    """An entropy of 0 would be taken for a policy that is certain."""
    objective = RolloutObjective(sampled([0], torch.zeros(0), torch.zeros(0)), RLVESettings(), 0, 0)
    loss, sums = objective([], TargetScores(torch.zeros(0), torch.zeros(0), None))
    assert loss == 0 and math.isnan(objective.objective_metrics(sums.tolist())["entropy"])


def rows(values: torch.Tensor, mask: torch.Tensor, members: list[int]) -> torch.Tensor:
    """The sampled tokens of some rollouts, one after the other."""
    return torch.cat([values[i][mask[i].bool()] for i in members] or [values.new_zeros(0)])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 4))
def test_weights_of_a_whole_update_add_up(counts, ranks):
    """With as many tokens on each rank: the mean over ranks of the sums of weights is that of one process."""
    global_tokens = ranks * sum(counts)

    def total(loss: str) -> float:
        totals = Totals(len(counts), sum(counts), global_tokens, ranks, 100)
        return sum(list_losses()[loss].weight(count, totals) * count for count in counts)

    spoken = sum(count > 0 for count in counts)
    assert total("grpo") == total("gspo") == pytest.approx(spoken / len(counts))
    assert total("bnpo") == total("dapo") == total("cispo") == pytest.approx(1 if spoken else 0)
    assert total("dr_grpo") == pytest.approx(sum(counts) / (100 * len(counts)))


def test_the_divergence_of_what_another_policy_sampled_is_still_that_of_this_one():
    """Summed over all tokens with the sampler's probabilities, its gradient is that of KL(policy, reference)."""
    generator = torch.Generator().manual_seed(0)
    logits, sampler, reference = (torch.randn(12, generator=generator, dtype=torch.float64) for _ in range(3))
    logits.requires_grad_()
    logps, sampled, referred = logits.log_softmax(-1), sampler.log_softmax(-1), reference.log_softmax(-1)
    (expected,) = torch.autograd.grad((logps.exp() * (logps - referred)).sum(), logits, retain_graph=True)
    ratios, zeros = torch.exp(logps.detach() - sampled), torch.zeros_like(logps)
    tokens = Tokens(logps, logps.detach(), zeros, zeros.long())
    (found,) = torch.autograd.grad((sampled.exp() * compute_kl_divergences(tokens, referred) * ratios).sum(), logits)
    torch.testing.assert_close(found, expected)
