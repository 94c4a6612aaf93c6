"""`dapo`: the clipped ratio, averaged over the sampled tokens of all ranks (DAPO).

Every token weighs the same, so a long rollout weighs more.
"""

from __future__ import annotations

from homerl.train.losses.clipped import ClippedLoss, by_token
from homerl.train.losses.contract import Totals


class Dapo(ClippedLoss):
    """The loss `dapo`."""

    name, order = "dapo", 0
    sentence = "The clipped ratio; each token of the update weighs the same."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each token of all ranks."""
        return by_token(totals)


LOSS = Dapo()
