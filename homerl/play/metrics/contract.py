"""The contract of a metric of reports: what it counts in an episode, and what a score makes of it.

Invariants: results that are older than a metric are scored without it; a mean of what the player counts is unknown if it is
0, for scripted agents count no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from homerl.play.confidence_intervals import SHARES, mean_interval
from homerl.play.trajectory import Trajectory

Row = Mapping[str, Any]


class CountingWorld(Protocol):
    """What a world counts in an episode (`homerl.worlds.contract.WorldAdapter`)."""

    def false_claims(self, trajectory: Trajectory) -> int | None:
        """The number of false claims of the agent; None where the world does not tell it."""

    def closing_flaws(self, trajectory: Trajectory) -> Sequence[str] | None:
        """What is wrong with the words that end turns, for each step; None where the world does not tell it."""

    def dangerous_acts(self, trajectory: Trajectory) -> int | None:
        """The number of dangerous acts of the agent; None where the world does not tell it."""


@dataclass(frozen=True)
class Mean:
    """The mean of a number over the episodes.

    A file of `homerl/play/metrics/` defines one as `METRIC`. To write another kind of metric, derive from this class and
    override `score_rows`, `format_score` and `flat_figures`, as `Share` does.

    Attributes:
        name: The name in files, which is the name of the metric's file.
        heading: The heading of its column.
        words: A sentence that says what it is.
        say: Writes a value.
        count: The number of an episode, from its trajectory and world, or None where the world does not tell it. Without
            `count`, the player tells the number.
        order: Sorts keys in files and columns; metrics of one order are sorted by name.
        column: Whether the table of a flywheel, which is 80 characters wide, shows it.
        newer: Whether results may lack it, since they may be older than the metric.
        type: The type of an episode's number, which is at least 0 and at most `most`.
        most: The largest number of an episode.

    Example:
        METRIC = Mean(
            "steps", "steps a task", "The mean number of steps of a task.",
            "{:.2f}".format, lambda played, world: len(played.steps), column=True,
        )
    """

    name: str
    heading: str
    words: str
    say: Callable[[float], str]
    count: Callable[[Trajectory, CountingWorld], float | None] | None = None
    order: int = 100
    column: bool = False
    newer: bool = True
    type: type[float] = int
    most: float = 1 << 53

    def score_rows(self, rows: Sequence[Row], seed: int) -> Any:
        """The metric of a run.

        Args:
            rows: The run's results, which all have the number, under the metric's name.
            seed: The seed of whatever is drawn, as of intervals.

        Returns:
            What score.json holds, as JSON.
        """
        return float(np.mean([row[self.name] for row in rows]))

    def format_score(self, score: Row) -> str:
        """The metric of a score in a report.

        Args:
            score: The content of score.json, where the metric may be missing.

        Returns:
            The text; empty if the metric is unknown.
        """
        value = score.get(self.name)
        return "" if value is None or (self.count is None and not value) else self.say(value)

    def flat_figures(self, score: Row) -> dict[str, float]:
        """The metric in a score as flat numbers by key."""
        return {self.name: score[self.name]} if self.name in score else {}


class Rate(Mean):
    """How often something happens, with its interval: the figure `part` of what a score holds, written `scale` times."""

    part: ClassVar[str]
    scale: ClassVar[int] = 1

    def format_score(self, score: Row) -> str:
        """The rate with its interval; empty if it is unknown."""
        if (found := score.get(self.name)) is None:
            return ""
        low, high = (self.scale * end for end in found["interval"])
        return f"{self.say(found[self.part])} ({low:.1f} to {high:.1f})"

    def flat_figures(self, score: Row) -> dict[str, float]:
        """The rate and the sum."""
        return {f"{self.name}/{part}": score[self.name][part] for part in (self.part, "count") if self.name in score}


class Share(Rate):
    """The share of the episodes whose number is above 0, with its interval."""

    part, scale = "share", 100  # its interval is written in percent

    def score_rows(self, rows: Sequence[Row], seed: int) -> Any:
        """The number of episodes, the sum of their numbers, the share of those above 0, and its 95 % interval."""
        above = np.array([row[self.name] > 0 for row in rows], dtype=float)
        interval = mean_interval(above, seed, [row["id"] for row in rows], SHARES)
        total = sum(row[self.name] for row in rows)
        return {"n": len(rows), "count": total, "share": float(above.mean()), "interval": interval}


def format_percent(share: float) -> str:
    """A share in percent with one decimal."""
    return f"{100 * share:.1f} %"
