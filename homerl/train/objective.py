"""The objective of an update on rollouts: the loss of each pass, and the figures that are logged of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator

from homerl.train.loss import clipped_shares, token_losses, token_weights
from homerl.train.packing.rows import Scores
from homerl.train.recipe import RLVESettings
from homerl.train.tensors import SampledTokens, truncated_ratios

SUMS = ("tokens", "entropy", "kl", "low", "high", "fresh", "gap", "ratio", "age", "old")


class RolloutObjective:
    """Called with the rollouts of a pass and their scores: the loss, and the sums named `SUMS`.

    `stored` is TRL's batch: the number of sampled tokens of all ranks, the log-probabilities of the reference, and those
    of the policy before the first of several iterations. Where sampler and trainer may differ, truncated ratios weight the
    advantages and the divergences. A token that is older than `async_rollouts` allows has advantage 0; by construction there
    is none.
    """

    def __init__(
        self, tokens: SampledTokens, stored: Mapping[str, Any], settings: RLVESettings, update: int, accelerator: Accelerator
    ) -> None:
        self.tokens, self.settings = tokens, settings

        def tensor(values: Any) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=accelerator.device)

        counts = tokens.counts
        weights = token_weights(counts, settings, int(stored["num_items_in_batch"]), accelerator.num_processes)
        self.weights = tensor(weights).repeat_interleave(torch.as_tensor(counts, device=accelerator.device))
        self.bonus = settings.entropy / max(1, sum(counts))
        self.ages = tensor(update - tokens.versions) if settings.async_rollouts else tensor(tokens.versions * 0)
        self.advantages = tensor(tokens.advantages) * (self.ages <= settings.async_rollouts)
        self.sampled = tensor(tokens.logps)
        self.old, self.reference = stored.get("old_per_token_logps"), stored.get("ref_per_token_logps")

    def __call__(self, members: list[int], scored: Scores) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a pass, and its sums of shape (10,)."""
        settings = self.settings
        at = torch.as_tensor(self.tokens.of(members), device=self.weights.device)
        logps, now = scored.logps.float(), scored.logps.detach().float()
        old = now if self.old is None else self.old[at]
        ratios = torch.ones_like(now) if settings.exact else truncated_ratios(old, self.sampled[at], settings.ratio_cap)
        advantages = self.advantages[at] * ratios
        reference = None if self.reference is None else self.reference[at]
        losses, divergence, change = token_losses(logps, old, advantages, reference, settings, ratios)
        loss = (losses * self.weights[at]).sum() - self.bonus * scored.entropy.sum()
        fresh = self.ages[at] == 0  # older tokens differ from the trainer's weights by right
        each = (
            torch.ones_like(now), scored.entropy, divergence, fresh, (old - self.sampled[at]).abs().nan_to_num() * fresh,
            ratios, self.ages[at], self.ages[at] > settings.async_rollouts,
        )  # fmt: skip
        ones, entropy, kl, *rest = (part.detach().float().sum() for part in each)
        return loss, torch.stack([ones, entropy, kl, *clipped_shares(change.detach(), advantages, settings), *rest])

    def figures(self, sums: list[float]) -> dict[str, float]:
        """The metrics of an update, from the sums of all ranks."""
        total = dict(zip(SUMS, sums, strict=True))
        mean = {name: value / max(1.0, total["tokens"]) for name, value in total.items()}
        figures = {
            "entropy": mean["entropy"], "sentinel/logp_gap": total["gap"] / max(1.0, total["fresh"]),
            "clip_ratio/low_mean": mean["low"], "clip_ratio/high_mean": mean["high"],
            "clip_ratio/region_mean": mean["low"] + mean["high"],
        }  # fmt: skip
        if self.reference is not None:
            figures["kl"] = mean["kl"]
        if not self.settings.exact:
            figures |= {"policy/ratio": mean["ratio"], "policy/staleness": mean["age"], "policy/too_old": mean["old"]}
        return figures
