"""The objective of an update on rollouts: the loss of each pass, and the figures that are logged of it.

Invariant: passes of any size add up to the loss of the whole update, as each token's part depends on its own rollout and on
constants of the update. The recipe's loss is one file of `homerl/train/losses`. What all losses share is here: the
importance ratio to another sampler, the KL divergence and the entropy bonus, which averages over the tokens of all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from homerl.train.losses.clipped import by_token
from homerl.train.losses.contract import Tokens, Totals, rollout_sums
from homerl.train.losses.registry import losses
from homerl.train.packing.rows import Scores
from homerl.train.recipe import LossSettings, RatioMask, RLVESettings
from homerl.train.tensors import SampledTokens

SUMS = ("tokens", "entropy", "kl", "low", "high", "fresh", "gap", "ratio", "age", "old", "masked")


class RolloutObjective:
    """Called with the rollouts of a pass and their scores: the loss, and the sums named `SUMS`.

    `everywhere` is the number of sampled tokens of all `ranks`. `old` and `reference` are log-probabilities of all sampled
    tokens, of shape (tokens,): those of the policy before the first of several iterations (None if there is one), and those
    of the model that training starts from (None if `kl` is 0). Where sampler and trainer may differ, ratios weight the
    advantages and the divergences. A token that is older than `async_rollouts` allows has advantage 0; by construction there
    is none.
    """

    def __init__(
        self, tokens: SampledTokens, settings: RLVESettings, update: int, everywhere: int, ranks: int = 1,
        device: torch.device | str = "cpu", old: torch.Tensor | None = None, reference: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        self.tokens, self.settings, self.loss = tokens, settings, losses()[settings.loss]

        def tensor(values: Any) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=device)

        counts = tokens.counts
        totals = Totals(len(counts), sum(counts), everywhere, ranks, settings.max_episode_tokens)
        weights = tensor([self.loss.weight(count, totals) for count in counts])
        self.weights = weights[rollout_of(counts).to(device)]
        self.bonus = settings.entropy * by_token(totals)
        self.ages = tensor(update - tokens.versions) if settings.async_rollouts else tensor(tokens.versions * 0)
        self.advantages = tensor(tokens.advantages) * (self.ages <= settings.async_rollouts)
        self.sampled, self.old, self.reference = tensor(tokens.logps), old, reference

    def __call__(self, members: list[int], scored: Scores) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a pass, and the sums, of shape (SUMS,)."""
        settings = self.settings
        device, counts = self.weights.device, self.tokens.counts
        at = torch.as_tensor(self.tokens.of(members), device=device)
        logps, now = scored.logps.float(), scored.logps.detach().float()
        old = now if self.old is None else self.old[at]
        rollout = rollout_of([counts[i] for i in members]).to(device)
        exact = torch.ones_like(now)
        ratios = exact if settings.exact else sampler_ratios(old, self.sampled[at], rollout, settings)
        tokens = Tokens(logps, old, self.advantages[at] * ratios, ratios, rollout)
        found = self.loss.losses(tokens, settings)
        pull, divergence = found.losses, torch.zeros_like(now)
        if self.reference is not None:
            divergence = divergences(tokens, self.reference[at])
            pull = pull + settings.kl * divergence * ratios
        assert scored.entropy is not None, "the policy's head gives it"
        loss = (pull * self.weights[at]).sum() - self.bonus * scored.entropy.sum()
        # older tokens differ from the trainer's weights by right, and some samplers do not tell each
        fresh = (self.ages[at] == 0) & ~self.sampled[at].isnan()
        gap = (old - self.sampled[at]).abs().nan_to_num() * fresh
        each = (
            exact, scored.entropy, divergence, found.low, found.high, fresh, gap, ratios, self.ages[at],
            self.ages[at] > settings.async_rollouts, ratios == 0,
        )  # fmt: skip
        return loss, torch.stack([part.detach().float().sum() for part in each])

    def figures(self, sums: list[float]) -> dict[str, float]:
        """The metrics of an update, from the sums of all ranks. Means are NaN if no token is trained on."""
        total = dict(zip(SUMS, sums, strict=True))
        mean = {name: value / (total["tokens"] or math.nan) for name, value in total.items()}
        figures = {
            "entropy": mean["entropy"], "sentinel/logp_gap": total["gap"] / max(1.0, total["fresh"]),
            "clip_ratio/low_mean": mean["low"], "clip_ratio/high_mean": mean["high"],
            "clip_ratio/region_mean": mean["low"] + mean["high"],
        }  # fmt: skip
        if self.reference is not None:
            figures["kl"] = mean["kl"]
        if not self.settings.exact:
            figures |= {"policy/ratio": mean["ratio"], "policy/staleness": mean["age"], "policy/too_old": mean["old"]}
        if self.settings.ratio_mask is not None:
            figures["policy/masked"] = mean["masked"]
        return figures


def rollout_of(counts: Sequence[int]) -> torch.Tensor:
    """The number of each token's rollout, of shape (tokens,), from the numbers of their tokens."""
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.int64))


def divergences(tokens: Tokens, reference: torch.Tensor) -> torch.Tensor:
    """The KL divergence from the reference at each token (Schulman's k3), of shape (tokens,).

    It is an expectation under the policy, whatever the loss: the ratio's gradient makes that of the divergence unbiased.
    """
    gap = reference - tokens.logps
    return (gap.exp() - gap - 1) * tokens.change


def sampler_ratios(
    trained: torch.Tensor, sampled: torch.Tensor, rollout: torch.Tensor, settings: LossSettings
) -> torch.Tensor:
    """π_trainer / π_sampler of each token, from `ratio_floor` to `ratio_cap`; 0 in rollouts that `ratio_mask` leaves out.

    E_sampler[ratio · f] = E_trainer[f]. The bounds limit the variance; they bias the tokens that they change. If the sampler
    could not tell a log-probability (NaN), the ratio is 1. Tensors of shape (tokens,).
    """
    gaps = torch.nan_to_num(trained - sampled, nan=0.0)
    ratios = gaps.exp().clamp(settings.ratio_floor, settings.ratio_cap)
    return ratios if settings.ratio_mask is None else ratios * within(gaps, rollout, settings.ratio_mask)


def within(gaps: torch.Tensor, rollout: torch.Tensor, mask: RatioMask) -> torch.Tensor:
    """Whether the ratio of each token's rollout is within the bounds, of shape (tokens,)."""
    total = rollout_sums(gaps, rollout)
    ratio = (total if mask.by == "product" else total / rollout_sums(torch.ones_like(gaps), rollout)).exp()
    return (ratio >= mask.low) & (ratio <= mask.high)
