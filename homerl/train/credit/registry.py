"""The available credit modes, and the one that a recipe chooses.

Invariants: a mode is discovered by its file (see `homerl.train.credit`); a rollout that does not count (a fault of the
user or a server) gets zeros, and the others of its group are compared without it; where rollouts are forked from each
other, it excludes its whole group; a group whose returns do not vary gets zeros from every mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import compress
from typing import Any

import homerl.train.credit
from envs.plugins import discover, in_order
from homerl.train.credit.common import returns_vary
from homerl.train.credit.contract import CreditInput, CreditMode, Group, Rule

NOT_MODES = ("common", "contract", "registry", "values")


@cache
def modes() -> Mapping[str, CreditMode]:
    """Every credit mode by name."""
    return in_order(discover(homerl.train.credit, "MODE", CreditMode, NOT_MODES))


def mode_of(settings: Any) -> CreditMode:
    """The mode that a recipe's `rlve` chooses."""
    return modes()[settings.credit]


def rule_of(settings: Any) -> Rule:
    """The rule of the recipe's mode, with the recipe's settings; zeros for a group that does not teach."""
    mode = mode_of(settings)

    def rule(group: Group) -> list[list[float]]:
        if not teaches(group):
            return [[0.0] * len(played.rewards) for played in group]
        compared = kept(group)
        credit = iter(mode.rule([*compress(group, compared)], settings))
        return [next(credit) if one else [0.0] * len(played.rewards) for played, one in zip(group, compared, strict=True)]

    return rule


def kept(group: Group) -> list[bool]:
    """Which rollouts of a group are compared: those that count. Forks name each other by number, so all or none."""
    if any(played.fork for played in group):
        return [all(played.counts for played in group)] * len(group)
    return [played.counts for played in group]


def teaches(group: Group) -> bool:
    """Whether a group has something to compare: the returns of its rollouts that count vary.

    Equal rollouts whose later steps have smaller returns-to-go differ in nothing, whatever the mode compares.
    """
    return returns_vary([played.rewards for played in compress(group, kept(group))])


def assign(rollouts: Sequence[CreditInput], group_size: int, rule: Rule) -> list[list[float]]:
    """Apply `rule` (see `rule_of`) to each group of rollouts. Raises `ValueError` if they do not divide into groups."""
    return [credit for group in in_groups(rollouts, group_size) for credit in rule(group)]


def in_groups(rollouts: Sequence[CreditInput], size: int) -> list[Sequence[CreditInput]]:
    """The groups of `size` rollouts. Raises `ValueError` if the rollouts do not divide into groups."""
    if len(rollouts) % size:
        raise ValueError(f"{len(rollouts)} rollouts do not make groups of {size}")
    return [rollouts[i : i + size] for i in range(0, len(rollouts), size)]
