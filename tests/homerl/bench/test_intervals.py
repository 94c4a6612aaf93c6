"""Intervals and agreement are scipy's to 1e-12, and their digits stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, t

from homerl.bench.scores import paired_difference, score_results
from homerl.play.confidence_intervals import (
    RESAMPLES,
    cohen_kappa,
    difference_interval,
    mean_interval,
    share_interval,
    student_interval,
)

CLOSE = {"rel": 1e-12, "abs": 1e-12}


@given(st.lists(st.booleans(), min_size=1, max_size=2000))
def test_the_interval_of_a_share_is_wilsons(successes: list[bool]) -> None:
    theirs = binomtest(sum(successes), len(successes)).proportion_ci(0.95, method="wilson")
    assert share_interval(np.array(successes, float)) == pytest.approx(tuple(theirs), **CLOSE)


@pytest.mark.parametrize("values", [np.random.default_rng(1).normal(size=100), np.arange(40) % 3 == 0])
def test_the_interval_of_a_mean_is_the_percentile_bootstraps(values: np.ndarray) -> None:
    rng = np.random.default_rng(7)
    found = bootstrap((values,), np.mean, n_resamples=RESAMPLES, confidence_level=0.95, method="percentile", rng=rng)
    assert mean_interval(values, 7) == pytest.approx(tuple(found.confidence_interval), **CLOSE)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9).filter(lambda values: np.ptp(values) > 1e-3))
def test_the_interval_over_few_seeds_is_students(values: list[float]) -> None:
    theirs = t.interval(0.95, len(values) - 1, np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5)
    assert student_interval(values) == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_digits_stay() -> None:
    """Stored scores hold every digit: here a library shows that would move the last one."""
    successes = (np.arange(200) % 3 == 0).astype(float)
    assert share_interval(successes) == (0.27324086978416323, 0.4029780879203348)
    assert mean_interval(successes) == (0.27, 0.4)
    agreement = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohen_kappa(agreement) == 0.3999999999999999


def test_runs_of_an_instance_are_drawn_together():
    """Ten runs of 40 tasks that always go alike say no more than one run of each."""
    once = np.random.default_rng(0).integers(0, 2, 40).astype(float)
    ids = np.repeat(np.arange(40), 10)
    low, high = mean_interval(np.repeat(once, 10), groups=ids.tolist())
    assert (low, high) == pytest.approx(mean_interval(once), abs=1e-12)
    naive = mean_interval(np.repeat(once, 10))
    assert high - low > 2.5 * (naive[1] - naive[0])


def test_tasks_with_more_runs_weigh_more_as_they_do_in_the_mean():
    low, high = mean_interval(np.array([1.0, 1.0, 1.0, 0.0]), groups=["a", "a", "a", "b"])
    assert (low, high) == (0.0, 1.0)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_none_or_of_all_has_an_interval_with_width(value: float) -> None:
    rows = [{"id": str(i), "outcome": "success" if value else "step_limit", "success": bool(value)} for i in range(200)]
    rows = [row | dict.fromkeys(("phi", "progress", "tool_calls", "tokens"), 0) | {"families": []} for row in rows]
    low, high = score_results(rows)["interval"]
    assert (low, high) == pytest.approx(share_interval(np.full(200, value))) and high - low > 0.018
    twice = score_results([row | {"run": run} for run in (0, 1) for row in rows])["interval"]
    assert twice == (low, high), "two runs of one task are no two tasks"
    assert paired_difference(rows, rows)["interval"] == pytest.approx((-0.01885, 0.01885), abs=1e-5)


def test_the_interval_of_a_difference_is_newcombes():
    """56 of 70 less 48 of 80, as printed by Newcombe (1998, Table II, method 10)."""
    parts = [np.repeat([1.0, 0.0], (hits, n - hits)) for hits, n in ((56, 70), (48, 80))]
    found = difference_interval(*((float(part.mean()), *share_interval(part)) for part in parts))
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


def row(id: str, success: bool, run: int = 0) -> dict:
    return {"id": id, "success": success, "outcome": "success" if success else "turn_limit", "run": run}


def test_a_paired_difference_is_of_all_runs():
    before = [row("a", False), row("a", False, 1), row("b", True), row("b", False, 1)]
    after = [row("a", True), row("a", False, 1), row("b", True), row("b", True, 1)]
    found = paired_difference(before, after)
    assert (found["n"], found["gain"]) == (2, 0.5) and found["interval"][0] < 0.5 < found["interval"][1]
