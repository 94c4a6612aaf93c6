"""The figures of PersonalHomeBench (Appendix F.2) from the results of a run: number of cases, mean and 95 % interval.

Invariants:
- A figure is a pure function of results.
- Only episodes that say something about the agent count.
- A figure of no cases is left out, never 0.
- Shares have Wilson's intervals, differences have Newcombe's, and all other means have those of a seeded bootstrap over
  episodes, so that equal results give equal digits. Every interval has a width, also where all episodes ended alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from homerl.envs.personalhome.tasks import benchmark_metrics as metrics
from homerl.envs.personalhome.tasks.blueprint import CATEGORIES, LEVELS
from homerl.play.confidence_intervals import SHARES, difference_interval, mean_interval, share_interval
from homerl.play.trajectory import Outcome

Row = Mapping[str, Any]
QUESTIONS = ("IG ACC", "CF ACC", "MC ACC")  # figures that difficulty and naming divide


@dataclass(frozen=True)
class ScoreFigure:
    """The mean of `n` cases, and its 95 % interval."""

    n: int
    mean: float
    low: float
    high: float


Figures = dict[str, ScoreFigure]


@dataclass(frozen=True)
class RunScores:
    """All figures of a run.

    `tasks` has the figures of each task by name, `levels` those of questions by difficulty, and `naming` those of questions
    with names (`personal`), with ids (`generic`), and their `difference`. `errors` and `calls` have numbers of errors and
    of episodes by task.
    """

    episodes: Mapping[str, int]
    left_out: int
    tasks: Figures
    levels: Mapping[str, Figures]
    naming: Mapping[str, Figures]
    errors: Mapping[str, Mapping[str, int]]
    calls: Mapping[str, Mapping[str, int]]


def compute_run_scores(rows: Iterable[Row]) -> RunScores:
    """The scores of a run's results (`results.jsonl`)."""
    rows = list(rows)
    counted = [row for row in rows if Outcome(row["outcome"]).is_counted]
    parts = {task: part for task in CATEGORIES.values() if (part := select_task_rows(counted, task))}
    levels = {level: question_figures([row for row in counted if row["difficulty"] == level]) for level in LEVELS}
    errors, calls = {}, {}
    for task, part in parts.items():
        errors[task] = {name: sum(row["errors"][name] for row in part) for name in metrics.ERRORS}
        calls[task] = {name: sum(row["calls"] == name for row in part) for name in metrics.CALL_CLASSES}
    return RunScores(
        episodes={task: len(part) for task, part in parts.items()},
        left_out=len(rows) - len(counted),
        tasks=question_figures(counted) | ranking_figures(parts.get("FR", ())) | plan_figures(parts.get("PG", ())),
        levels={level: figures for level, figures in levels.items() if figures},
        naming=_compare_naming(counted),
        errors=errors,
        calls=calls,
    )


def select_task_rows(rows: Sequence[Row], task: str) -> list[Row]:
    """The results of a task: IG, MC, FR or PG."""
    return [row for row in rows if row["category"] == task]


def drop_missing_figures(**named: ScoreFigure | None) -> Figures:
    """The figures that there are."""
    return {name: figure for name, figure in named.items() if figure is not None}


def share_figure(cases: Iterable[float]) -> ScoreFigure | None:
    """The share of cases that hold (1, otherwise 0); None for no cases."""
    return _figure_of_values(map(float, cases), share_interval)


def mean_figure(values: Iterable[float], ends: tuple[float, float] = SHARES) -> ScoreFigure | None:
    """The mean of values between `ends`; None for no values."""
    return _figure_of_values(values, partial(mean_interval, ends=ends))


def _figure_of_values(values: Iterable[float], interval: Callable[[np.ndarray], tuple[float, float]]) -> ScoreFigure | None:
    array = np.array(list(values), dtype=float)
    if not array.size:
        return None
    mean, (low, high) = float(array.mean()), interval(array)
    return ScoreFigure(array.size, mean, min(low, mean), max(high, mean))  # a mean of equal values may round past its end


