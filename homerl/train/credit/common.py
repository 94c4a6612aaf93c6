"""What the credit rules share. Notation: r[i][t] is the reward of step t of rollout i, and G[i][t] its return-to-go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Steps = Sequence[Sequence[float]]
EPSILON = 1e-4  # as in TRL: bounds the advantages of a nearly constant group
NOTHING = 1e-9  # smaller differences of returns are rounding errors of zero


def returns_to_go(rewards: Sequence[float]) -> list[float]:
    """G_t = Σ_{u>=t} r_u for every step; the result is as long as `rewards`."""
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total += reward
        returns.append(total)
    return returns[::-1]


def returns_vary(group: Steps) -> bool:
    """Whether the returns of a group's rollouts vary."""
    returns = [sum(rewards) for rewards in group]
    return any(abs(value - returns[0]) > NOTHING for value in returns)


def normalised(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """(value - mean of the pool) / (the pool's sample deviation + ε); zeros if the pool does not vary."""
    if len(pool) < 2 or np.allclose(pool, pool[0]):
        return np.zeros_like(values, dtype=float)
    return (values - pool.mean()) / (pool.std(ddof=1) + EPSILON)
