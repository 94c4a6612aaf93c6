"""Countdowns in passes: how many whole seconds a number of passes has counted, and when a countdown ends.

Invariant: at the usual 0.1 s the k-th second falls on pass 10k + 1, because the reference sums 0.1 in doubles.
"""

from __future__ import annotations

import math

SLACK = 1e-9  # of a sum of intervals other than 0.1


def whole_seconds(passes: int, interval: float) -> int:
    """Seconds counted after so many passes since the counter was reset."""
    if interval == 0.1:
        return max(0, (passes - 1) // 10)
    return math.floor(passes * interval + SLACK)


def seconds_counted(passes: int, more: int, interval: float) -> int:
    """Seconds that fall on the next `more` passes."""
    return whole_seconds(passes + more, interval) - whole_seconds(passes, interval)


def reduced_counter(passes: int, interval: float) -> int:
    """The smallest counter that goes on alike."""
    return (passes - 1) % 10 + 1 if interval == 0.1 and passes > 10 else passes


def passes_until(seconds: float, passes: int, interval: float) -> int:
    """Passes until `seconds` have been counted; at least one."""
    due = whole_seconds(passes, interval) + math.ceil(seconds)
    if interval == 0.1:
        return max(1, 10 * due + 1 - passes)
    return max(1, math.ceil(due / interval - SLACK) - passes)
