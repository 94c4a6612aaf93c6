"""Credit: step rewards of a group become one advantage a step. Pure functions.

Invariants: a group whose returns do not vary gets zeros; a rollout that does not count (a user's or a server's
fault) takes its whole group out; nothing here knows tokens.

Notation: r[i][t] is the reward of step t of rollout i, G[i][t] its return-to-go Σ_{u>=t} γ^{u-t} r[i][u].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Steps = Sequence[Sequence[float]]
EPSILON = 1e-4  # TRL's: keeps a nearly constant group from blowing up


def returns_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """G_t for every step, same length as `rewards`."""
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.append(total)
    return returns[::-1]


def trajectory_credit(group: Steps) -> list[list[float]]:
    """GRPO: every step of rollout i gets (R_i - mean R) / (std R + ε), R_i being the sum of its rewards.

    The deviation is the sample's (n - 1), as TRL computes it.
    """
    totals = np.array([sum(rewards) for rewards in group])
    return [[float(a)] * len(rewards) for a, rewards in zip(_normalised(totals, totals), group, strict=True)]


def step_credit(group: Steps, gamma: float = 1.0, baseline: str = "pooled") -> list[list[float]]:
    """Step-wise: A[i][t] = (G[i][t] - b_t) / (std + ε) (HomeFlow 3.4.2 gives a reward at every step).

    `pooled`: mean and deviation over all steps of the group, so that a step which only one member reached still
    gets a signal. `index`: b_t is the mean over the members that reached step t (itself included, so a step
    that one member alone reached gets 0); the deviation is still the pool's.
    """
    returns = [returns_to_go(rewards, gamma) for rewards in group]
    pool = np.array([value for row in returns for value in row])
    if baseline == "pooled":
        return [_normalised(np.array(row), pool).tolist() for row in returns]
    longest = max(map(len, returns))
    means = [np.mean([row[t] for row in returns if len(row) > t]) for t in range(longest)]
    centred = [np.array([value - means[t] for t, value in enumerate(row)]) for row in returns]
    pool = np.concatenate(centred)
    return [_normalised(row, pool).tolist() for row in centred]


def last_step_only(credit: Steps) -> list[list[float]]:
    """The paper's ST ablation: only the final step of each rollout is updated."""
    return [[0.0] * (len(row) - 1) + list(row[-1:]) for row in credit]


def assign(
    rewards: Steps,
    group_size: int,
    counts: Sequence[bool],
    rule: Callable[[Steps], list[list[float]]],
) -> list[list[float]]:
    """Apply `rule` group by group; a group with a rollout that does not count is dropped (all zeros)."""
    if len(rewards) % group_size:
        raise ValueError(f"{len(rewards)} rollouts do not make groups of {group_size}")
    credit: list[list[float]] = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        kept = all(counts[start : start + group_size])
        credit += rule(group) if kept else [[0.0] * len(row) for row in group]
    return credit


def _normalised(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    if len(pool) < 2 or np.allclose(pool, pool[0]):
        return np.zeros_like(values, dtype=float)
    return (values - pool.mean()) / (pool.std(ddof=1) + EPSILON)
