"""The report of runs of PersonalHomeBench as tables.

Invariant: every figure of ours is computed from results and stored verdicts; nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from homerl.envs.personalhome.bench.episode_results import RunResults, read_named_results
from homerl.envs.personalhome.bench.judge_figures import (
    RunOrderComparison,
    RunRatings,
    choose_judge,
    compare_ranked_runs,
    compute_run_ratings,
    merge_verdicts,
)
from homerl.envs.personalhome.bench.plan_reflection import FILE as REVISIONS
from homerl.envs.personalhome.bench.plan_reflection import ReflectionFigures, compute_reflection_figures
from homerl.envs.personalhome.bench.score_figures import (
    LEVELS,
    PERCENT,
    POINTS,
    QUESTIONS,
    TASKS,
    UNITS,
    FigureCell,
    FigureLine,
    Figures,
    FigureTable,
    RunScores,
    ScoreFigure,
    compute_run_scores,
    figure_to_cell,
)
from homerl.envs.personalhome.judge.judge_client import VerdictStore
from homerl.envs.personalhome.tasks.benchmark_metrics import CALL_CLASSES, CUTS, ERRORS
from homerl.host.html_pages import glossary_sections

HERE = Path(__file__).parents[1]  # the world's folder, with its glossary
RULES_IN_WORDS = {
    "kept": "no preference is broken",
    "ordered": "the most urgent first",
    "compatible": "steps go together",
    "reasoned": "each step has a reason",
    "sized": "1 to 3 programs of 1 to 5 steps",
}


@dataclass(frozen=True)
class Run:
    """A run with all that is known of it. `win` is its win rate in rel mode."""

    results: RunResults
    scores: RunScores
    judged: RunRatings | None
    win: ScoreFigure | None
    reflection: ReflectionFigures | None = None

    def figure(self, name: str) -> ScoreFigure | None:
        """A figure of its tasks."""
        if name == "win rate":
            return self.win
        return self.scores.tasks.get(name) or (self.judged.figures.get(name) if self.judged else None)


@dataclass(frozen=True)
class ScoresReport:
    """The tables of a report, and what is to be known of all of them."""

    runs: tuple[str, ...]
    tables: tuple[FigureTable, ...]
    notes: tuple[str, ...]


def build_scores_report(folders: Sequence[Path], judge: str | None = None) -> ScoresReport:
    """The report of the runs in some folders, with the stored verdicts of a judge. Nobody is asked."""
    found = read_named_results(folders)
    verdicts = merge_verdicts(found)
    by = choose_judge(verdicts, judge)
    orders = compare_ranked_runs(found, verdicts, by) if by and len(found) > 1 else None
    runs = [_run(one, verdicts, by, orders) for one in found]
    tables = tuple(table for table in _tables(runs) if table.lines)
    return ScoresReport(tuple(one.name for one in found), tables, tuple(_notes(runs, by, orders)))


def _run(results: RunResults, verdicts: VerdictStore, by: str | None, orders: RunOrderComparison | None) -> Run:
    if by is None:
        return Run(results, compute_run_scores(results.rows), None, None)
    kept = VerdictStore(results.folder / REVISIONS)
    win = orders.wins.get(results.name) if orders else None
    reflected = compute_reflection_figures(results, verdicts, by, kept) if kept.rows else None
    return Run(results, compute_run_scores(results.rows), compute_run_ratings(results, verdicts, by), win, reflected)


# Runs as columns


def _tables(runs: Sequence[Run]) -> Iterator[FigureTable]:
    heads = tuple(run.results.name for run in runs)
    yield FigureTable(
        "Questions, accuracy in %", heads, tuple(_lines(runs, QUESTION_LABELS)), ("CF is the mean of both sides.",)
    )
    if any(run.judged for run in runs):
        meant = {"IG ACC": "IG", "CF ACC": "CF"}
        lines = _lines_of([run.judged.figures if run.judged else {} for run in runs], meant)
        yield FigureTable("Questions with the judge of meaning, accuracy in %", heads, tuple(lines))
    yield FigureTable("Questions by difficulty, accuracy in %", heads, tuple(_level_lines(runs)))
    yield FigureTable("Names (personal) and ids (generic), accuracy in %", heads, tuple(_named_lines(runs)))
    features = {**{f"MAP@{k}": f"MAP@{k}" for k in CUTS}, "RRS": "RRS, 0 is best"}
    yield FigureTable("Features", heads, tuple(_lines(runs, features)))
    yield FigureTable("Plans", heads, tuple(_lines(runs, PLAN_LABELS)), ("A plan that settles nothing keeps no rule.",))
    yield FigureTable("Plans before and after one revision", heads, tuple(_revised_lines(runs)))
    yield FigureTable("Errors, number (and by episode)", heads, tuple(_error_lines(runs)))
    yield FigureTable("Episodes by number of calls, in %", heads, tuple(_call_lines(runs)))


QUESTION_LABELS = {
    "IG ACC": "IG",
    "CF ACC": "CF",
    "CF ACC changed": "CF, the answer changes",
    "CF ACC unchanged": "CF, it does not",
    "MC ACC": "MC",
}
PLAN_LABELS = {
    "validity": "validity, static",
    "executed": "validity, executed",
    "settled": "situations settled, %",
    **{rule: f"{words}, %" for rule, words in RULES_IN_WORDS.items()},
    "RPJ abs": "RPJ abs, 1 to 5",
    "RPJ members": "RPJ abs of members",
    "RPJ home": "RPJ abs of the home",
    "win rate": "RPJ rel, best plan, %",
}
REVISED = ("RPJ abs", "validity", "executed", "settled")


def _lines(runs: Sequence[Run], labels: Mapping[str, str]) -> Iterator[FigureLine]:
    yield from _lines_of([{name: found for name in labels if (found := run.figure(name))} for run in runs], labels)


def _lines_of(found: Sequence[Figures], labels: Mapping[str, str]) -> Iterator[FigureLine]:
    """A line for each label that a run has a figure of."""
    for name, label in labels.items():
        cells = tuple(figure_to_cell(figures.get(name), UNITS.get(name, PERCENT)) for figures in found)
        if any(cells):
            yield FigureLine(label, cells)


def _level_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    for level in LEVELS:
        labels = {name: f"{name.removesuffix(' ACC')}, {level}" for name in QUESTIONS}
        yield from _lines_of([run.scores.levels.get(level, {}) for run in runs], labels)


def _named_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    for name in QUESTIONS:
        parts = [run.scores.naming.get(name, {}) for run in runs]
        for way, unit in (("personal", PERCENT), ("generic", PERCENT), ("difference", POINTS)):
            cells = tuple(figure_to_cell(part.get(way), unit) for part in parts)
            if any(cells):
                yield FigureLine(f"{name.removesuffix(' ACC')}, {way}", cells)


def _revised_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    for name in REVISED:
        for when in ("before", "after"):
            parts = [getattr(run.reflection, when) if run.reflection else {} for run in runs]
            yield from _lines_of(parts, {name: f"{PLAN_LABELS[name]}, {when}"})


def _error_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    """The errors that occurred."""
    for task in TASKS:
        for name in ERRORS:
            counts = [(run.scores.errors.get(task, {}).get(name, 0), run.scores.episodes.get(task, 0)) for run in runs]
            if any(count for count, _ in counts):
                cells = (FigureCell(f"{count}", f"{count / of:.2f}", of) if of else None for count, of in counts)
                yield FigureLine(f"{task}, {name.lower().replace('_', ' ')}", tuple(cells))


def _call_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    for task in TASKS:
        found = [run.scores.calls.get(task) for run in runs]
        for kind in CALL_CLASSES if any(found) else ():
            yield FigureLine(f"{task}, {kind}", tuple(_part(calls, kind) for calls in found))


def _part(calls: Mapping[str, int] | None, kind: str) -> FigureCell | None:
    if calls is None:
        return None
    episodes = sum(calls.values())
    return FigureCell(f"{100 * calls[kind] / episodes:.1f}", n=episodes)


def _notes(runs: Sequence[Run], by: str | None, orders: RunOrderComparison | None) -> Iterable[str]:
    named = (f"{term} is {said.name}" for _, terms in glossary_sections(HERE) for term, said in terms.items() if said.name)
    yield f"{', '.join(named)}."
    yield "Intervals are of 95 %."
    for run in runs:
        if run.scores.left_out:
            yield f"{run.results.name}: {run.scores.left_out} episodes are left out, since they say nothing about the agent."
        if run.judged and run.judged.missing:
            yield f"{run.results.name}: {run.judged.missing} questions to the judge have no verdict; ask again."
        if run.reflection and run.reflection.missing:
            yield f"{run.results.name}: {run.reflection.missing} plans have no revision that is rated."
        if run.judged and run.judged.unsure:
            yield f"{run.results.name}: of {run.judged.unsure} answers the judge could not tell; they count as wrong."
    if by:
        yield f"The judge is {by}; its verdicts are stored."
    else:
        yield "No judge has been asked: homerl personalhome judge."
    if orders and orders.disagrees and orders.kept:
        changed, kept = 100 * orders.disagrees.mean, 100 * orders.kept.mean
        yield f"In rel mode the best plan changed with the letters in {changed:.1f} % of tasks."
        yield f"Of two plans, the better one was the same both times in {kept:.1f} % of pairs."
    if orders and orders.missing:
        yield f"In rel mode {orders.missing} tasks lack a verdict."
