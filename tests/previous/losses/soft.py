"""`soft`: a sigmoid in place of the clip (SAPO), so that no token is dropped from one moment to the next."""

from pydantic import Field

from envs.model import Model
from homerl.train.losses.clipped import by_rollout
from homerl.train.losses.contract import Loss, TokenLosses


class SoftKeys(Model):
    steepness: float = Field(
        1.0, gt=0, description="Of `loss: soft`: how fast a token's weight falls as its ratio leaves 1."
    )


class Soft(Loss[SoftKeys]):
    name, keys = "soft", SoftKeys
    sentence = "The ratio through a sigmoid; each rollout weighs the same."

    def losses(self, tokens, settings):
        gate = (settings.steepness * (tokens.ratio - 1)).sigmoid() * 4 / settings.steepness
        none = gate.new_zeros(gate.shape)
        return TokenLosses(-gate * tokens.advantages, low=none, high=none)

    def weight(self, count, totals):
        return by_rollout(count, totals)


LOSS = Soft()
