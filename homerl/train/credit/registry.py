"""The available credit modes, and the one that a recipe chooses.

Invariants: a mode is discovered by its file (see `homerl.train.credit`); a rollout that does not count (a fault of the
user or a server) gets zeros, and the others of its group are compared without it; a group of zero variance gets zeros from
every mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import homerl.train.credit
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.train.credit.advantages import TOLERANCE
from homerl.train.credit.contract import CreditInput, CreditMode, Group, Rule

NOT_MODES = ("advantages", "contract", "registry")


class CreditSettings(Protocol):
    """A recipe's `rlve`, as far as it is read here. It has the `keys` of all modes as flat fields besides."""

    credit: str


@cache
def list_credit_modes() -> Mapping[str, CreditMode[Any]]:
    """Every credit mode by name."""
    return sort_plugins(discover(homerl.train.credit, "MODE", CreditMode, NOT_MODES))


def chosen_credit_mode(settings: CreditSettings) -> CreditMode[Any]:
    """The mode that a recipe's `rlve` chooses."""
    return list_credit_modes()[settings.credit]


def make_advantage_rule(settings: CreditSettings) -> Rule:
    """The rule of the recipe's mode, with the recipe's settings; zeros for a group of zero variance."""
    mode = chosen_credit_mode(settings)

    def rule(group: Group) -> list[list[float]]:
        if not has_return_variance(group):
            return [[0.0] * len(played.rewards) for played in group]
        credit = iter(mode.rule([played for played in group if played.counts], settings))
        return [next(credit) if played.counts else [0.0] * len(played.rewards) for played in group]

    return rule


def has_return_variance(group: Group) -> bool:
    """Whether the returns of a group's rollouts that count vary, so that there is something to compare.

    Equal rollouts whose later steps have smaller returns-to-go differ in nothing, whatever the mode compares.
    """
    returns = [sum(played.rewards) for played in group if played.counts]
    return any(abs(value - returns[0]) > TOLERANCE for value in returns)


def assign_advantages(rollouts: Sequence[CreditInput], group_size: int, rule: Rule) -> list[list[float]]:
    """Apply `rule` to each group of rollouts. Raises `ValueError` if they do not divide into groups."""
    return [credit for group in split_into_groups(rollouts, group_size) for credit in rule(group)]


def split_into_groups(rollouts: Sequence[CreditInput], size: int) -> list[Sequence[CreditInput]]:
    """The groups of `size` rollouts. Raises `ValueError` if the rollouts do not divide into groups."""
    if len(rollouts) % size:
        raise ValueError(f"{len(rollouts)} rollouts do not make groups of {size}")
    return [rollouts[i : i + size] for i in range(0, len(rollouts), size)]
