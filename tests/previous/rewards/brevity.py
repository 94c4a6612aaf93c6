"""Brevity: a step makes few calls."""

from typing import Annotated

from pydantic import Field

from envs.world import StepFacts
from rewards.reward import Reward

MaxCalls = Annotated[int, Field(description="Number of calls that a step may make before `brevity` is lost.")]


def brevity(facts: StepFacts, max_calls: MaxCalls = 5) -> float:
    """-1 if the step makes more than `max_calls` calls, else 0."""
    return -float(len(facts.calls) > max_calls)


REWARD = Reward(brevity, weight=0.0, card="lost for a step of too many calls")
