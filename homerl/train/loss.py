"""The loss of rollouts, over the sampled tokens of an update: GRPO's clipped ratio, KL divergence and entropy.

It is TRL's (`GRPOTrainer._compute_loss`, loss types grpo, dapo, dr_grpo and bnpo), written over tokens in place of padded
rows, so that passes of any size add up to the loss of the whole update.

Invariant: each token's part of the loss depends on itself, and on constants of the update, so no pass decides how it is
weighted. As in TRL, bnpo and the entropy bonus average over a rank's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from homerl.train.recipe import LossSettings, RLVESettings


def token_weights(counts: Sequence[int], settings: RLVESettings, everywhere: int, ranks: int) -> list[float]:
    """The weight of a token in the loss, by rollout of this rank. `counts` are the numbers of sampled tokens.

    `everywhere` is the number of sampled tokens of all ranks, whose gradients are averaged later. grpo averages over the
    tokens of a rollout and then over rollouts; bnpo over this rank's tokens; dapo over the tokens of all ranks; dr_grpo
    divides by a constant.
    """
    rollouts, tokens = len(counts), max(1, sum(counts))
    each = {
        "grpo": lambda count: 1 / (rollouts * max(1, count)),
        "bnpo": lambda count: 1 / tokens,
        "dapo": lambda count: ranks / max(1, everywhere),
        "dr_grpo": lambda count: 1 / (rollouts * settings.max_episode_tokens),
    }
    return [each[settings.loss](count) for count in counts]


def token_losses(
    logps: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, reference: torch.Tensor | None, settings: LossSettings,
    sampled: torch.Tensor | float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The loss of each token, its KL divergence, and its probability ratio; tensors of shape (tokens,).

    `old` are the log-probabilities before the first optimizer step on these rollouts, `reference` those of the model that
    training starts from, or None if `kl` is 0. `sampled` weights tokens of another sampler (`truncated_ratios`): both parts
    of the loss are expectations under the policy. The advantages are weighted so already.
    """
    ratio = torch.exp(logps - old)
    high = settings.epsilon if settings.epsilon_high is None else settings.epsilon_high
    clipped = ratio.clamp(1 - settings.epsilon, 1 + high)
    loss = -torch.min(ratio * advantages, clipped * advantages)
    if reference is None:
        return loss, torch.zeros_like(loss), ratio
    gap = reference - logps
    divergence = (torch.exp(gap) - gap - 1) * ratio  # the ratio's gradient makes that of the divergence unbiased
    return loss + settings.kl * divergence * sampled, divergence, ratio


def clipped_shares(ratio: torch.Tensor, advantages: torch.Tensor, settings: LossSettings) -> torch.Tensor:
    """The numbers of tokens whose ratio is clipped from below, and from above, of shape (2,)."""
    high = settings.epsilon if settings.epsilon_high is None else settings.epsilon_high
    low = (ratio < 1 - settings.epsilon) & (advantages < 0)
    return torch.stack([low.sum(), ((ratio > 1 + high) & (advantages > 0)).sum()]).float()
