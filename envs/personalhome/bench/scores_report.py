"""The report of runs of PersonalHomeBench: as tables of plain data, as one HTML file, and as tables for a terminal.

Invariants:
- Every figure is computed from results and stored verdicts; nobody is asked; a missing figure is None, never 0.
- The page needs no other file and no script. Every text of a run is escaped. Equal reports give equal bytes.
- In a terminal labels and figures are whole. A table that is wider than the terminal is shown in several, each of some runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from pathlib import Path

from rich.console import Group
from rich.table import Column
from rich.table import Table as Shown
from rich.text import Text

from homerl.envs.personalhome.bench import judged_runs
from homerl.envs.personalhome.bench.run_results import (
    QUESTIONS,
    Figures,
    RunResults,
    RunScores,
    ScoreFigure,
    compute_run_scores,
    read_named_results,
)
from homerl.envs.personalhome.judge.judge_client import VerdictStore
from homerl.envs.personalhome.tasks.benchmark_metrics import CALL_CLASSES, CUTS, ERRORS, HIGHEST_SCORE, WORST_RANK_SUM
from homerl.envs.personalhome.tasks.blueprint import CATEGORIES, LEVELS
from homerl.host.html_pages import glossary_sections, load_glossary, load_template

HERE = Path(__file__).parents[1]  # the world's folder, with its glossary


# Tables as plain data


@dataclass(frozen=True)
class FigureUnit:
    """How a figure is written: times `factor`, with `digits` decimals and perhaps its sign. `top` is the bar's end."""

    factor: float = 100.0
    digits: int = 1
    signed: bool = False
    top: float | None = 1.0

    def format_value(self, value: float) -> str:
        """A value in this unit, with a minus that is as wide as a plus."""
        return f"{self.factor * value:{'+' if self.signed else ''}.{self.digits}f}".replace("-", "−")


PERCENT = FigureUnit()
SHARE, RANKS, SCORE = FigureUnit(1.0, 3), FigureUnit(1.0, 2, top=WORST_RANK_SUM), FigureUnit(1.0, 2, top=HIGHEST_SCORE)
UNITS = {
    "RRS": RANKS,
    "difference": FigureUnit(signed=True, top=None),  # percentage points
    **dict.fromkeys(("validity", "executed", *(f"MAP@{k}" for k in CUTS)), SHARE),
    **dict.fromkeys(("RPJ abs", "RPJ members", "RPJ home"), SCORE),
}


@dataclass(frozen=True)
class FigureCell:
    """A figure as text. `bar` has its low, mean and high end as shares of the unit's range, if it has one."""

    text: str
    interval: str = ""
    n: int | None = None
    bar: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class FigureLine:
    """A line of a table. A missing figure is None."""

    label: str
    cells: tuple[FigureCell | None, ...]

    @property
    def case_counts(self) -> str:
        """The number of cases of each cell, as `3/4`; once if it is the same in all."""
        return "/".join(dict.fromkeys(str(cell.n) for cell in self.cells if cell and cell.n is not None))


@dataclass(frozen=True)
class FigureTable:
    """A table: the heads of its columns, and lines. `notes` stand below it."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[FigureLine, ...]
    notes: tuple[str, ...] = ()


def figure_to_cell(figure: ScoreFigure | None, unit: FigureUnit) -> FigureCell | None:
    """A figure as a cell."""
    if figure is None:
        return None
    between = f"{unit.format_value(figure.low)} to {unit.format_value(figure.high)}"
    bar = None if unit.top is None else tuple(value / unit.top for value in (figure.low, figure.mean, figure.high))
    return FigureCell(unit.format_value(figure.mean), between, figure.n, bar)  # type: ignore[arg-type]


# The runs


@dataclass(frozen=True)
class Run:
    """A run with all that is known of it. `win` is its win rate in rel mode."""

    results: RunResults
    scores: RunScores
    judged: judged_runs.RunRatings | None
    win: ScoreFigure | None
    reflection: judged_runs.ReflectionFigures | None = None

    def task_figures(self) -> Figures:
        """The figures of its tasks by name. Where rules and the judge both rate, these are the rules' figures."""
        judged = self.judged.figures if self.judged else {}
        return judged | self.scores.tasks | ({"win rate": self.win} if self.win else {})


