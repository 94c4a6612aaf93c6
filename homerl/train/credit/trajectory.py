"""`trajectory`: GRPO.

The return R_i = Σ_t r[i][t] is one number a rollout, so every step of it gets the same advantage. Subtracting the
group's mean takes out how hard the blueprint is; dividing by its deviation makes groups weigh alike.
"""

from __future__ import annotations

import numpy as np

from homerl.train.credit.common import Steps, normalised


def trajectory_credit(group: Steps) -> list[list[float]]:
    """Every step of rollout i gets (R_i - mean R) / (std R + ε); the deviation is the sample's (n - 1), as TRL's is."""
    totals = np.array([sum(rewards) for rewards in group])
    return [[float(a)] * len(rewards) for a, rewards in zip(normalised(totals, totals), group, strict=True)]
