"""The objective of an update on rollouts: their sampled tokens as arrays, the loss of each pass, and its metrics.

The recipe's loss is in `homerl/train/losses`. What all losses share is here: the importance ratio to another
sampler, the KL divergence from the reference, and the entropy bonus, which averages over the tokens of all ranks.

Invariant: passes of any size add up to the loss of the whole update, because the part of a token depends on its own rollout
and on constants of the update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch

from homerl.train.data.rollout import Rollout
from homerl.train.losses.clipped import by_token
from homerl.train.losses.contract import Tokens, Totals, list_losses, rollout_sums
from homerl.train.packing.packed_updates import TargetScores, TokenSequence
from homerl.train.recipe import LossSettings, RLVESettings
from homerl.train.tensor_shapes import Indices, ScalarLoss, SumVector, TokenLogps, TokenRollouts, TokenValues

Number = TypeVar("Number")
Part = tuple[Rollout, Sequence[float]]  # a rollout and the credit of its steps


@dataclass(frozen=True)
class SampledTokens:
    """The sampled tokens of a rank's rollouts, in their order; arrays of shape (tokens,).

    `sequences` are the rollouts up to their last sampled token. `starts` (rollouts + 1,) are the bounds of each rollout's
    tokens in the arrays. `advantages` are the credits of their steps, `logps` the sampler's log-probabilities (NaN if it
    could not tell one), and `versions` the updates whose weights sampled them.
    """

    sequences: tuple[TokenSequence, ...]
    starts: Indices
    advantages: np.ndarray
    logps: np.ndarray
    versions: np.ndarray

    @property
    def rollout_lengths(self) -> list[int]:
        """The number of sampled tokens of each rollout."""
        return [int(count) for count in np.diff(self.starts)]

    def token_indices(self, members: Sequence[int]) -> Indices:
        """The indices in the arrays of the tokens of some rollouts."""
        return np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in members] or [np.zeros(0, int)])


def collect_sampled_tokens(parts: Sequence[Part]) -> SampledTokens:
    """The sampled tokens of rollouts, with the credit of their steps.

    If the world failed after a sample, that last span has no step and so no credit. The expert's steps at
    the start were not sampled. Each dialogue of a program with the model is a sequence of its own, which a loss takes for a
    rollout.
    """
    sequences, advantages, logps, versions = [], [], [], []
    for ledger, values in ((ledger, values) for rollout, values in parts for ledger in rollout.ledgers):
        targets = np.flatnonzero(ledger.mask)
        credit = np.zeros(len(ledger.ids))
        for step, (start, end) in [*zip(ledger.span_steps, ledger.spans, strict=True)][ledger.shared :]:
            if step < len(values):
                credit[start:end] = values[step]
        end = targets[-1] + 1 if len(targets) else 0
        sequences.append(TokenSequence.from_ids(ledger.ids[:end], targets))
        advantages.append(credit[targets])
        logps.append(np.asarray(ledger.logprobs)[targets])
        versions.append(np.asarray(ledger.versions)[targets])
    starts = np.cumsum([0, *(len(sequence.targets) for sequence in sequences)])
    return SampledTokens(
        tuple(sequences), starts, np.concatenate(advantages), np.concatenate(logps), np.concatenate(versions)
    )


class ObjectiveSums(NamedTuple, Generic[Number]):
    """Sums over sampled tokens that an update counts beside its loss.

    As a vector they are added up over passes, and exchanged by all ranks at once;
    `ObjectiveSums(*vector.tolist())` names its numbers again.
    """

    tokens: Number
    entropy: Number  # nats
    kl: Number  # nats, from the reference
    clipped_low: Number  # tokens whose ratio the loss clips from below
    clipped_high: Number  # and from above
    fresh: Number  # tokens sampled by the weights in training, whose log-probability the sampler told
    logp_gap: Number  # of fresh tokens: |log-probability of the trainer - that of the sampler|, in nats
    ratio: Number  # importance ratios
    staleness: Number  # updates
    too_old: Number  # tokens older than `async_rollouts` allows
    masked: Number  # tokens without weight, by `ratio_mask`


class RolloutObjective:
    """Called with the rollouts of a pass and their scores: the loss, and the `ObjectiveSums` as a vector.

    `global_tokens` is the number of sampled tokens of all ranks. `old_logps` and `reference_logps` are log-probabilities of
    all sampled tokens, of shape (tokens,): those of the policy before the first of several iterations (None if there is
    one), and those of the model that training starts from (None if `kl` is 0). Where sampler and trainer may differ, ratios
    weight the advantages and the divergences; with `dropout` in training they do, since nothing is dropped as the policy
    samples, and with stored rollouts of older weights. A token that is older than `async_rollouts` allows has advantage 0;
    by construction there is none.
    """

    def __init__(
        self,
        tokens: SampledTokens,
        settings: RLVESettings,
        update: int,
        global_tokens: int,
        world_size: int = 1,
        device: torch.device | str = "cpu",
        old_logps: TokenLogps | None = None,
        reference_logps: TokenLogps | None = None,
        dropout: bool = False,
    ) -> None:
        self.tokens, self.settings, self.loss = tokens, settings, list_losses()[settings.loss]
        now = bool((tokens.versions == update).all())  # rollouts that were stored may be of other weights
        self.exact = settings.is_exactly_on_policy and not dropout and (now or not settings.from_rollouts)

        def tensor(values: np.ndarray | list[float]) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=device)

        lengths = tokens.rollout_lengths
        totals = Totals(len(lengths), sum(lengths), global_tokens, world_size, settings.max_episode_tokens)
        weights = tensor([self.loss.weight(length, totals) for length in lengths])
        self.weights = weights[number_token_rollouts(lengths).to(device)]
        self.entropy_weight = settings.entropy * by_token(totals)  # a mean over all tokens, whatever the loss averages
        told = settings.async_rollouts or settings.from_rollouts
        self.staleness = tensor(update - tokens.versions) if told else tensor(tokens.versions * 0)
        self.oldest = math.inf if settings.from_rollouts else settings.async_rollouts
        self.advantages = tensor(tokens.advantages) * (self.staleness <= self.oldest)
        self.sampler_logps, self.old_logps, self.reference_logps = tensor(tokens.logps), old_logps, reference_logps

    def __call__(self, members: list[int], scored: TargetScores) -> tuple[ScalarLoss, SumVector]:
        """The loss of a pass on the rollouts with these indices, and its `ObjectiveSums` as a vector."""
        settings = self.settings
        device, lengths = self.weights.device, self.tokens.rollout_lengths
        at = torch.as_tensor(self.tokens.token_indices(members), device=device)
        logps, now = scored.logps.float(), scored.logps.detach().float()
        old = now if self.old_logps is None else self.old_logps[at]
        rollout = number_token_rollouts([lengths[i] for i in members]).to(device)
        ones = torch.ones_like(now)  # also as many tokens, once summed
        ratios = ones if self.exact else compute_importance_ratios(old, self.sampler_logps[at], rollout, settings)
        tokens = Tokens(logps, old, self.advantages[at] * ratios, rollout)
        found = self.loss.losses(tokens, settings)
        token_losses, kl = found.losses, torch.zeros_like(now)
        if self.reference_logps is not None:
            kl = compute_kl_divergences(tokens, self.reference_logps[at])
            token_losses = token_losses + settings.kl * kl * ratios
        assert scored.entropy is not None, "the policy's head gives it"
        loss = (token_losses * self.weights[at]).sum() - self.entropy_weight * scored.entropy.sum()
        # older tokens differ from the trainer's weights by right, and some samplers do not tell each
        fresh = (self.staleness[at] == 0) & ~self.sampler_logps[at].isnan()
        gap = (old - self.sampler_logps[at]).abs().nan_to_num() * fresh
        counted = ObjectiveSums(
            tokens=ones,
            entropy=scored.entropy,
            kl=kl,
            clipped_low=found.low,
            clipped_high=found.high,
            fresh=fresh,
            logp_gap=gap,
            ratio=ratios,
            staleness=self.staleness[at],
            too_old=self.staleness[at] > self.oldest,
            masked=ratios == 0,
        )
        return loss, torch.stack([values.detach().float().sum() for values in counted])

    def objective_metrics(self, sums: Sequence[float]) -> dict[str, float]:
        """The metrics of an update, from the `ObjectiveSums` of all ranks. Means are NaN if no token is trained on."""
        total: ObjectiveSums[float] = ObjectiveSums(*sums)
        mean: ObjectiveSums[float] = ObjectiveSums(*(value / (total.tokens or math.nan) for value in total))
        metrics = {
            "entropy": mean.entropy,
            "sentinel/logp_gap": total.logp_gap / max(1.0, total.fresh),
            "clip_ratio/low_mean": mean.clipped_low,
            "clip_ratio/high_mean": mean.clipped_high,
            "clip_ratio/region_mean": mean.clipped_low + mean.clipped_high,
        }
        if self.reference_logps is not None:
            metrics["kl"] = mean.kl
        if not self.exact:
            names = ("ratio", "staleness", "too_old")
            metrics |= {f"policy/{name}": getattr(mean, name) for name in names}
        if self.settings.ratio_mask is not None:
            metrics["policy/masked"] = mean.masked
        return metrics


def number_token_rollouts(lengths: Sequence[int]) -> TokenRollouts:
    """The number of each token's rollout, from the numbers of their tokens."""
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))


