"""Parameters that are crossed: by default each value is tried, and under --all each combination."""

from collections.abc import Sequence
from itertools import product

import pytest


def crossed(**axes: Sequence[object]) -> pytest.MarkDecorator:
    """All combinations of the axes. Those that go through the longest axis once, and through the others in turn, run by
    default; the rest are long.
    """
    values = [list(axis) for axis in axes.values()]
    longest = max(range(len(values)), key=lambda at: len(values[at]))
    params = []
    for places in product(*(range(len(axis)) for axis in values)):
        first = all(place == places[longest] % len(axis) for place, axis in zip(places, values))
        chosen = (axis[place] for place, axis in zip(places, values))
        params.append(pytest.param(*chosen, marks=() if first else pytest.mark.long))
    return pytest.mark.parametrize(tuple(axes), params)
