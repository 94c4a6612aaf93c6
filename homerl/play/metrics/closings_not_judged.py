"""`closings_not_judged`: whether the agent ends a turn with words in which the rules find neither claim nor admission."""

from homerl.play.closings import NOT_JUDGED
from homerl.play.metrics.contract import CountingWorld, Share, format_percent
from homerl.play.trajectory import Trajectory


def count_closings_not_judged(played: Trajectory, world: CountingWorld) -> int | None:
    """The number of turns that end so; None where the world does not tell false claims."""
    if world.false_claims(played) is None or (flaws := world.closing_flaws(played)) is None:
        return None
    return sum(flaw in NOT_JUDGED for flaw in flaws)


METRIC = Share(
    "closings_not_judged", "closings not judged",
    "The share of tasks in which the agent ends a turn with words that the rules do not judge: they find no claim of "
    "success, no admission, no question and no answer.",
    format_percent, count_closings_not_judged, order=7,
)  # fmt: skip
