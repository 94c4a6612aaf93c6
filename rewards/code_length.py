"""CodeLength: code stays under a number of tokens (HomeFlow D.2)."""

from envs.world import StepFacts


def code_length(facts: StepFacts, limit: int = 1000) -> float:
    """-1 if the step's code is longer than `limit` tokens, else 0."""
    return -float(facts.code_tokens > limit)
