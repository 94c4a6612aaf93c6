"""Collateral: the step changed a device that no intent concerns. This reward is ours, and off in the paper's recipes.

SMH-Bench asks that irrelevant state be preserved. Without this reward, switching everything on would earn progress. A
weight above 0 also makes progress and success depend on side effects: see `switches` in their files.
"""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def collateral(facts: StepFacts) -> float:
    """-1 if more devices have side effects after the step than before it, else 0."""
    return -float(facts.side_effects_after > facts.side_effects_before)


REWARD = Reward(collateral, weight=0.0, card="lost for changing a device that the task does not concern", order=7)
