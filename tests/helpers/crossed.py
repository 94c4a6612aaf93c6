"""Parameters that are crossed: by default each value is tried, and under --all each combination."""

from collections.abc import Sequence
from itertools import product

import pytest


def crossed(**axes: Sequence[object]) -> pytest.MarkDecorator:
    """All combinations of the axes. Those that go through the longest axis once, and meanwhile through the others as the
    digits of a number, run by default; the rest are long.
    """
    values = [list(axis) for axis in axes.values()]
    longest = max(range(len(values)), key=lambda at: len(values[at]))
    params = []
    for places in product(*(range(len(axis)) for axis in values)):
        passed, first = 1, True
        for axis, place in zip(values, places):
            if axis is not values[longest]:
                turn = passed if passed * len(axis) <= len(values[longest]) else 1  # else some value would not be reached
                first &= place == places[longest] // turn % len(axis)
                passed *= len(axis)
        chosen = (axis[place] for place, axis in zip(places, values))
        params.append(pytest.param(*chosen, marks=() if first else pytest.mark.long))
    return pytest.mark.parametrize(tuple(axes), params)
