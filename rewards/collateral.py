"""Collateral: the step changed a device that no intent concerns. Our addition, off in the paper's recipes.

SMH-Bench asks that irrelevant state be preserved; without it "switch everything on" farms progress.
A weight above 0 also gates progress and success on stray devices: see `switches` in their files.
"""

from envs.world import StepFacts
from rewards.reward import Reward


def collateral(facts: StepFacts) -> float:
    """-1 if more stray devices differ from the start after the step than before it, else 0."""
    return -float(facts.strayed_after > facts.strayed_before)


REWARD = Reward(collateral, weight=0.0, card="lost for changing a device that the task does not concern", order=7)
