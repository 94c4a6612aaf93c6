"""The available credit modes, and the one that a recipe chooses.

Invariants: a mode is discovered by its file (see `homerl.train.credit`); a rollout that does not count (a fault of the
user or a server) excludes its whole group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import homerl.train.credit
from envs.plugins import discover, in_order
from homerl.train.credit.common import Steps
from homerl.train.credit.contract import CreditInput, CreditMode, Rule

NOT_MODES = ("common", "contract", "registry")


@cache
def modes() -> Mapping[str, CreditMode]:
    """Every credit mode by name."""
    return in_order(discover(homerl.train.credit, "MODE", CreditMode, NOT_MODES))


def mode_of(settings: Any) -> CreditMode:
    """The mode that a recipe's `rlve` chooses."""
    return modes()[settings.credit]


def rule_of(settings: Any) -> Rule:
    """The rule of the recipe's mode, with the recipe's settings."""
    mode = mode_of(settings)
    return lambda group: mode.rule(group, settings)


def assign(rollouts: Sequence[CreditInput], group_size: int, rule: Rule) -> list[list[float]]:
    """Apply `rule` to each group of rollouts. A group with a rollout that does not count gets zeros.

    Raises `ValueError` if the rollouts do not divide into groups.
    """
    if len(rollouts) % group_size:
        raise ValueError(f"{len(rollouts)} rollouts do not make groups of {group_size}")
    credit: list[list[float]] = []
    for start in range(0, len(rollouts), group_size):
        group = rollouts[start : start + group_size]
        kept = all(played.counts for played in group)
        credit += rule(group) if kept else [[0.0] * len(played.rewards) for played in group]
    return credit


def last_step_only(credit: Steps) -> list[list[float]]:
    """The ablation ST of the HomeFlow paper: keep the advantage of the last step of each rollout only."""
    return [[0.0] * (len(row) - 1) + list(row[-1:]) for row in credit]
