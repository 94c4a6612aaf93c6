"""Credit: step rewards of a group become one advantage a step. One rule a file, each a pure function.

Invariants: a group whose returns do not vary gets zeros; a rollout that does not count (a user's or a server's
fault) takes its whole group out; nothing here knows tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from homerl.train.credit.anchor import anchor_credit, recurrence
from homerl.train.credit.branch import Fork, branch_credit
from homerl.train.credit.common import EPSILON, Steps, returns_to_go
from homerl.train.credit.step import step_credit
from homerl.train.credit.trajectory import trajectory_credit

if TYPE_CHECKING:
    from homerl.train.recipe import RLVESettings

__all__ = [
    "EPSILON", "Fork", "Played", "Rule", "Steps", "anchor_credit", "assign", "branch_credit", "last_step_only", "recurrence",
    "returns_to_go", "rule_of", "step_credit", "trajectory_credit",
]  # fmt: skip


@dataclass(frozen=True)
class Played:
    """What credit has to know of a rollout."""

    rewards: Sequence[float]
    counts: bool = True
    decisions: Sequence[str] = ()
    fork: Fork | None = None


Rule = Callable[[Sequence[Played]], list[list[float]]]


def rule_of(settings: RLVESettings) -> Rule:
    """The rule that a recipe asks for."""

    def rule(group: Sequence[Played]) -> list[list[float]]:
        rewards = [played.rewards for played in group]
        match settings.credit:
            case "trajectory":
                return trajectory_credit(rewards)
            case "step":
                return step_credit(rewards, settings.gamma, settings.baseline)
            case "anchor":
                return anchor_credit(rewards, [p.decisions for p in group], settings.gamma, settings.anchor_weight)
            case "branch":
                return branch_credit(rewards, [p.fork for p in group], settings.gamma)

    return rule


def assign(rollouts: Sequence[Played], group_size: int, rule: Rule) -> list[list[float]]:
    """Apply `rule` group by group; a group with a rollout that does not count is dropped (all zeros)."""
    if len(rollouts) % group_size:
        raise ValueError(f"{len(rollouts)} rollouts do not make groups of {group_size}")
    credit: list[list[float]] = []
    for start in range(0, len(rollouts), group_size):
        group = rollouts[start : start + group_size]
        kept = all(played.counts for played in group)
        credit += rule(group) if kept else [[0.0] * len(played.rewards) for played in group]
    return credit


def last_step_only(credit: Steps) -> list[list[float]]:
    """The paper's ST ablation: only the final step of each rollout is updated."""
    return [[0.0] * (len(row) - 1) + list(row[-1:]) for row in credit]
