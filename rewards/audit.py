"""Audit: the firewall blocked something (HomeFlow eq. 6, third term)."""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def audit(facts: StepFacts) -> float:
    """-1 for a step with one or more refused calls, else 0."""
    return -float(bool(facts.blocked))


REWARD = Reward(audit, weight=0.2, card="lost for a step with a call that the home refused", order=3)
