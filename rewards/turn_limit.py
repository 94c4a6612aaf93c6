"""TurnCheck: the dialogue stays within a number of turns (HomeFlow D.2)."""

from typing import Annotated

from pydantic import Field

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward

MaxTurns = Annotated[int, Field(description="Turns that a dialogue may take before `turn_limit` is lost.")]


def turn_limit(facts: StepFacts, max_turns: MaxTurns = 3) -> float:
    """-1 at the step that opens turn `max_turns` + 1, else 0. It is charged once in a trajectory, where the limit is
    exceeded.
    """
    return -float(facts.opens_turn and facts.turn == max_turns + 1)


REWARD = Reward(turn_limit, weight=0.2, card="lost for a turn past the limit", order=6)
