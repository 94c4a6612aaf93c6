"""The contract of a credit mode, which is defined completely in one file.

Invariants: a rule is a pure function of a group and the recipe; it gives one advantage for each step; it is asked only
about groups whose returns vary (`registry.assign`); of tokens it knows numbers alone; importing a mode is cheap, and never
imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from homerl.envs.core.model import Model

Keys = TypeVar("Keys", bound=Model)


@dataclass(frozen=True)
class CreditInput:
    """What a credit mode needs to know of a rollout.

    `rewards` and `states` (hashes of the states that the agent decided from) have one entry for each step. `counts`
    is false if a fault that is not the agent's ended the rollout.
    """

    rewards: Sequence[float]
    counts: bool = True
    states: Sequence[str] = ()


Group = Sequence[CreditInput]
Rule = Callable[[Group], list[list[float]]]


class CreditMode(ABC, Generic[Keys]):
    """One value of `rlve.credit`. The recipe's `rlve` has the `keys` of all modes as flat fields."""

    name: str
    sentence: str  # a description for model cards and docs
    order: int = 100  # listings are sorted by it, ascending
    keys: type[Model] = Model  # a pydantic model of the mode's own keys, each with a default

    @abstractmethod
    def rule(self, group: Group, settings: Keys) -> list[list[float]]:
        """The advantage of every step, by rollout, for a group in which all rollouts count."""

    def refuse(self, settings: Keys, group: int) -> Iterable[str]:
        """Yield the reasons why this mode cannot be used with the settings, and with groups of so many rollouts."""
        return ()

    def metrics(self, groups: Sequence[Group], settings: Keys) -> Mapping[str, float]:
        """Metrics of an update to log, each named `<mode>/...`."""
        return {}
