"""The metrics by name, and what files hold of them.

Invariant: a metric is discovered by its file (see `homerl.play.metrics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import homerl.play.metrics
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.play.metrics.contract import CountingWorld, Mean, Row
from homerl.play.trajectory import Trajectory

METRICS: dict[str, Mean] = sort_plugins(discover(homerl.play.metrics, "METRIC", Mean, ("contract", "registry")))


def count_metrics(kind: type[Mean], played: Trajectory, world: CountingWorld, told: Row) -> dict[str, float]:
    """The numbers of an episode for the metrics of one kind; `told` are those that the player counted."""
    numbers = {
        key: told.get(key) if metric.count is None else metric.count(played, world)
        for key, metric in METRICS.items()
        if type(metric) is kind
    }
    return {key: number for key, number in numbers.items() if number is not None}


def score_metrics(kind: type[Mean], rows: Sequence[Row], seed: int) -> dict[str, Any]:
    """What score.json holds of the metrics of one kind, each of the results that have its number."""
    having = {key: [row for row in rows if key in row] for key, metric in METRICS.items() if type(metric) is kind}
    return {key: METRICS[key].score_rows(found, seed) for key, found in having.items() if found}
