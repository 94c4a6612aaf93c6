"""The contract of a metric of reports: what it counts in an episode, and what a score makes of it.

Invariants: results that are older than a metric are scored without it; a mean of what the player counts is unknown if it is
0, for scripted agents count no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from homerl.host.confidence_intervals import SHARES, mean_interval
from homerl.play.trajectory import Trajectory

Row = Mapping[str, Any]


class CountingWorld(Protocol):
    """What a world counts in an episode (`homerl.worlds.contract.WorldAdapter`)."""

    def false_claims(self, trajectory: Trajectory) -> int | None:
        """The number of false claims of the agent; None where the world does not tell it."""


@dataclass(frozen=True)
class Mean:
    """The mean of a number over the episodes.

    `name` is its name in files, `words` say what it is, and `say` writes it. `count` is the number of an episode, or None
    where the world does not tell it; without `count` the player tells it. `order` sorts keys in files and columns.
    `column`: whether the table of a flywheel, which is 80 characters wide, shows it. `newer`: whether results may lack it.
    The number of an episode is of `type`, and at least 0 and at most `most`.
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
        """What score.json holds of results that all have the number."""
        return float(np.mean([row[self.name] for row in rows]))

    def format_score(self, score: Row) -> str:
        """The metric in a score, as reports write it; empty if it is unknown."""
        value = score.get(self.name)
        return "" if value is None or (self.count is None and not value) else self.say(value)

    def flat_figures(self, score: Row) -> dict[str, float]:
        """The metric in a score as flat numbers by key."""
        return {self.name: score[self.name]} if self.name in score else {}


class Share(Mean):
    """The share of the episodes whose number is above 0, with its interval."""

    def score_rows(self, rows: Sequence[Row], seed: int) -> Any:
        """The number of episodes, the sum of their numbers, the share of those above 0, and its 95 % interval."""
        above = np.array([row[self.name] > 0 for row in rows], dtype=float)
        interval = mean_interval(above, seed, [row["id"] for row in rows], SHARES)
        total = sum(row[self.name] for row in rows)
        return {"n": len(rows), "count": total, "share": float(above.mean()), "interval": interval}

    def format_score(self, score: Row) -> str:
        """The share with its interval; empty if it is unknown."""
        if (found := score.get(self.name)) is None:
            return ""
        low, high = (100 * share for share in found["interval"])
        return f"{self.say(found['share'])} ({low:.1f} to {high:.1f})"

    def flat_figures(self, score: Row) -> dict[str, float]:
        """The share and the sum."""
        return {f"{self.name}/{part}": score[self.name][part] for part in ("share", "count") if self.name in score}


def format_percent(share: float) -> str:
    """A share in percent with one decimal."""
    return f"{100 * share:.1f} %"
