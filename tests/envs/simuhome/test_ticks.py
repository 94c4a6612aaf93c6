"""Countdowns count the seconds that doubles give, pass by pass, whatever the lengths of the passes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from homerl.envs.simuhome.sim.cluster_registry import LaterCounter, count_seconds

LENGTHS = st.one_of(st.just(0.1), st.sampled_from([0.1, 0.25, 0.3719, 1.0, 0.7, 0.9]))


@given(st.lists(st.tuples(st.integers(0, 60), LENGTHS), max_size=6))
@example([(29, 0.1), (1, 1.0)])
@example([(30, 0.1), (1, 1.0)])
@example([(10, 0.1), (1, 1.0)])
@example([(10, 0.1), (11, 0.1), (9, 0.1), (1, 0.9)])
def test_seconds_are_those_of_single_passes(lives: list[tuple[int, float]]) -> None:
    counter: float = 0
    fraction = 0.0
    for passes, length in lives:
        used, seconds, counter = count_seconds(counter, passes, length)
        expected = 0
        for _ in range(passes):
            fraction += length
            expected, fraction = expected + int(fraction), fraction - int(fraction)
        assert (used, seconds) == (passes, expected)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_counter_may_be_read_at_any_time_and_has_the_text_of_its_integer(first: int, second: int) -> None:
    _, some, counter = count_seconds(0, first, 0.1)
    _, more, last = count_seconds(counter, second, 0.1)
    _, all_at_once, whole = count_seconds(0, first + second, 0.1)
    assert (some + more, last, type(last)) == (all_at_once, whole, type(whole))
    assert repr(LaterCounter(3)) == "3" and repr(last) == str(int(last))
