"""CodeLength: code stays under a number of tokens (HomeFlow D.2)."""

from typing import Annotated

from pydantic import Field

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward

MaxTokens = Annotated[int, Field(description="Tokens that the code of a step may have before `code_length` is lost.")]


def code_length(facts: StepFacts, max_code_tokens: MaxTokens = 1000) -> float:
    """-1 if the step's code is longer than `max_code_tokens`, else 0."""
    return -float(facts.code_tokens > max_code_tokens)


REWARD = Reward(code_length, weight=0.2, card="lost for code past the limit", order=5)
