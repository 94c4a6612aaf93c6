"""Collateral: the step changed a device that no intent concerns. Our addition, off in the paper's recipes.

SMH-Bench asks that irrelevant state be preserved; without it "switch everything on" farms progress.
"""

from envs.world import StepFacts


def collateral(facts: StepFacts) -> float:
    """-1 if more stray devices differ from the start after the step than before it, else 0."""
    return -float(facts.strayed_after > facts.strayed_before)
