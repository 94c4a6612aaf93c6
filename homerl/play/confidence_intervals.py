"""Confidence intervals of means and shares, and agreement beyond chance.

Invariant: resampling is seeded, so the same values give the same digits.

scipy.stats and scikit-learn compute the same to 1e-12 (`tests/homerl/bench/test_intervals.py`), but other last digits, which
stored scores hold to the last; importing scipy.stats takes seconds, and scikit-learn's kappa of unanimous raters is nan.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np

RESAMPLES = 10_000  # of the bootstrap; stored scores hold its digits, so it stays


SHARES, GAINS = (0.0, 1.0), (-1.0, 1.0)  # the least and the greatest value of a success, and of a difference of two


def mean_interval(
    values: np.ndarray, seed: int = 0, groups: Sequence[Hashable] = (), ends: tuple[float, float] | None = None
) -> tuple[float, float]:
    """(low, high): the 95 % percentile-bootstrap interval of the mean of `values`, a vector of n numbers.

    It draws `RESAMPLES` samples of n values; memory grows with their product. Values of one of the `groups`, such as several
    runs of a task, are drawn together, since they vary less than those of different ones. Equal values show no spread, so
    resampling would give an interval without width; `ends`, between which values lie, then give one.
    """
    if ends is not None and np.ptp(values) < 1e-12 * (ends[1] - ends[0]):  # they differ by rounding, if at all
        # At most Wilson's share of other values is unseen, and these may lie at either end. For shares, this is Wilson's
        # interval.
        value = float(values[0])
        unseen = share_interval(np.zeros(len(set(groups)) or len(values)))[1]
        return value - unseen * (value - ends[0]), value + unseen * (ends[1] - value)
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    if len(places) in (0, len(values)):
        sums, counts = values, None
    else:
        members = [places[group] for group in groups]
        sums, counts = np.bincount(members, values), np.bincount(members)
    draws = np.random.default_rng(seed).integers(0, len(sums), (RESAMPLES, len(sums)))
    means = sums[draws].mean(axis=1) if counts is None else sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """(low, high): Student's 95 % interval of the mean of n > 1 values, such as the gains of n seeds.

    The bootstrap's would be too narrow for so few.
    """
    from scipy.special import stdtrit

    half = stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def share_interval(successes: np.ndarray) -> tuple[float, float]:
    """(low, high): Wilson's 95 % interval of a share (Wilson, 1927); `successes` is a vector of n zeros and ones.

    Unlike the bootstrap, it is useful for few values, and if all of them are equal.
    """
    n, share, z = len(successes), float(successes.mean()), NormalDist().inv_cdf(0.975)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def difference_interval(one: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float]:
    """(low, high): the 95 % interval of a mean less an independent one, each given as (mean, low, high) (Newcombe, 1998).

    Where both means have an interval with a width, it has one too.
    """
    (a, a_low, a_high), (b, b_low, b_high) = one, other
    return a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Cohen's kappa (1960) of n pairs of verdicts: the agreement beyond chance, at most 1.

    It is 1 if chance alone would give full agreement, that is, if both always give the same verdict.
    """
    ours, theirs = (float(np.mean([pair[i] for pair in pairs])) for i in (0, 1))
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    seen = float(np.mean([a == b for a, b in pairs]))
    return 1.0 if chance == 1.0 else (seen - chance) / (1 - chance)
