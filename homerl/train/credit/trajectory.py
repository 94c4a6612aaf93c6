"""`trajectory`: GRPO.

The return R_i = Σ_t r[i][t] is one number a rollout, so every step of it gets the same advantage. Subtracting the
group's mean takes out how hard the blueprint is; dividing by its deviation makes groups weigh alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from homerl.train.credit.common import Steps, normalised
from homerl.train.credit.contract import CreditMode, Group


def trajectory_credit(group: Steps) -> list[list[float]]:
    """Every step of rollout i gets (R_i - mean R) / (std R + ε); the deviation is the sample's (n - 1), as TRL's is."""
    totals = np.array([sum(rewards) for rewards in group])
    return [[float(a)] * len(rewards) for a, rewards in zip(normalised(totals, totals), group, strict=True)]


class TrajectoryCredit(CreditMode):
    name, order = "trajectory", 0
    sentence = "Every step of a rollout gets the rollout's return, normalised over its group (GRPO)."

    def rule(self, group: Group, settings: Any) -> list[list[float]]:
        return trajectory_credit([played.rewards for played in group])


MODE = TrajectoryCredit()
