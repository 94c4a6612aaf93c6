"""The clipped ratio of PPO, and four losses that differ in how they average it: `dapo`, `grpo`, `dr_grpo` and `bnpo`.

A token's loss is -min(c A, clip(c, 1 - ε, 1 + ε') A), with its advantage A and the ratio c of its probability to that
before the first optimizer step. In the first optimizer step on rollouts c is 1, and the gradient is that of -A log p.
"""

from __future__ import annotations

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.losses.contract import Loss, TokenLosses, Tokens, Totals
from homerl.train.tensor_shapes import TokenValues


class ClipKeys(Model):
    """The recipe keys of losses that clip each token's ratio."""

    epsilon: float = Field(0.2, gt=0, description="Clip range of the ratio below 1 (without `epsilon_high` also above).")
    epsilon_high: float | None = Field(None, gt=0, description="Clip range of the ratio above 1; null is `epsilon`.")


def clip_token_losses(ratio: TokenValues, advantages: TokenValues, below: float, above: float) -> TokenLosses:
    """The clipped loss of each token; `below` and `above` are ε and ε'."""
    losses = -(ratio * advantages).minimum(ratio.clamp(1 - below, 1 + above) * advantages)
    ratio = ratio.detach()
    return TokenLosses(losses, (ratio < 1 - below) & (advantages < 0), (ratio > 1 + above) & (advantages > 0))


def by_rollout(count: int, totals: Totals) -> float:
    """The weight of a token in the mean over rollouts of the mean over each rollout's tokens."""
    return 1 / (totals.rollouts * max(1, count))


def by_token(totals: Totals) -> float:
    """The weight of a token in the mean over the tokens of all ranks."""
    return totals.world_size / max(1, totals.global_tokens)


class ClippedLoss(Loss[ClipKeys]):
    """The base of losses that differ in how they average."""

    keys = ClipKeys

    def losses(self, tokens: Tokens, settings: ClipKeys) -> TokenLosses:
        """Clip the ratio of each token's probability."""
        high = settings.epsilon if settings.epsilon_high is None else settings.epsilon_high
        return clip_token_losses(tokens.ratio, tokens.advantages, settings.epsilon, high)


class Dapo(ClippedLoss):
    """The average over the sampled tokens of all ranks (DAPO): a long rollout weighs more."""

    name, order = "dapo", 0
    sentence = "The clipped ratio; each token of the update weighs the same."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each token of all ranks."""
        return by_token(totals)


class Grpo(ClippedLoss):
    """The average over the tokens of a rollout, and then over rollouts (DeepSeekMath): a token of a long one weighs less."""

    name, order = "grpo", 1
    sentence = "The clipped ratio; each rollout weighs the same, whatever its length."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each rollout."""
        return by_rollout(count, totals)


class DrGrpo(ClippedLoss):
    """The sum over tokens, divided by the rollouts times `max_episode_tokens` (Dr. GRPO).

    No length biases the sum, and an update with fewer tokens has smaller gradients.
    """

    name, order = "dr_grpo", 2
    sentence = "The clipped ratio; the sum over tokens is divided by the rollouts times `max_episode_tokens`."

    def weight(self, count: int, totals: Totals) -> float:
        """The same in every update."""
        return 1 / (totals.rollouts * totals.max_episode_tokens)


class Bnpo(ClippedLoss):
    """The average over the sampled tokens of each rank, and then over ranks (as TRL names it).

    It differs from `dapo` only where ranks have unequal numbers of tokens.
    """

    name, order = "bnpo", 3
    sentence = "The clipped ratio; each token of a rank weighs the same, and each rank."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each token of this rank."""
        return 1 / max(1, totals.tokens)


LOSS = (Dapo(), Grpo(), DrGrpo(), Bnpo())
