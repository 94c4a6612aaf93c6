"""The sentinel checks every update of RLVE for a lost training signal, and stops the run with the cause.

Invariants: it uses metrics gathered over all ranks, so all ranks decide alike; a cause must hold for `patience` updates
in a row, except for a loss that is not finite, which would destroy the weights: that ends a run of SFT, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from homerl.host.exit_codes import RunStopped
from homerl.train.credit.contract import TOLERANCE
from homerl.train.recipe import SentinelSettings

MOST_LOST = 0.98  # share of sampled tokens without advantage, and of groups that are dropped
MOST_GAP = 0.1  # nats a token, the mean difference of log-probabilities of sampler and trainer
LEAST_ENTROPY = 1e-4  # nats a token


class SignalLost(RunStopped):
    """The run has stopped learning (exit code 3). The message names the cause and what to do."""

    by, code = "sentinel", 3


def signal_metrics(
    advantages: Sequence[Sequence[float]],
    lengths: Sequence[Sequence[int]],
    returns: Sequence[float],
    valid: Sequence[bool],
    group: int,
) -> dict[str, float]:
    """The shares of zero advantages (1 where all tokens are masked), the advantage mass and the tokens by step index, and
    the mean standard deviation of returns within a group.

    They are of one update, over the rollouts of all ranks; inner lists are indexed by step. `lengths` counts the tokens that
    have a loss. `valid` tells which rollouts are compared with others of their group. The rest are left out, and so are
    groups of which fewer than two are valid; the share of these is reported.
    """
    kept = np.array(valid, dtype=bool).reshape(-1, group)
    compared = kept & (kept.sum(axis=1, keepdims=True) > 1)  # of shape (groups, group)
    tokens, zero = defaultdict[int, int](int), defaultdict[int, int](int)
    mass = defaultdict[int, float](float)
    # tokens are the unit, as in the default loss: a step of 100 tokens weighs as much as ten steps of 10
    for row, steps in compress(zip(advantages, lengths, strict=True), compared.flat):
        for index, (advantage, length) in enumerate(zip(row, steps, strict=True)):
            tokens[index] += length
            zero[index] += length * (abs(advantage) < TOLERANCE)
            mass[index] += length * abs(advantage)
    total = max(1, sum(tokens.values()))
    # of a step whose tokens are all masked nothing is trained on, as if all advantages were zero
    masked = bool(tokens) and not any(tokens.values())
    spread = np.where(compared, np.array(returns).reshape(-1, group), np.nan)[compared.any(axis=1)]
    metrics = {
        "sentinel/zero_advantage": 1.0 if masked else sum(zero.values()) / total,
        "sentinel/group_std": float(np.nanstd(spread, axis=1).mean()) if len(spread) else 0.0,
        "sentinel/dropped_groups": 1.0 - float(compared.any(axis=1).mean()),
    }
    for index in sorted(tokens):
        metrics[f"credit_by_step/zero/{index}"] = zero[index] / max(1, tokens[index])
        metrics[f"credit_by_step/mass/{index}"] = mass[index] / total
        metrics[f"credit_by_step/tokens/{index}"] = float(tokens[index])
    return metrics


@dataclass
class Sentinel:
    """Counts for how many updates in a row each cause has held. `update_metrics` are those of the newest optimizer update,
    which are watched with those of the next rollouts. A policy that is `distilled` learns without any credit, so to have
    none is no cause.
    """

    settings: SentinelSettings
    distilled: bool = False
    streaks: dict[str, int] = field(default_factory=dict)
    update_metrics: dict[str, float] = field(default_factory=dict)

    def checkpoint_state(self) -> dict[str, Any]:
        """What a resumed run needs, as plain data."""
        return {"held": self.streaks, "trained": self.update_metrics}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of a checkpoint."""
        self.streaks, self.update_metrics = dict(state["held"]), dict(state["trained"])

    def check_update(self, rollout_metrics: Mapping[str, float]) -> None:
        """Raise `SignalLost` if a cause has held for `patience` updates in a row."""
        metrics, patience = {**rollout_metrics, **self.update_metrics}, self.settings.patience
        zero, dropped = (metrics.get(f"sentinel/{key}", 0.0) for key in ("zero_advantage", "dropped_groups"))
        gap, entropy = metrics.get("sentinel/logp_gap", 0.0), metrics.get("sentinel/entropy", 1.0)
        certain = entropy < LEAST_ENTROPY  # its rollouts are alike, whatever the task
        alike = "nearly every group has equal returns (tasks too easy or too hard for this policy)"
        failing = "nearly every group was dropped (the user simulator, a server or the world fails)"
        unsynced = "log-probabilities differ (weights not synced, or another template)"
        causes = {
            f"no advantage: {alike}": zero > MOST_LOST and not (self.distilled or certain),
            f"no rollouts: {failing}": dropped > MOST_LOST,
            f"sampler and trainer disagree: {unsynced}": gap > MOST_GAP,
            "entropy collapsed: the policy samples the same tokens every time": certain,
        }
        for cause, holds in causes.items():
            # counted by the sentence itself, which checkpoints keep: a changed wording begins anew
            self.streaks[cause] = self.streaks.get(cause, 0) + 1 if holds else 0
            if self.streaks[cause] >= patience:
                raise SignalLost(f"{cause}; it held for {patience} updates, so the run stops here")


def refuse_infinite_loss(loss: float) -> None:
    """Raise `SignalLost` for a loss that is not finite, before a step of it makes all weights so."""
    if not np.isfinite(loss):
        raise SignalLost(
            f"loss is not finite ({loss}); the weights have not taken the step: look at what this update learns from, or "
            "lower the learning rate"
        )


def refuse_other_sampler(gap: float, most: float) -> None:
    """Raise `SignalLost` if a sampler's first log-probabilities differ from the trainer's by more than rounding does, in the
    mean of an episode's tokens, in nats."""
    if not gap <= most:  # nor is it a number where a model gives none
        raise SignalLost(
            f"the sampler's log-probabilities of the first episode differ from the trainer's by {gap:.2g} nats a token in "
            f"the mean, and rounding explains {most:g}: the sampler has other weights, another head or another temperature "
            "(rlve.engine)"
        )
