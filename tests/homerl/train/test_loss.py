"""The loss of rollouts against TRL's own, for every way of averaging it, with clipping, KL divergence and entropy."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trl import GRPOConfig, GRPOTrainer

from homerl.train.loss import token_losses, token_weights
from homerl.train.objective import RolloutObjective
from homerl.train.packing.rows import Scores
from homerl.train.recipe import RLVESettings
from homerl.train.tensors import SampledTokens

LONGEST = 9


class Given(GRPOTrainer):
    """TRL's trainer, whose model's log-probabilities and entropies are given."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return *self.given, None


@pytest.fixture(scope="module")
def trl(model, tokenizer, tmp_path_factory) -> Given:
    arguments = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")), use_cpu=True, report_to=[], bf16=False, num_generations=2,
        per_device_train_batch_size=2, gradient_accumulation_steps=1, max_completion_length=LONGEST, beta=0.0,
        entropy_coef=0.01,
    )  # fmt: skip
    rows = Dataset.from_dict({"prompt": ["a"] * 4})
    return Given(model, lambda prompts, **_: [0.0] * len(prompts), arguments, train_dataset=rows, processing_class=tokenizer)


def theirs(trl: Given, recipe: RLVESettings, mask, logps, entropy, old, reference, advantages) -> torch.Tensor:
    trl.loss_type, trl.beta, trl.entropy_coef = recipe.loss, recipe.kl, recipe.entropy
    trl._entropy_bonus_enabled = recipe.entropy > 0
    trl.epsilon_low, trl.epsilon_high = recipe.epsilon, recipe.epsilon_high or recipe.epsilon
    trl.current_gradient_accumulation_steps = 1
    trl.model.train()
    trl.given = logps, entropy
    inputs = {
        "prompt_ids": torch.ones(len(mask), 1, dtype=torch.long), "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.ones_like(mask), "completion_mask": torch.ones_like(mask), "tool_mask": mask,
        "advantages": advantages, "old_per_token_logps": old, "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    if recipe.kl:
        inputs["ref_per_token_logps"] = reference
    return trl._compute_loss(trl.model, inputs)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["grpo", "dapo", "dr_grpo", "bnpo"]), st.sampled_from([0.0, 0.1]), st.sampled_from([0.0, 0.01]),
    st.sampled_from([None, 0.3]), st.integers(0, 2**32 - 1), st.integers(1, 5),
)  # fmt: skip
def test_loss_and_gradients_are_trls(trl, loss, kl, entropy, high, seed, rollouts):
    recipe = RLVESettings(loss=loss, kl=kl, entropy=entropy, epsilon_high=high, max_episode_tokens=LONGEST)
    generator = torch.Generator().manual_seed(seed)

    def drawn(low: float, high: float) -> torch.Tensor:
        return torch.rand(rollouts, LONGEST, generator=generator) * (high - low) + low

    mask = (drawn(0, 1) < 0.5).long()
    mask[0, 0] = 1
    old, reference, advantages, spread = drawn(-3, -0.1), drawn(-3, -0.1), drawn(-2, 2), drawn(0, 2)
    now, spread = (old + drawn(-0.5, 0.5)).requires_grad_(), spread.requires_grad_()
    expected = theirs(trl, recipe, mask, now, spread, old, reference, advantages * mask)
    wanted = torch.autograd.grad(expected, [now, spread], allow_unused=True)

    flat = mask.bool()
    counts = mask.sum(1).tolist()
    tokens = SampledTokens(
        (), np.cumsum([0, *counts]), advantages[flat].numpy(), old[flat].numpy(), np.zeros(sum(counts), int),
        np.zeros(sum(counts), int),
    )  # fmt: skip
    stored = {"num_items_in_batch": mask.sum(), "old_per_token_logps": old[flat]}
    stored |= {"ref_per_token_logps": reference[flat]} if kl else {}
    objective = RolloutObjective(tokens, stored, recipe, 0, trl.accelerator)
    passes = [list(range(0, rollouts, 2)), list(range(1, rollouts, 2))]
    found, sums = zip(*(objective(p, Scores(*(rows(x, mask, p) for x in (now, spread)), None)) for p in passes), strict=True)
    ours = torch.autograd.grad(sum(found), [now, spread], allow_unused=True)
    assert sum(found).item() == pytest.approx(expected.item(), abs=1e-5)
    for one, other in zip(ours, wanted, strict=True):
        assert (one is None or not one.any()) if other is None else torch.allclose(one, other * mask, atol=1e-6)
    figures = objective.figures(sum(sums).tolist())
    for name in ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "entropy"):
        if name in figures:
            assert figures[name] == pytest.approx(trl._metrics["train"][name][-1], abs=1e-5), name


def rows(values: torch.Tensor, mask: torch.Tensor, members: list[int]) -> torch.Tensor:
    """The sampled tokens of some rollouts, one after the other."""
    return torch.cat([values[i][mask[i].bool()] for i in members] or [values.new_zeros(0)])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 4))
def test_weights_of_a_whole_update_add_up(counts, ranks):
    """With as many tokens on each rank: the mean over ranks of the sums of weights is that of one process."""
    everywhere = ranks * sum(counts)

    def total(loss: str) -> float:
        weights = token_weights(counts, RLVESettings(loss=loss, max_episode_tokens=100), everywhere, ranks)
        return sum(weight * count for weight, count in zip(weights, counts, strict=True))

    spoken = sum(count > 0 for count in counts)
    assert total("grpo") == pytest.approx(spoken / len(counts))
    assert total("bnpo") == total("dapo") == pytest.approx(1 if spoken else 0)
    assert total("dr_grpo") == pytest.approx(sum(counts) / (100 * len(counts)))


def test_the_divergence_of_what_another_policy_sampled_is_still_that_of_this_one():
    """Summed over all tokens with the sampler's probabilities, its gradient is that of KL(policy, reference)."""
    generator = torch.Generator().manual_seed(0)
    logits, sampler, reference = (torch.randn(12, generator=generator, dtype=torch.float64) for _ in range(3))
    logits.requires_grad_()
    logps, sampled, referred = logits.log_softmax(-1), sampler.log_softmax(-1), reference.log_softmax(-1)
    (expected,) = torch.autograd.grad((logps.exp() * (logps - referred)).sum(), logits, retain_graph=True)
    recipe, ratios = RLVESettings(kl=1.0), torch.exp(logps.detach() - sampled)
    losses, *_ = token_losses(logps, logps.detach(), torch.zeros_like(logps), referred, recipe, ratios)
    (found,) = torch.autograd.grad((sampled.exp() * losses).sum(), logits)
    torch.testing.assert_close(found, expected)