@dataclass(frozen=True)
class ScoresReport:
    """The tables of a report, and what is to be known of all of them."""

    runs: tuple[str, ...]
    tables: tuple[FigureTable, ...]
    notes: tuple[str, ...]


def build_scores_report(folders: Sequence[Path], judge: str | None = None) -> ScoresReport:
    """The report of the runs in some folders, with the stored verdicts of a judge. Nobody is asked."""
    found = read_named_results(folders)
    verdicts = judged_runs.merge_verdicts(found)
    by = judged_runs.choose_judge(verdicts, judge)
    orders = judged_runs.compare_ranked_runs(found, verdicts, by) if by and len(found) > 1 else None
    runs = []
    for one in found:
        run = Run(one, compute_run_scores(one.rows), None, orders.wins.get(one.name) if orders else None)
        if by:
            kept = VerdictStore(one.folder / judged_runs.REVISIONS)
            reflected = judged_runs.compute_reflection_figures(one, verdicts, by, kept) if kept.rows else None
            run = replace(run, judged=judged_runs.compute_run_ratings(one, verdicts, by), reflection=reflected)
        runs.append(run)
    tables = tuple(table for table in _build_tables(runs) if table.lines)
    return ScoresReport(tuple(one.name for one in found), tables, tuple(_write_notes(runs, by, orders)))


# Tables, with runs as columns

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
    "kept": "no preference is broken, %",
    "ordered": "the most urgent first, %",
    "compatible": "steps go together, %",
    "reasoned": "each step has a reason, %",
    "sized": "1 to 3 programs of 1 to 5 steps, %",
    "RPJ abs": "RPJ abs, 1 to 5",
    "RPJ members": "RPJ abs of members",
    "RPJ home": "RPJ abs of the home",
    "win rate": "RPJ rel, best plan, %",
}


def _build_tables(runs: Sequence[Run]) -> Iterator[FigureTable]:
    heads, figures = tuple(run.results.name for run in runs), [run.task_figures() for run in runs]
    judged = [run.judged.figures if run.judged else {} for run in runs]
    short = {name: name.removesuffix(" ACC") for name in QUESTIONS}

    def table(title: str, lines: Iterable[FigureLine], *notes: str) -> FigureTable:
        return FigureTable(title, heads, tuple(lines), notes)

    yield table("Questions, accuracy in %", _figure_lines(figures, QUESTION_LABELS), "CF is the mean of both sides.")
    if any(run.judged for run in runs):
        lines = _figure_lines(judged, {"IG ACC": "IG", "CF ACC": "CF"})
        yield table("Questions with the judge of meaning, accuracy in %", lines)
    by_level = [
        _figure_lines(
            [run.scores.levels.get(level, {}) for run in runs], {name: f"{short[name]}, {level}" for name in short}
        )
        for level in LEVELS
    ]
    yield table("Questions by difficulty, accuracy in %", chain(*by_level))
    ways = {"personal": "personal", "generic": "generic", "difference": "personal − generic, points"}
    by_name = [
        _figure_lines(
            [run.scores.naming.get(name, {}) for run in runs],
            {way: f"{short[name]}, {label}" for way, label in ways.items()},
        )
        for name in short
    ]
    yield table("Names (personal) and ids (generic), accuracy in %", chain(*by_name))
    yield table(
        "Features, MAP from 0 to 1",
        _figure_lines(figures, {f"MAP@{k}": f"MAP@{k}" for k in CUTS} | {"RRS": "RRS, 0 is best"}),
    )
    yield table("Plans", _figure_lines(figures, PLAN_LABELS), "A plan that settles nothing keeps no rule.")
    revised = [
        _figure_lines([getattr(run.reflection, when, {}) for run in runs], {name: f"{PLAN_LABELS[name]}, {when}"})
        for name in ("RPJ abs", "validity", "executed", "settled")
        for when in ("before", "after")
    ]
    yield table("Plans before and after one revision", chain(*revised))
    yield table("Errors, number (and by episode)", _error_lines(runs))
    yield table("Episodes by number of calls, in %", _call_lines(runs))


