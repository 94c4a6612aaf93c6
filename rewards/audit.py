"""Audit: the firewall blocked something (HomeFlow eq. 6, third term)."""

from envs.world import StepFacts


def audit(facts: StepFacts) -> float:
    """-1 for a step with a refused call, once a step however many were refused, else 0."""
    return -float(bool(facts.blocked))
