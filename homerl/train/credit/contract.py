"""What a credit mode says, whole in its own file.

Invariants: a rule is a pure function of its group and the recipe; it gives one advantage a step, and zeros to a group
whose returns do not vary; it knows nothing of tokens; importing a mode is cheap, and never brings torch.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.model import Model


@dataclass(frozen=True, order=True)
class Fork:
    """A rollout that shares the first `step` steps of the group's rollout `parent`."""

    parent: int
    step: int


@dataclass(frozen=True)
class CreditInput:
    """What credit has to know of a rollout."""

    rewards: Sequence[float]
    counts: bool = True
    decisions: Sequence[str] = ()
    fork: Fork | None = None


Group = Sequence[CreditInput]
Rule = Callable[[Group], list[list[float]]]
ForkPlan = Callable[
    [int, random.Random], Sequence[Fork | None]
]  # group size -> where each rollout begins, roots (None) first


class CreditMode(ABC):
    """One value of `rlve.credit`. `settings` is the recipe's `rlve`, in which the mode's own `keys` lie flat beside the
    others: its model is built from these files, so they cannot name its type."""

    name: str
    sentence: str  # what it is, for model cards and docs
    order: int = 100  # of listings: the lower, the earlier
    keys: type[Model] = Model  # a pydantic model of its own keys, each with a default

    @abstractmethod
    def rule(self, group: Group, settings: Any) -> list[list[float]]:
        """The advantage of every step of a group's rollouts, all of which count."""

    def refuse(self, settings: Any) -> Iterable[str]:
        """What a recipe that chooses this mode says and cannot be."""
        return ()

    def forks(self, settings: Any) -> ForkPlan | None:
        """Where a group's rollouts begin, if not all at the start. Forked groups are played whole on one rank."""
        return None

    def metrics(self, groups: Sequence[Group], settings: Any) -> Mapping[str, float]:
        """Figures of an update to log, each named `<mode>/...`."""
        return {}
