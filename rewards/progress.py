"""Progress: the gain in the share of Φ that holds (HomeFlow eq. 6, first term)."""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def progress(facts: StepFacts, preserve: bool = False) -> float:
    """m_t - m_{t-1}, in [-1, 1]. With `preserve`, m counts as 0 while any side effect exists.

    Both forms telescope, so toggling a device earns nothing. `preserve` takes back what was earned by changing
    everything, and returns it if the agent restores what it should not have changed.
    """
    after = facts.progress_after if not (preserve and facts.side_effects_after) else 0.0
    before = facts.progress_before if not (preserve and facts.side_effects_before) else 0.0
    return after - before


REWARD = Reward(
    progress,
    weight=1.0,
    card="earned for the gain in the share of the task's conditions that hold",
    switches={"preserve": "collateral"},
    order=1,
)
