"""Losses that bound the ratio of a token's probability to that before the first optimizer step: PPO's clip and its heirs.

With its advantage A and this ratio c, the loss of a token is -min(c A, clip(c, 1 - ε, 1 + ε') A). In the first optimizer
step on rollouts c is 1, and the gradient is that of -A log p. `dapo`, `grpo`, `dr_grpo` and `bnpo` differ in how they
average it. `gspo` clips one ratio for a whole rollout, and `cispo` drops no token.
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


class GspoKeys(Model):
    """The recipe keys of `loss: gspo`."""

    gspo_epsilon: float = Field(
        3e-4, gt=0, description="Of `loss: gspo`: clip range of a rollout's ratio below 1; wider where `clip_ratio` nears 1."
    )
    gspo_epsilon_high: float = Field(4e-4, gt=0, description="Of `loss: gspo`: the same above 1.")


class Gspo(Loss[GspoKeys]):
    """One ratio for a whole rollout, averaged as by `grpo` (GSPO).

    The ratio is the geometric mean of its tokens' changes: s = exp(mean over t of (log p_t - log old p_t)). Clipping keeps
    or drops a rollout as a whole, at ranges that are a thousandth of a token's. Each token has the value of s, and the
    gradient s grad log p_t (the paper's GSPO-token): with one advantage for the rollout the sum is the gradient of s, and
    where steps have credit of their own each token follows that of its step.
    """

    name, order, keys = "gspo", 4, GspoKeys
    sentence = "The clipped ratio of a whole rollout (the geometric mean over its tokens); each rollout weighs the same."

    def losses(self, tokens: Tokens, settings: GspoKeys) -> TokenLosses:
        """Clip the ratio of each rollout's probability."""
        mean = tokens.mean_of_rollout((tokens.logps - tokens.old_logps).detach())
        ratio = (mean + tokens.logps - tokens.logps.detach()).exp()
        return clip_token_losses(ratio, tokens.advantages, settings.gspo_epsilon, settings.gspo_epsilon_high)

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each rollout."""
        return by_rollout(count, totals)


class CispoKeys(Model):
    """The recipe keys of `loss: cispo`."""

    cispo_cap: float = Field(5.0, ge=1, description="Of `loss: cispo`: largest probability ratio; larger ones are cut.")


class Cispo(Loss[CispoKeys]):
    """No token is dropped; its ratio is cut from above and has no gradient (MiniMax-M1's CISPO).

    A token's loss is -min(c, cap) A log p, where c is not differentiated. It is averaged over the tokens of all ranks.
    """

    name, order, keys = "cispo", 5, CispoKeys
    sentence = "The log-probability, weighted by a ratio that is cut; each token of the update weighs the same."

    def losses(self, tokens: Tokens, settings: CispoKeys) -> TokenLosses:
        """Weight each token's log-probability."""
        ratio = tokens.ratio.detach()
        losses = -ratio.clamp(max=settings.cispo_cap) * tokens.advantages * tokens.logps
        high = (ratio > settings.cispo_cap) & (tokens.advantages > 0)
        return TokenLosses(losses, high.new_zeros(high.shape), high)

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each token of all ranks."""
        return by_token(totals)


LOSS = (Dapo(), Grpo(), DrGrpo(), Bnpo(), Gspo(), Cispo())
