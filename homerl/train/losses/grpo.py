"""`grpo`: the clipped ratio, averaged over the tokens of a rollout and then over rollouts (DeepSeekMath).

Every rollout weighs the same, so a token of a long one weighs less.
"""

from __future__ import annotations

from homerl.train.losses.clipped import ClippedLoss, by_rollout
from homerl.train.losses.contract import Totals


class Grpo(ClippedLoss):
    """The loss `grpo`."""

    name, order = "grpo", 1
    sentence = "The clipped ratio; each rollout weighs the same, whatever its length."

    def weight(self, count: int, totals: Totals) -> float:
        """The same for each rollout."""
        return by_rollout(count, totals)


LOSS = Grpo()
