"""What the credit rules share. Notation: r[i][t] is the reward of step t of rollout i, and G[i][t] its return-to-go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PerStep = Sequence[Sequence[float]]  # numbers by rollout and step
EPSILON = 1e-4  # as in TRL: bounds the advantages of a nearly constant group
TOLERANCE = 1e-9  # smaller differences of returns, and smaller advantages, are rounding errors of zero


def compute_returns_to_go(rewards: Sequence[float]) -> list[float]:
    """G_t = Σ_{u>=t} r_u for every step; the result is as long as `rewards`."""
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total += reward
        returns.append(total)
    return returns[::-1]


def normalise_values(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """(value - mean of the pool) / (the pool's sample deviation + ε); zeros if the pool does not vary."""
    if len(pool) < 2 or np.allclose(pool, pool[0]):
        return np.zeros_like(values, dtype=float)
    return np.asarray((values - pool.mean()) / (pool.std(ddof=1) + EPSILON))
