"""`trajectory`: GRPO.

A rollout has one return R_i = Σ_t r[i][t], and every step of it gets the same advantage. Subtracting the group's mean
removes the difficulty of the blueprint. Dividing by the group's deviation gives all groups equal weight.
"""

from __future__ import annotations

import numpy as np

from homerl.envs.core.model import Model
from homerl.train.credit.contract import CreditMode, Group
from homerl.train.credit.step import PerStep, normalise_values


def compute_trajectory_credit(group: PerStep) -> list[list[float]]:
    """(R_i - mean R) / (std R + ε) for every step of rollout i. The deviation is the sample's (n - 1), as in TRL."""
    totals = np.array([sum(rewards) for rewards in group])
    return [[float(a)] * len(rewards) for a, rewards in zip(normalise_values(totals, totals), group, strict=True)]


class TrajectoryCredit(CreditMode[Model]):
    """The credit mode `trajectory`."""

    name, order = "trajectory", 0
    sentence = "Every step of a rollout gets the rollout's return, normalised over its group (GRPO)."

    def rule(self, group: Group, settings: Model) -> list[list[float]]:
        """Normalised returns."""
        return compute_trajectory_credit([played.rewards for played in group])


MODE = TrajectoryCredit()
