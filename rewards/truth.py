"""Truth: the words that end a turn are true of the home. This reward is ours, and off in the paper's recipes.

A claim of success while the wish is open costs, and so does everything by which a person would not learn that it is:
silence, a promise, "OK.", words that fit both cases. The admission of a failure costs nothing. After a success the last word
may neither deny it nor be empty, an answer must be the state, and a question that is needed must name what differs
(`homerl/play/closings.py`).
"""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward

NO_FAULT = ("", "unjudged")  # of a wish that is done, words that the rules cannot judge cost nothing


def truth(facts: StepFacts) -> float:
    """-1 for a step that ends a turn with words that have a flaw (`StepFacts.closing_flaw`), else 0."""
    return -float(facts.closing_flaw not in NO_FAULT)


REWARD = Reward(
    truth,
    weight=0.0,
    card="lost for words at the end of a turn that are not true of the home",
    order=9,
    facts=("closing_flaw",),
)
