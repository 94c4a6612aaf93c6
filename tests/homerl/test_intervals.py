"""Intervals and agreement are scipy's to 1e-12, and their digits stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap

from homerl.measure.intervals import RESAMPLES, kappa, mean_interval, share_interval

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


def test_digits_stay() -> None:
    """Stored scores hold every digit: here a library shows that would move the last one."""
    successes = (np.arange(200) % 3 == 0).astype(float)
    assert share_interval(successes) == (0.27324086978416323, 0.4029780879203348)
    assert mean_interval(successes) == (0.27, 0.4)
    agreement = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa(agreement) == 0.3999999999999999
