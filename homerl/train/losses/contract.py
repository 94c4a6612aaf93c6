"""The contract of a loss, which is defined completely in one file, and the losses that there are.

Invariants:
- A loss is discovered by its file (see `homerl.train.losses`).
- The loss of a token depends on its own rollout and on constants of the update, so no pass decides how it is weighted.
- The KL divergence, the entropy bonus and the importance ratio to another sampler are added to every loss alike
  (`homerl/train/update/objective.py`).
- Importing a loss is cheap, and never imports torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import homerl.train.losses
from homerl.envs.core.model import Model
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.envs.core.world import name_example, require_clause
from homerl.train.tensor_shapes import TokenFlags, TokenLogps, TokenRollouts, TokenValues

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
    """The sampled tokens of the rollouts of a pass, one rollout after the other.

    `logps` are the log-probabilities of the policy, with gradients; `old_logps` those before the first optimizer step on
    these rollouts. `advantages` are those of the tokens' steps, weighted by the importance ratio to the program that
    sampled (1 where it was the trainer). `rollout` numbers the pass's rollouts from 0.
    """

    logps: TokenLogps
    old_logps: TokenLogps
    advantages: TokenValues
    rollout: TokenRollouts

    @cached_property
    def ratio(self) -> TokenValues:
        """The ratio of each token's probability to that before the first optimizer step."""
        return (self.logps - self.old_logps).exp()

    def mean_of_rollout(self, values: TokenValues) -> TokenValues:
        """At each token, the mean of `values` over the tokens of its rollout."""
        return rollout_sums(values, self.rollout) / rollout_sums(values.new_ones(len(values)), self.rollout)


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each token, and which tokens are clipped from below (`low`) and from above (`high`)."""

    losses: TokenValues
    low: TokenFlags
    high: TokenFlags


class Loss(ABC, Generic[Keys]):
    """One value of `rlve.loss`, defined as `LOSS` in a file of its own.

    To override: `name` and `sentence`; `losses` and `weight`; and, if the loss needs them, `keys`, `order` and `refuse`. The
    objective (`homerl/train/update/objective.py`) owns the rest: it multiplies each token's loss by its weight, adds up, and
    adds the KL term and the entropy bonus. A loss that only averages otherwise extends `ClippedLoss` (`clipped.py`).

    Example:
        class Plain(Loss[Model]):
            name, sentence = "plain", "Minus the advantage times the log-probability; each token weighs the same."

            def losses(self, tokens: Tokens, settings: Model) -> TokenLosses:
                none = tokens.logps.new_zeros(len(tokens.logps), dtype=bool)  # it clips nothing
                return TokenLosses(-tokens.advantages * tokens.logps, none, none)

            def weight(self, count: int, totals: Totals) -> float:
                return totals.world_size / max(1, totals.global_tokens)

        LOSS = Plain()
    """

    name: str  # the value of `rlve.loss`
    sentence: str  # a description for docs
    order: int = 100  # listings are sorted by it, ascending
    keys: type[Model] = Model  # a pydantic model of the loss's own keys, each with a default; the recipe's `rlve` has them

    @abstractmethod
    def losses(self, tokens: Tokens, settings: Keys) -> TokenLosses:
        """The loss of each token, whose gradient moves the policy, before any weight.

        Args:
            tokens: the sampled tokens of a pass: one rollout or more, each of them whole.
            settings: the recipe's `rlve`, with this loss's `keys`.

        Returns:
            Three tensors of shape (tokens,): losses with gradients, and two of booleans that are only counted for metrics.
        """

    @abstractmethod
    def weight(self, count: int, totals: Totals) -> float:
        """The weight in the update's loss of a token whose rollout has `count` sampled tokens.

        Args:
            count: the number of sampled tokens of the token's own rollout, 0 or more.
            totals: constants of the update. The gradients of all ranks are averaged after the passes, so a mean over the
                tokens of all ranks has the factor `totals.world_size`.

        Returns:
            A factor of the token's loss.
        """

    def refuse(self, settings: Keys) -> Iterable[str]:
        """Yield the reasons why this loss cannot be used with the settings, each a sentence for the recipe's author."""
        return ()


@cache
def list_losses() -> Mapping[str, Loss[Any]]:
    """Every loss by name."""
    return sort_plugins(discover(homerl.train.losses, "LOSS", Loss, ("contract",)))


def rollout_sums(values: TokenValues, rollout: TokenRollouts) -> TokenValues:
    """At each token, the sum of `values` over the tokens of its rollout."""
    return values.new_zeros(len(values)).index_add(0, rollout, values)[rollout]  # no more rollouts than tokens


def check_loss(loss: Loss[Any], settings: Any) -> None:
    """Check what the objective needs of a loss, on rollouts of different lengths.

    Args:
        loss: The loss.
        settings: A recipe's `rlve`, with the loss's keys.

    Raises:
        ContractError: The loss breaks its contract. The message names the clause.
    """
    import torch

    require_clause(isinstance(loss.sentence, str) and loss.sentence.strip(), "`sentence` says nothing", loss.sentence)
    loss.keys()  # each key has a default
    refusals = [*loss.refuse(settings)]
    require_clause(all(isinstance(why, str) for why in refusals), "`refuse` yields something that is no text", refusals)
    counts = [1, 4, 3]
    rollout = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    steps = torch.linspace(-1, 1, len(rollout))
    old, advantages = -1.5 + steps.cos(), steps.sign() * (1 + steps.abs())

    def tokens_of(chosen: Any) -> Tokens:
        logps = (old[chosen] + 0.3 * steps[chosen]).requires_grad_()
        numbers = torch.unique(rollout[chosen], return_inverse=True)[1]
        return Tokens(logps, old[chosen], advantages[chosen], numbers)

    whole = tokens_of(torch.ones_like(rollout, dtype=torch.bool))
    with name_example(loss.losses, "tokens of the rollouts", counts):
        found = loss.losses(whole, settings)
        for name, values in (("losses", found.losses), ("low", found.low), ("high", found.high)):
            shape = f"`{name}` has the shape {tuple(values.shape)} for {len(rollout)} tokens"
            require_clause(values.shape == rollout.shape, shape, counts, "tokens of the rollouts")
        require_clause(bool(found.losses.isfinite().all()), "a loss is no finite number", found.losses.tolist(), "losses")
        require_clause(found.losses.requires_grad, "`losses` have no gradient: they do not follow from `tokens.logps`")
        (gradient,) = torch.autograd.grad(found.losses.sum(), [whole.logps], allow_unused=True)
        moved = gradient is not None and bool(gradient.isfinite().all()) and bool(gradient.any())
        require_clause(moved, "the gradient for `tokens.logps` is zero or no finite number", gradient, "gradient")
        for number in range(len(counts)):
            chosen = rollout == number
            alone = loss.losses(tokens_of(chosen), settings).losses
            same = torch.allclose(alone, found.losses[chosen], atol=1e-6)
            require_clause(
                same, f"a token's loss depends on other rollouts of its pass (rollout {number + 1})", counts, "tokens"
            )
    totals = Totals(rollouts=3, tokens=8, global_tokens=16, world_size=2, max_episode_tokens=64)
    for count in (0, 1, 8):
        with name_example(loss.weight, "tokens of its rollout", count):
            weight = loss.weight(count, totals)
            finite = isinstance(weight, int | float) and math.isfinite(weight) and weight >= 0
            of = f"a token's weight is {weight!r}: no number of at least 0"
            require_clause(finite, of, count, "tokens of its rollout")
