"""The contract of a loss, which is defined completely in one file.

Invariants:
- The loss of a token depends on its own rollout and on constants of the update, so no pass decides how it is weighted.
- The KL divergence, the entropy bonus and the importance ratio to another sampler are added to every loss alike
  (`homerl/train/update/objective.py`).
- Importing a loss is cheap, and never imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from homerl.envs.core.model import Model

if TYPE_CHECKING:
    import torch

Keys = TypeVar("Keys", bound=Model)


@dataclass(frozen=True)
class Totals:
    """Constants of an update, by which losses are averaged.

    `rollouts` and `tokens` (sampled ones) are this rank's, `global_tokens` those of all ranks. The gradients of the
    `world_size` ranks are averaged later. `max_episode_tokens` is the recipe's.
    """

    rollouts: int
    tokens: int
    global_tokens: int
    world_size: int
    max_episode_tokens: int


@dataclass(frozen=True)
class Tokens:
    """The sampled tokens of the rollouts of a pass, one rollout after the other; tensors of shape (tokens,).

    `logps` are the log-probabilities of the policy, with gradients; `old_logps` those before the first optimizer step on
    these rollouts. `advantages` are those of the tokens' steps, weighted by the importance ratio to the program that
    sampled (1 where it was the trainer). `rollout` numbers the pass's rollouts from 0.
    """

    logps: torch.Tensor
    old_logps: torch.Tensor
    advantages: torch.Tensor
    rollout: torch.Tensor

    @cached_property
    def ratio(self) -> torch.Tensor:
        """The ratio of each token's probability to that before the first optimizer step."""
        return (self.logps - self.old_logps).exp()

    def mean_of_rollout(self, values: torch.Tensor) -> torch.Tensor:
        """At each token, the mean of `values` over the tokens of its rollout."""
        return rollout_sums(values, self.rollout) / rollout_sums(values.new_ones(len(values)), self.rollout)


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each token, and which tokens are clipped from below and from above; tensors of shape (tokens,)."""

    losses: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor


class Loss(ABC, Generic[Keys]):
    """One value of `rlve.loss`. The recipe's `rlve` has the `keys` of all losses as flat fields."""

    name: str
    sentence: str  # a description for docs
    order: int = 100  # listings are sorted by it, ascending
    keys: type[Model] = Model  # a pydantic model of the loss's own keys, each with a default

    @abstractmethod
    def losses(self, tokens: Tokens, settings: Keys) -> TokenLosses:
        """The loss of each token, whose gradient moves the policy, before any weight."""

    @abstractmethod
    def weight(self, count: int, totals: Totals) -> float:
        """The weight in the update's loss of a token whose rollout has `count` sampled tokens."""

    def refuse(self, settings: Keys) -> Iterable[str]:
        """Yield the reasons why this loss cannot be used with the settings."""
        return ()


def rollout_sums(values: torch.Tensor, rollout: torch.Tensor) -> torch.Tensor:
    """At each token, the sum of `values` over the tokens of its rollout; tensors of shape (tokens,)."""
    return values.new_zeros(len(values)).index_add(0, rollout, values)[rollout]  # no more rollouts than tokens
