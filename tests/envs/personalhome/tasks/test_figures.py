"""Figures of hand-made results, computed by hand: what counts, what is left out, and what they are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.bench.run_results import compute_run_scores, difference_figure, mean_figure, share_figure
from homerl.envs.personalhome.tasks import benchmark_metrics as metrics
from homerl.envs.personalhome.tasks.benchmark_metrics import CUTS, ERRORS

NO_ERRORS = dict.fromkeys(ERRORS, 0)


def row(category, outcome="success", difficulty="", personal=None, calls="<5", errors=NO_ERRORS, **metrics_of_task):
    return {
        "id": "x",
        "category": category,
        "difficulty": difficulty,
        "outcome": outcome,
        "personal": personal,
        "calls": calls,
        "errors": errors,
        **metrics_of_task,
    }


def asked(original, changed, unchanged, difficulty="simple", personal=True, **more):
    """A grounding task whose first counterfactual changes the answer."""
    right = {"original": original, "counterfactual_1": changed, "counterfactual_2": unchanged}
    moved = {"counterfactual_1": True, "counterfactual_2": False}
    return row("IG", difficulty=difficulty, personal=personal, right=right, changed=moved, **more)


def ranked(*ranking):
    relevant = ("a", "b", "c")
    precision = [metrics.average_precision(ranking, relevant, k) for k in CUTS]
    return row("FR", average_precision=precision, rank_deviation=metrics.rank_deviation(ranking, relevant))


def planned(validity, settled, **rules):
    kept = dict.fromkeys(("kept", "ordered", "compatible", "reasoned", "sized"), True) | rules
    return row("PG", validity=validity, executed=validity / 2, settled=dict(enumerate(settled)), rules=kept)


def means(figures):
    return {name: round(figure.mean, 6) for name, figure in figures.items()}


def test_questions():
    rows = [
        asked(True, True, False),
        asked(True, False, True, "hard"),
        asked(False, True, True, "hard", False),
        asked(True, False, True, "hard", False),
    ]
    rows += [row("MC", difficulty="hard", personal=False, right={"original": right}) for right in (True, False)]
    found = compute_run_scores(rows)
    assert found.episodes == {"IG": 4, "MC": 2} and found.left_out == 0
    assert means(found.tasks) == {
        "IG ACC": 0.75,
        "CF ACC": 0.625,
        "CF ACC changed": 0.5,
        "CF ACC unchanged": 0.75,
        "MC ACC": 0.5,
    }
    assert means(found.levels["simple"])["CF ACC"] == 0.5 and found.levels["hard"]["IG ACC"].n == 3
    assert "medium" not in found.levels
    assert means(found.naming["IG ACC"]) == {"personal": 1.0, "generic": 0.5, "difference": 0.5}
    assert "MC ACC" not in found.naming, "it was asked with ids only"


def test_a_share_has_wilsons_interval_and_a_mean_a_bootstrap():
    assert share_figure([]) is None and mean_figure([]) is None and difference_figure(None, share_figure([True])) is None
    one = share_figure([True, True, True, False])
    assert (one.n, one.mean) == (4, 0.75) and one.low == pytest.approx(0.3006, abs=1e-4)
    assert mean_figure([0.0, 1.0, 0.5]) == mean_figure([0.0, 1.0, 0.5]), "equal values, equal digits"
    gain = difference_figure(share_figure([1.0, 1.0, 0.0, 1.0]), share_figure([0.0, 0.0, 1.0, 0.0]))
    assert gain.mean == 0.5 and gain.low < 0.5 < gain.high and gain.n == 8


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 50), st.integers(1, 50))
def test_episodes_that_all_ended_alike_have_an_interval_with_a_width(value, other, n, m):
    """All right is no proof: 40 of 40 counterfactuals once stood as 100.0 to 100.0 %."""
    one, two = mean_figure([value] * n), mean_figure([other] * m)
    for figure in (one, two, difference_figure(one, two), mean_figure([27.0 * value] * n, (0.0, 27.0))):
        assert figure.low <= figure.mean <= figure.high and figure.high - figure.low > 0.01
    of_shares, wilson = mean_figure([1.0] * n), share_figure([True] * n)
    assert (of_shares.low, of_shares.high) == pytest.approx((wilson.low, wilson.high))


def test_no_figure_of_a_run_in_which_all_is_right_is_certain():
    found = compute_run_scores(
        [asked(True, True, True), asked(True, True, True, personal=False), ranked("a", "b", "c"), planned(1.0, [True])]
    )
    every = [*found.tasks.items(), *((name, f) for part in found.naming.values() for name, f in part.items())]
    assert len(found.naming) == 2
    assert not [name for name, figure in every if figure.low == figure.high]


def test_rankings_by_equation_8():
    found = compute_run_scores([ranked("a", "b", "c"), ranked("x", "a", "y", "b", "c")]).tasks
    assert (
        found["MAP@1"].mean == 0.5
        and found["MAP@2"].mean == (1 + 0.25) / 2
        and found["MAP@10"].mean == pytest.approx((1 + (1 / 2 + 2 / 4 + 3 / 5) / 3) / 2)
    )
    assert found["RRS"].mean == (0 + 1 + 2 + 2) / 2 and {f"MAP@{k}" for k in CUTS} < set(found)


def test_a_plan_that_settles_nothing_keeps_no_rule():
    found = means(compute_run_scores([planned(1.0, [True, False], ordered=False), planned(0.0, [False])]).tasks)
    assert found["validity"] == 0.5 and found["executed"] == 0.25 and found["settled"] == 0.25
    assert found["kept"] == 0.5 and found["ordered"] == 0.0


def test_errors_and_calls_by_task_and_episodes_that_say_nothing_are_left_out():
    empty = NO_ERRORS | {"EMPTY_OUTPUT": 1, "EXECUTION_ERROR": 2}
    spoiled = asked(False, False, False, outcome="infra_error", errors=empty, calls=">10")
    found = compute_run_scores(
        [asked(True, True, True, errors=empty, calls="5-10", outcome="agent_failure"), spoiled, planned(1, [True])]
    )
    assert found.left_out == 1 and found.tasks["IG ACC"].n == 1
    assert found.errors["IG"] == empty and not any(found.errors["PG"].values())
    assert found.calls == {"IG": {"<5": 0, "5-10": 1, ">10": 0}, "PG": {"<5": 1, "5-10": 0, ">10": 0}}
