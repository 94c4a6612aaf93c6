"""`gspo`: one ratio for a whole rollout, averaged as by `grpo` (GSPO).

The ratio is the geometric mean of its tokens' changes: s = exp(mean over t of (log p_t - log old p_t)). Clipping keeps or
drops a rollout as a whole, at ranges that are a thousandth of a token's. Each token has the value of s, and the gradient
s grad log p_t (the paper's GSPO-token): with one advantage for the rollout the sum is the gradient of s, and where steps
have credit of their own each token follows that of its step.
"""

from __future__ import annotations

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.losses.clipped import by_rollout, clip_token_losses
from homerl.train.losses.contract import Loss, TokenLosses, Tokens, Totals


class GspoKeys(Model):
    """The recipe keys of `loss: gspo`."""

    gspo_epsilon: float = Field(
        3e-4, gt=0, description="Of `loss: gspo`: clip range of a rollout's ratio below 1; wider where `clip_ratio` nears 1."
    )
    gspo_epsilon_high: float = Field(4e-4, gt=0, description="Of `loss: gspo`: the same above 1.")


class Gspo(Loss[GspoKeys]):
    """The loss `gspo`."""

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


LOSS = Gspo()
