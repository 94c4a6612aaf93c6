"""Countdowns: how many whole seconds a number of passes counts.

A counter says how much of a second has been counted, and is 0 after a reset. An integer counts passes of 0.1 s, and
begins anew with each second; from the second one on it is a `Later`. A float is the fraction of a second itself, for
passes of any other length.

Invariants:
- With passes of 0.1 s, second k is counted at pass 10k + 1. The released program adds 0.1 as doubles, and ten such additions
  fall just short of 1.
- With passes of any other length, the fraction is summed pass by pass, as the released program sums it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

TENTH = 0.1


class LaterCounter(int):
    """A counter of a second that is not the first since the reset.

    What was taken off as a whole second leaves another fraction. It has the text of its integer, since state keys are made
    of texts, and stored trajectories have these.
    """


class PassCount(NamedTuple):
    """What some passes counted: the number of passes that were used, the seconds, and the counter after them."""

    passes: int
    seconds: int
    counter: float


def count_seconds(counter: float, passes: int, interval: float, most: float = math.inf) -> PassCount:
    """Count `passes` passes of `interval` seconds. Stop after the pass in which `most` seconds are reached."""
    if interval == TENTH and isinstance(counter, int):
        return _count_tenths(counter, passes, most)
    fraction, seconds, used = _fraction(counter), 0, 0
    while used < passes and seconds < most:
        used, fraction = used + 1, fraction + interval
        whole = int(fraction)
        seconds, fraction = seconds + whole, fraction - whole
    return PassCount(used, seconds, fraction)


def _count_tenths(counter: int, passes: int, most: float) -> PassCount:
    before = _seconds_of(counter)
    if most < math.inf:
        passes = min(passes, max(0, 10 * (before + math.ceil(most)) + 1 - counter))
    after = counter + passes
    kept = LaterCounter((after - 1) % 10 + 1) if after > 10 or isinstance(counter, LaterCounter) else after
    return PassCount(passes, _seconds_of(after) - before, kept)


def _seconds_of(passes: int) -> int:
    """The seconds counted in so many passes of 0.1 s since the reset."""
    return max(0, (passes - 1) // 10)


def _fraction(counter: float) -> float:
    """The fraction of a second in a counter."""
    if not isinstance(counter, int):
        return counter
    first = sum([TENTH] * 11) - 1 if isinstance(counter, LaterCounter) else TENTH * min(counter, 1)
    return sum([TENTH] * (counter - 1), first)
