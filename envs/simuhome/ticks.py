"""Countdowns: how many whole seconds a number of passes counts, and when a countdown ends.

Invariant: with passes of 0.1 s, second k is counted at pass 10k + 1. The released program adds 0.1 as doubles, and ten
such additions fall just short of 1.
"""

from __future__ import annotations

import math

SLACK = 1e-9  # rounding error that is allowed in a product of passes and interval


def whole_seconds(passes: int, interval: float) -> int:
    """The number of seconds that have been counted `passes` passes after the counter was reset."""
    if interval == 0.1:
        return max(0, (passes - 1) // 10)
    return math.floor(passes * interval + SLACK)


def seconds_counted(passes: int, more: int, interval: float) -> int:
    """The number of seconds that the next `more` passes will count, `passes` passes after the reset."""
    return whole_seconds(passes + more, interval) - whole_seconds(passes, interval)


def reduced_counter(passes: int, interval: float) -> int:
    """The smallest number of passes that behaves like `passes` from now on. So equal futures have equal state keys."""
    return (passes - 1) % 10 + 1 if interval == 0.1 and passes > 10 else passes


def passes_until(seconds: float, passes: int, interval: float) -> int:
    """The number of further passes until `seconds` more seconds have been counted; at least 1."""
    due = whole_seconds(passes, interval) + math.ceil(seconds)
    if interval == 0.1:
        return max(1, 10 * due + 1 - passes)
    return max(1, math.ceil(due / interval - SLACK) - passes)
