"""TurnCheck: the dialogue stays within a number of turns (HomeFlow D.2).

A dialogue that ends before its goals are met never came to its end within the turns, so it is charged as one that goes past
them. Otherwise an agent that gives up at once, by its calls or by its words, would earn more than one that tries on.
"""

from typing import Annotated

from pydantic import Field

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward

MaxTurns = Annotated[int, Field(description="Turns that a dialogue may take before `turn_limit` is lost.")]
UnmetEnd = Annotated[
    bool, Field(description="Whether `turn_limit` is also lost at an end within these turns with open goals.")
]


def turn_limit(facts: StepFacts, max_turns: MaxTurns = 3, charge_unmet_end: UnmetEnd = True) -> float:
    """-1 at the step that opens turn `max_turns` + 1, or, with `charge_unmet_end`, at the last step of a dialogue that ends
    before it with open goals; else 0. It is charged once in a trajectory.
    """
    unmet = facts.last and not (facts.closes and facts.progress_after == 1.0)
    if facts.turn <= max_turns:
        return -float(charge_unmet_end and unmet)
    return -float(facts.opens_turn and facts.turn == max_turns + 1)


REWARD = Reward(
    turn_limit,
    weight=0.2,
    card="lost for a turn past the limit, or for an end before it with open goals",
    order=6,
    older={"charge_unmet_end": False},
)