def compute_kl_divergences(tokens: Tokens, reference_logps: TokenLogps) -> TokenValues:
    """The KL divergence from the reference at each token, in nats: exp(gap) - gap - 1, Schulman's estimator k3.

    The factor `tokens.ratio` is 1 in the first optimizer step. Its gradient makes that of the divergence unbiased, whatever
    the loss, because the divergence is an expectation under the policy.
    """
    gap = reference_logps - tokens.logps
    # k3 is never negative, and varies less than -gap, whose mean it shares
    return (gap.exp() - gap - 1) * tokens.ratio


def compute_importance_ratios(
    trained: TokenLogps, sampled: TokenLogps, rollout: TokenRollouts, settings: LossSettings
) -> TokenValues:
    """π_trainer / π_sampler of each token, from `ratio_floor` to `ratio_cap`; 0 in rollouts that `ratio_mask` leaves out.

    E_sampler[ratio · f] = E_trainer[f]. The bounds limit the variance; they bias the tokens that they change. If the sampler
    could not tell a log-probability (NaN), the ratio is 1.
    """
    gaps, mask = torch.nan_to_num(trained - sampled, nan=0.0), settings.ratio_mask
    ratios = gaps.exp().clamp(settings.ratio_floor, settings.ratio_cap)
    if mask is None:
        return ratios
    of_rollout = rollout_sums(gaps, rollout)  # the logarithm of the product, at each of the rollout's tokens
    if mask.by == "mean":
        of_rollout = of_rollout / rollout_sums(torch.ones_like(gaps), rollout)
    of_rollout = of_rollout.exp()
    return ratios * ((of_rollout >= mask.low) & (of_rollout <= mask.high))
