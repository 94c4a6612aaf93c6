"""What an agent took before another one was asked, and how long both needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median


@dataclass
class FirstAgentTally:
    """How many sentences the first agent was asked, of which tasks it took one, and the seconds of both for each message."""

    asked: int = 0
    took: list[str] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    def describe_tally(self, name: str, success: Mapping[str, bool]) -> str:
        """The tally in words, with how the tasks ended of which the first agent, called `name`, took a sentence."""
        tasks = set(self.took) & success.keys()
        first, other = (f"{1000 * median(times or [0]):.1f} ms" for times in (self.first, self.other))
        failed = sum(not success[task] for task in tasks)
        return (
            f"{name} took {len(self.took)} of {self.asked} sentences; {failed} of {len(tasks)} tasks with one failed. "
            f"It looked at a sentence for {first}, and the model needed {other} for a message (medians)."
        )
