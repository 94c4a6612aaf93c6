"""The composite verifiable reward of one step (HomeFlow eq. 6 and D.2)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from envs.world import StepFacts
from rewards.audit import audit
from rewards.code_check import code_check
from rewards.code_length import code_length
from rewards.collateral import collateral
from rewards.progress import progress
from rewards.success import success
from rewards.turn_limit import turn_limit

PARTS = ("progress", "success", "audit", "code_check", "code_length", "turn_limit", "collateral")


@dataclass(frozen=True)
class RewardWeights:
    """Weights and limits. λ_prog, λ_succ and c_audit are ours where the paper is silent; the rest are D.2's.

    `collateral` above 0 also gates progress and success on stray devices (see `progress`).
    """

    progress: float = 1.0
    success: float = 1.0
    audit: float = 0.2
    code_check: float = 0.2
    code_length: float = 0.2
    turn_limit: float = 0.2
    collateral: float = 0.0
    max_code_tokens: int = 1000
    max_turns: int = 3

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0:
                raise ValueError(f"reward weight '{name}' is {value}; weights are at least 0, penalties subtract")


def step_rewards(facts: StepFacts, weights: RewardWeights = RewardWeights()) -> dict[str, float]:
    """Each weighted part by name, in the order of `PARTS`; their sum is r_t."""
    preserve = weights.collateral > 0
    raw = {
        "progress": progress(facts, preserve),
        "success": success(facts, preserve),
        "audit": audit(facts),
        "code_check": code_check(facts),
        "code_length": code_length(facts, weights.max_code_tokens),
        "turn_limit": turn_limit(facts, weights.max_turns),
        "collateral": collateral(facts),
    }
    return {name: getattr(weights, name) * raw[name] for name in PARTS}
