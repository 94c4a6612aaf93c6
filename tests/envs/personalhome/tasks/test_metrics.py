"""The paper's metrics, against numbers that were worked out by hand, and what holds for all rankings."""

from __future__ import annotations

from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.tasks import benchmark_metrics as metrics

TEN = list("abcdefghij")
BEST = list("abc")
RANKINGS = st.permutations(TEN)


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [
        ("abc", 1, 1.0),
        ("xbc", 1, 0.0),
        ("abc", 3, 1.0),
        ("axb", 3, (1 + 2 / 3) / 3),
        ("xab", 2, (1 / 2) / 2),
        ("xxxxxxxabc", 10, (1 / 8 + 2 / 9 + 3 / 10) / 3),
        ("", 5, 0.0),
        ("aab", 3, (1 + 2 / 3) / 3),
    ],
)
def test_average_precision_by_hand(ranking, k, value):
    assert metrics.average_precision(list(ranking), BEST, k) == pytest.approx(value)


def test_the_printed_deviation_is_that_of_a_third():
    """Gemini 2.5 Pro: 0.297 ± 0.104 is 89.1 % of thirds; by eq. 8 the deviation would be three times as large."""
    printed = [1 / 3] * 891 + [0.0] * 109
    assert round(fmean(printed), 3) == 0.297 and round(pstdev(printed), 3) == 0.104


@given(RANKINGS, st.integers(1, 10))
def test_precision_is_a_share_and_sees_only_k(ranking, k):
    value = metrics.average_precision(ranking, BEST, k)
    assert 0 <= value <= 1
    assert value == metrics.average_precision(ranking[:k] + sorted(ranking[k:]), BEST, k)
    assert value == metrics.average_precision(ranking, BEST[::-1], k)


@given(RANKINGS)
def test_beyond_the_third_rank_precision_only_grows(ranking):
    values = [metrics.average_precision(ranking, BEST, k) for k in metrics.CUTS]
    assert values[2:] == sorted(values[2:])


@given(RANKINGS, st.integers(0, 8), st.integers(1, 10))
def test_a_swap_towards_the_front_never_costs(ranking, at, k):
    if ranking[at + 1] in BEST and ranking[at] not in BEST:
        better = [*ranking[:at], ranking[at + 1], ranking[at], *ranking[at + 2 :]]
        assert metrics.average_precision(better, BEST, k) >= metrics.average_precision(ranking, BEST, k)


@pytest.mark.parametrize(
    ("ranking", "value"),
    [
        ("abc", 0),
        ("acb", 2),
        ("bac", 2),
        ("cba", 4),
        ("xxxxxxxcba", 9 + 7 + 5),
        ("", 27),
        ("a", 9 + 8),
        ("x" * 12 + "abc", 27),
    ],
)
def test_rank_deviation_by_hand(ranking, value):
    assert metrics.rank_deviation(list(ranking), BEST) == value


def test_the_worst_full_ranking_is_below_what_the_paper_prints():
    assert max(metrics.rank_deviation(["x"] * 7 + order, BEST) for order in (list("cba"), list("abc"))) == 21 < 21.808
    assert metrics.WORST_RANK_SUM == 27 == metrics.rank_deviation([], BEST)


@given(RANKINGS, st.integers(0, 10))
def test_a_shorter_ranking_is_never_better(ranking, kept):
    whole, cut = (metrics.rank_deviation(part, BEST) for part in (ranking, ranking[:kept]))
    assert 0 <= whole <= cut <= 27


def test_kept_order_by_hand():
    assert metrics.kept_order_share("abc", "abc") == 1 and metrics.kept_order_share("abc", "cba") == 0
    assert metrics.kept_order_share("abc", "acb") == pytest.approx(2 / 3)


def test_errors_by_rule():
    found = metrics.count_error_types(
        ["unknown_tool", "missing_argument", "unknown_argument", "door_is_open", "wrong_type"],
        [None, "EMPTY_OUTPUT", "UPSTREAM_FORMAT_ERROR", "UPSTREAM_FORMAT_ERROR"],
    )
    assert found == {
        "EXECUTION_ERROR": 2,
        "MISSING_ARGUMENTS": 1,
        "UNEXPECTED_ARGUMENTS": 1,
        "INVALID_TOOL_NAME": 1,
        "UPSTREAM_FORMAT_ERROR": 2,
        "EMPTY_OUTPUT": 1,
    }


def test_classes_of_calls():
    assert [metrics.call_class(calls) for calls in (0, 4, 5, 10, 11, 99)] == ["<5", "<5", "5-10", "5-10", ">10", ">10"]
