"""`cispo`: no token is dropped; its ratio is cut from above and has no gradient (MiniMax-M1's CISPO).

A token's loss is -min(c, cap) A log p, where c is not differentiated. It is averaged over the tokens of all ranks.
"""

from __future__ import annotations

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.losses.clipped import by_token
from homerl.train.losses.contract import Loss, TokenLosses, Tokens, Totals


class CispoKeys(Model):
    """The recipe keys of `loss: cispo`."""

    cispo_cap: float = Field(5.0, ge=1, description="Of `loss: cispo`: largest probability ratio; larger ones are cut.")


class Cispo(Loss[CispoKeys]):
    """The loss `cispo`."""

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


LOSS = Cispo()