def difference_figure(ours: ScoreFigure | None, theirs: ScoreFigure | None) -> ScoreFigure | None:
    """A mean less another one, of other episodes; None without either."""
    if ours is None or theirs is None:
        return None
    low, high = difference_interval((ours.mean, ours.low, ours.high), (theirs.mean, theirs.low, theirs.high))
    return ScoreFigure(ours.n + theirs.n, ours.mean - theirs.mean, low, high)


# Questions


def question_figures(rows: Sequence[Row]) -> Figures:
    """The accuracies of IG (its original question), CF (macro, and where the answer changes or not) and MC (eq. 3-6)."""
    asked = accuracy_cases(rows)
    counterfactuals = [
        (row["right"][key], moved) for row in select_task_rows(rows, "IG") for key, moved in row["changed"].items()
    ]
    figures = {
        "IG ACC": share_figure(asked["IG ACC"]),
        "CF ACC": mean_figure(asked["CF ACC"]),
        "CF ACC changed": share_figure(right for right, moved in counterfactuals if moved),
        "CF ACC unchanged": share_figure(right for right, moved in counterfactuals if not moved),
        "MC ACC": share_figure(asked["MC ACC"]),
    }
    return drop_missing_figures(**figures)


def accuracy_cases(rows: Sequence[Row]) -> dict[str, list[float]]:
    """For each accuracy its cases, one for each episode: 0 or 1, and for CF the macro accuracy of its counterfactuals.

    An episode has one counterfactual that changes the answer and one that does not, so the mean is that of eq. 4.
    """
    grounding = select_task_rows(rows, "IG")
    both = (
        metrics.counterfactual_accuracy([row["right"][key] for key in row["changed"]], [*row["changed"].values()])
        for row in grounding
    )
    return {
        "IG ACC": [float(row["right"]["original"]) for row in grounding],
        "CF ACC": [accuracy["macro"] for accuracy in both if "macro" in accuracy],
        "MC ACC": [float(row["right"]["original"]) for row in select_task_rows(rows, "MC")],
    }


def _compare_naming(rows: Sequence[Row]) -> dict[str, Figures]:
    """The accuracies with names and with ids, and what names gain; only of what was asked in both ways."""
    named, generic = ([row for row in rows if row["personal"] is way] for way in (True, False))
    found, theirs = {}, accuracy_cases(generic)
    for name, ours in accuracy_cases(named).items():
        figure = mean_figure if name == "CF ACC" else share_figure
        one, other = figure(ours), figure(theirs[name])
        if (gain := difference_figure(one, other)) is not None:
            found[name] = drop_missing_figures(personal=one, generic=other, difference=gain)
    return found


# Proactive tasks


def ranking_figures(rows: Sequence[Row]) -> Figures:
    """MAP@k (eq. 9) and RRS (eq. 13)."""
    found = {f"MAP@{k}": mean_figure(row["average_precision"][at] for row in rows) for at, k in enumerate(metrics.CUTS)}
    sums = mean_figure((row["rank_deviation"] for row in rows), (0.0, metrics.WORST_RANK_SUM))
    return drop_missing_figures(**found, RRS=sums)


def plan_figures(rows: Sequence[Row]) -> Figures:
    """Validity (eq. 11) static and executed, the share of situations that are settled, and of plans that keep each rule.

    A plan that settles nothing keeps no rule, as in `plan_rules.PlanVerdict.goals_met`.
    """
    useful = [(any(row["settled"].values()), row["rules"]) for row in rows]
    kept = {rule: share_figure(some and rules[rule] for some, rules in useful) for rule in metrics.RULES}
    return drop_missing_figures(
        validity=mean_figure(row["validity"] for row in rows),
        executed=mean_figure(row["executed"] for row in rows),
        settled=mean_figure(sum(row["settled"].values()) / len(row["settled"]) for row in rows),
        **kept,
    )
