"""Means of several seeds with their intervals, and tables, for the studies of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import ttest_1samp

from homerl.play.confidence_intervals import student_interval


def chance(values: np.ndarray) -> float:
    """The two-sided p-value of Student's t that the mean is 0; 1 if the values do not vary."""
    if len(values) < 2 or np.allclose(values, values[0]):
        return 1.0
    return float(ttest_1samp(values, 0.0).pvalue)


def interval(values: np.ndarray, chance: float = 1.0, digits: int = 2) -> str:
    """The mean and its 95 % interval by Student's t; a star if `chance` is below 0.05."""
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:+.{digits}f}"
    low, high = (f"{edge:+.{digits}f}" for edge in student_interval(values))
    return f"{mean:+.{digits}f} ({low} to {high}){'*' if chance < 0.05 else ''}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def holm(chances: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction: p-values of a family of tests, adjusted to its error rate, in their order."""
    n, adjusted, least = len(chances), [0.0] * len(chances), 0.0
    for rank, i in enumerate(sorted(range(n), key=chances.__getitem__)):
        least = max(least, min(1.0, (n - rank) * chances[i]))
        adjusted[i] = least
    return adjusted
