"""`dr_grpo`: the clipped ratio, summed over tokens and divided by a constant (Dr. GRPO).

The constant is the number of rollouts times `max_episode_tokens`. No length biases the sum, and an update with fewer tokens
has smaller gradients.
"""

from __future__ import annotations

from homerl.train.losses.clipped import ClippedLoss
from homerl.train.losses.contract import Totals


class DrGrpo(ClippedLoss):
    """The loss `dr_grpo`."""

    name, order = "dr_grpo", 2
    sentence = "The clipped ratio; the sum over tokens is divided by the rollouts times `max_episode_tokens`."

    def weight(self, count: int, totals: Totals) -> float:
        """The same in every update."""
        return 1 / (totals.rollouts * totals.max_episode_tokens)


LOSS = DrGrpo()
