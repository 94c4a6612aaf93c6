"""Our figures beside those that the paper prints, a model in each line.

Invariants:
- The paper's lines are marked as printed, and never mixed with ours.
- A printed figure that is not to be trusted is marked and has its reason below the table.
- A doubt about a whole column marks the head of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homerl.envs.personalhome.bench.figures import Figure, Scores
from homerl.envs.personalhome.bench.judged import Judged
from homerl.envs.personalhome.bench.printed import Row, Setting, printed
from homerl.envs.personalhome.bench.reflecting import Reflection
from homerl.envs.personalhome.bench.stored import Results
from homerl.envs.personalhome.bench.tables import PERCENT, POINTS, UNITS, Cell, Line, Table, cell, number

SETTINGS: dict[Setting, str] = {"agentic": "with tools", "sole": "the whole household in the prompt"}


@dataclass(frozen=True)
class Column:
    """A column: its head, our figure, and the printed table and column beside it, with the decimals that are printed."""

    head: str
    figure: str
    table: str
    printed: str
    digits: int


RESULTS = (
    Column("IG", "IG ACC", "text", "IG", 2),
    Column("CF", "CF ACC", "text", "CF", 2),
    Column("MC", "MC ACC", "text", "MC", 2),
    Column("MAP@1/3", "MAP@1 printed", "text", "FR", 3),
    Column("RRS", "RRS", "rank_sum", "RRS", 2),
    Column("RPJ rel", "win rate", "text", "RPJ_REL", 1),
    Column("validity", "validity", "text", "validity", 3),
)
NAMING = (Column("IG", "IG ACC", "personalisation", "IG", 2), Column("CF", "CF ACC", "personalisation", "CF", 2))


@dataclass(frozen=True)
class Run:
    """A run with all that is known of it. `win` is its win rate in rel mode."""

    results: Results
    scores: Scores
    judged: Judged | None
    win: Figure | None
    reflection: Reflection | None = None

    def figure(self, name: str) -> Figure | None:
        """A figure of its tasks."""
        if name == "win rate":
            return self.win
        return self.scores.tasks.get(name) or (self.judged.figures.get(name) if self.judged else None)


def results_beside(runs: Sequence[Run], setting: Setting) -> Table:
    """Our runs of a setting beside Tables 2 and 11. It has no lines if there are no such runs."""
    ours = [
        Line(run.results.model, tuple(cell(run.figure(one.figure), UNITS.get(one.figure, PERCENT)) for one in RESULTS))
        for run in runs
        if run.results.setting == setting
    ]
    return _table(f"Beside Tables 2 and 11, {SETTINGS[setting]}", RESULTS, ours, [setting])


def naming_beside(runs: Sequence[Run]) -> Table:
    """What names gain over ids, beside Table 3. It has no lines if the runs do not have both."""
    gains = {run.results.name: [run.scores.naming.get(one.figure, {}).get("difference") for one in NAMING] for run in runs}
    ours = [Line(name, tuple(cell(one, POINTS) for one in gain)) for name, gain in gains.items() if any(gain)]
    settings = [setting for setting in SETTINGS if any(run.results.setting == setting for run in runs)]
    return _table("Accuracy with names less accuracy with ids, in points, beside Table 3", NAMING, ours, settings)


def reflection_beside(runs: Sequence[Run]) -> Table:
    """Plans before and after one revision, beside Table 4. It has no lines if no plan was revised."""
    ours = []
    for run in runs:
        if run.reflection and run.reflection.before:
            for when, figures in (("before", run.reflection.before), ("after", run.reflection.after)):
                cells = tuple(cell(figures.get(name), UNITS.get(name, PERCENT)) for name in REFLECTED)
                ours.append(Line(f"{run.results.name}, {when}", cells))
    row = printed().table("reflection").rows[0]  # of data as text
    theirs = [Line(f"{row.model}, {when}", _reflected(row, when), printed=True) for when in ROUNDS]
    reasons = {f"? {line.label}: {why}": None for line in theirs for one in line.cells if one for why in one.doubts}
    heads = tuple(head for head, _, _ in REFLECTED.values())
    return Table(
        "One revision of plans, beside Table 4", heads, (*ours, *theirs) if ours else (), tuple(reasons), beside=True
    )


ROUNDS: tuple[Setting, ...] = ("before", "after")
REFLECTED = {  # the head of our figure, and the printed column beside it with its decimals
    "RPJ abs": ("RPJ abs", "RPJ_ABS", 2),
    "validity": ("validity", "validity", 3),
    "executed": ("executed", None, 0),
    "settled": ("settled %", None, 0),
}


def _reflected(row: Row, when: Setting) -> tuple[Cell | None, ...]:
    """The printed figures of Table 4 in the order of our columns; None where the paper has none."""
    book = printed()

    def one(column: str | None, digits: int) -> Cell | None:
        if column is None:
            return None
        value = book.table("reflection").figure(row.model, when, column)
        return Cell(number(value, digits), doubts=tuple(book.doubts_about("reflection", row, when, column)))

    return tuple(one(column, digits) for _, column, digits in REFLECTED.values())


def _table(title: str, columns: Sequence[Column], ours: Sequence[Line], settings: Sequence[Setting]) -> Table:
    """Our lines, and the paper's lines of some settings."""
    several = len(settings) > 1
    known = printed().table(columns[0].table).rows
    rows = [
        (f"{row.model}, {setting}" if several else row.model, row, setting)
        for setting in settings
        for row in known
        if setting in row.settings()
    ]
    doubted = {one.head: [_doubts(row, setting, one) for _, row, setting in rows] for one in columns}
    whole = {head: [why for why in lists[0] if all(why in other for other in lists)] for head, lists in doubted.items()}
    lines, reasons = [], {why: [head] for head, found in whole.items() for why in found}
    for at, (label, row, setting) in enumerate(rows):
        cells = []
        for one in columns:
            doubts = [why for why in doubted[one.head][at] if why not in whole[one.head]]
            value = printed().table(one.table).figure(row.model, setting, one.printed)
            cells.append(Cell(number(value, one.digits, columns is NAMING), doubts=tuple(doubts)))
            for why in doubts:
                reasons.setdefault(why, []).append(f"{label} {one.head}")
        lines.append(Line(label, tuple(cells), printed=True))
    heads = tuple(f"{one.head}?" if whole[one.head] else one.head for one in columns)
    notes = tuple(f"? {'; '.join(where)}: {why}" for why, where in reasons.items())
    return Table(title, heads, (*ours, *lines) if ours else (), notes, beside=True)


def _doubts(row: Row, setting: Setting, column: Column) -> list[str]:
    """Why a printed figure is not to be trusted."""
    book = printed()
    there = next(one for one in book.table(column.table).rows if (one.model, one.modality) == (row.model, row.modality))
    return book.doubts_about(column.table, there, setting, column.printed)
