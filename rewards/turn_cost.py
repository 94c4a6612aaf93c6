"""Turn cost: every further turn of the user costs a little. This reward is ours, and off in the paper's recipes.

Nobody wants to say a thing twice. A policy that waits does not save the cost, since the user goes on to ask.
"""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def turn_cost(facts: StepFacts) -> float:
    """-1 at a step that opens a turn after the first, else 0."""
    return -float(facts.opens_turn and facts.turn > 1)


REWARD = Reward(turn_cost, weight=0.0, card="lost for every turn of the user after the first", order=8)
