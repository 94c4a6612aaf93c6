"""Success: all of Φ holds at the end of the episode (HomeFlow eq. 6, second term), and the agent has said its last word."""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def success(facts: StepFacts, preserve: bool = False) -> float:
    """1 at the last step if it closes a turn and m_T = 1 (and, with `preserve`, there are no side effects), else 0."""
    return float(facts.last and facts.closes and facts.progress_after == 1.0 and not (preserve and facts.side_effects_after))


REWARD = Reward(
    success, weight=1.0, card="earned for ending with all of them true", switches={"preserve": "collateral"}, order=2
)
