"""The metrics of reports, beside success: what each counts in an episode, and what a score makes of it.

A new metric is one entry of `METRICS`. Then it is in results.jsonl and score.json, in the reports of benchmarks, in model
cards, at Weights & Biases and in the glossary; with `column` in the reports of flywheels too.

Invariants: the order of the entries is that of keys in files and of columns; results that are older than a metric are scored
without it; a mean of what the player counts is unknown if it is 0, for scripted agents count no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from homerl.measure.intervals import SHARES, mean_interval
from homerl.play.trajectory import Trajectory

Row = Mapping[str, Any]


class Counting(Protocol):
    """What a world counts in an episode (`homerl.worlds.contract.WorldAdapter`)."""

    def false_claims(self, trajectory: Trajectory) -> int | None:
        """The number of false claims of the agent; None where the world does not tell it."""


@dataclass(frozen=True)
class Mean:
    """The mean of a number over the episodes.

    `key` is its name in files, `name` its heading, `words` say what it is, and `say` writes it. `count` is the number of an
    episode, or None where the world does not tell it; without `count` the player tells it. `column`: whether the table of a
    flywheel, which is 80 characters wide, shows it. `newer`: whether results may lack it. The
    number of an episode is of `type`, and at least 0 and at most `most`.
    """

    key: str
    name: str
    words: str
    say: Callable[[float], str]
    count: Callable[[Trajectory, Counting], float | None] | None = None
    column: bool = False
    newer: bool = True
    type: type[float] = int
    most: float = 1 << 53

    def of(self, rows: Sequence[Row], seed: int) -> Any:
        """What score.json holds of results that all have the number."""
        return float(np.mean([row[self.key] for row in rows]))

    def said(self, score: Row) -> str:
        """The metric in a score, as reports write it; empty if it is unknown."""
        value = score.get(self.key)
        return "" if value is None or (self.count is None and not value) else self.say(value)

    def figures(self, score: Row) -> dict[str, float]:
        """The metric in a score as flat numbers by key."""
        return {self.key: score[self.key]} if self.key in score else {}


class Share(Mean):
    """The share of the episodes whose number is above 0, with its interval."""

    def of(self, rows: Sequence[Row], seed: int) -> Any:
        """The number of episodes, the sum of their numbers, the share of those above 0, and its 95 % interval."""
        above = np.array([row[self.key] > 0 for row in rows], dtype=float)
        interval = mean_interval(above, seed, [row["id"] for row in rows], SHARES)
        total = sum(row[self.key] for row in rows)
        return {"n": len(rows), "count": total, "share": float(above.mean()), "interval": interval}

    def said(self, score: Row) -> str:
        """The share with its interval; empty if it is unknown."""
        if (found := score.get(self.key)) is None:
            return ""
        low, high = (100 * share for share in found["interval"])
        return f"{self.say(found['share'])} ({low:.1f} to {high:.1f})"

    def figures(self, score: Row) -> dict[str, float]:
        """The share and the sum."""
        return {f"{self.key}/{name}": score[self.key][name] for name in ("share", "count") if self.key in score}


def percent(share: float) -> str:
    """A share in percent with one decimal."""
    return f"{100 * share:.1f} %"


METRICS: dict[str, Mean] = {
    metric.key: metric
    for metric in (
        Mean(
            "phi", "Φ alone", "The share of tasks whose goals are all met, even if something else was changed too.",
            percent, lambda played, world: played.progress == 1.0, column=True, newer=False, type=bool,
        ),
        Mean(
            "progress", "progress", "The mean share of a task's goals that hold at the end.",
            percent, lambda played, world: played.progress, newer=False, type=float, most=1,
        ),
        Mean(
            "tool_calls", "tool calls", "The mean number of tool calls of a task.",
            "{:.2f}".format, lambda played, world: played.tool_calls, column=True, newer=False,
        ),
        Mean(
            "tokens", "tokens", "The mean number of tokens that the agent writes in a task.",
            "{:,.1f}".format, column=True, newer=False,
        ),
        Mean("prompt_tokens", "tokens read", "The mean number of tokens that the agent reads in a task.", "{:,.1f}".format),
        Share(
            "false_claims", "false claims", "The share of tasks in which the agent makes a false claim.",
            percent, lambda played, world: world.false_claims(played),
        ),
    )
}  # fmt: skip


def counted(kind: type[Mean], played: Trajectory, world: Counting, told: Row) -> dict[str, float]:
    """The numbers of an episode for the metrics of one kind; `told` are those that the player counted."""
    numbers = {
        key: told.get(key) if metric.count is None else metric.count(played, world)
        for key, metric in METRICS.items()
        if type(metric) is kind
    }
    return {key: number for key, number in numbers.items() if number is not None}


def scored(kind: type[Mean], rows: Sequence[Row], seed: int) -> dict[str, Any]:
    """What score.json holds of the metrics of one kind, each of the results that have its number."""
    having = {key: [row for row in rows if key in row] for key, metric in METRICS.items() if type(metric) is kind}
    return {key: METRICS[key].of(found, seed) for key, found in having.items() if found}
