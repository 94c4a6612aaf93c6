"""`bnpo`: the clipped ratio, averaged over the sampled tokens of each rank, and then over ranks (as TRL names it).

It differs from `dapo` only where ranks have unequal numbers of tokens.
"""

from __future__ import annotations

from homerl.train.losses.clipped import ClippedLoss
from homerl.train.losses.contract import Totals


class Bnpo(ClippedLoss):
    """The loss `bnpo`."""

    name, order = "bnpo", 3
    sentence = "The clipped ratio; each token of a rank weighs the same, and each rank."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each token of this rank."""
        return 1 / max(1, totals.tokens)


LOSS = Bnpo()