def _figure_lines(found: Sequence[Figures], labels: Mapping[str, str]) -> Iterator[FigureLine]:
    """A line for each label that a run has a figure of."""
    for name, label in labels.items():
        cells = tuple(figure_to_cell(figures.get(name), UNITS.get(name, PERCENT)) for figures in found)
        if any(cells):
            yield FigureLine(label, cells)


def _error_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    """The errors that occurred."""
    for task in CATEGORIES.values():
        for name in ERRORS:
            counts = [(run.scores.errors.get(task, {}).get(name, 0), run.scores.episodes.get(task, 0)) for run in runs]
            if any(count for count, _ in counts):
                cells = (FigureCell(f"{count}", f"{count / of:.2f}", of) if of else None for count, of in counts)
                yield FigureLine(f"{task}, {name.lower().replace('_', ' ')}", tuple(cells))


def _call_lines(runs: Sequence[Run]) -> Iterator[FigureLine]:
    """The shares of episodes by their number of calls."""
    for task in CATEGORIES.values():
        found = [run.scores.calls.get(task, {}) for run in runs]
        for kind in CALL_CLASSES if any(found) else ():
            counts = [(calls.get(kind, 0), sum(calls.values())) for calls in found]
            cells = (FigureCell(f"{100 * count / of:.1f}", n=of) if of else None for count, of in counts)
            yield FigureLine(f"{task}, {kind}", tuple(cells))


def _write_notes(runs: Sequence[Run], by: str | None, orders: judged_runs.RunOrderComparison | None) -> Iterator[str]:
    named = (f"{term} is {said.name}" for _, terms in glossary_sections(HERE) for term, said in terms.items() if said.name)
    yield f"{', '.join(named)}."
    yield "Intervals are of 95 %. n counts the cases of a figure, such as 40/38 where runs differ."
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


def render_scores(report: ScoresReport) -> str:
    """The page as HTML."""
    words = load_glossary(Path(__file__).parents[1])
    template = load_template(Path(__file__).with_name("scores.html.jinja"), explained=words.explain_terms_as_html)
    return template.render(report=report)


FITTING = 7  # columns of figures that are never broken
GAP = 2  # spaces after a column


def scores_terminal_tables(report: ScoresReport, width: int) -> Group:
    """All tables for a terminal of `width` columns, with their notes below them."""
    parts: list[Shown | Text] = []
    for table in report.tables:
        for part in _split_table(table, width):
            parts += [Text(part.title, "italic"), _draw_table(part), Text()]
        parts[-1:] = [*(Text(f"  {note}", "dim") for note in table.notes), Text()]
    return Group(*parts, *map(Text, report.notes))


def _split_table(table: FigureTable, width: int) -> Iterator[FigureTable]:
    """The table in parts that each have as many runs as fit beside the labels, but one at least."""
    labels = max(len(line.label) for line in table.lines) + GAP
    cases = max(len(line.case_counts) for line in table.lines) + GAP
    # The widest figure, interval or word of a head says how wide the column of a run is.
    words = [word for head in table.heads for word in head.split(", ")]
    for cell in (cell for line in table.lines for cell in line.cells if cell):
        words += [cell.text, f"({cell.interval})"]
    fitting = max(1, (width - labels - cases) // (max(map(len, words)) + GAP))
    # Parts of equal size look better than full ones and a rest.
    parts = ceil(len(table.heads) / fitting)
    count = ceil(len(table.heads) / parts)
    for first in range(0, len(table.heads), count):
        runs = slice(first, first + count)
        lines = tuple(replace(line, cells=line.cells[runs]) for line in table.lines)
        yield replace(table, heads=table.heads[runs], lines=lines)


def _draw_table(table: FigureTable) -> Shown:
    heads = [Column(head.replace(", ", "\n"), justify="right", no_wrap=len(table.heads) <= FITTING) for head in table.heads]
    first = (Column("", no_wrap=True), Column("n", justify="right", no_wrap=True))
    shown = Shown(*first, *heads, box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for line in table.lines:
        figures = [Text(cell.text if cell else "") for cell in line.cells]
        for figure, cell in zip(figures, line.cells, strict=True):
            if cell and cell.interval:
                figure.append(f"\n({cell.interval})", "dim")
        shown.add_row(Text(line.label), Text(line.case_counts, "dim"), *figures)
    return shown
