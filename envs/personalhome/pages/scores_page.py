"""The report of runs as one HTML file.

Invariants: the page needs no other file and no script; every text of a run is escaped; equal reports give equal bytes.

The report of runs as tables for a terminal.

Invariant: labels and figures are whole. A table that is wider than the terminal is shown in several, each of some runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path

from rich.console import Group
from rich.table import Column
from rich.table import Table as Shown
from rich.text import Text

from homerl.envs.personalhome.bench.score_figures import FigureCell, FigureTable
from homerl.envs.personalhome.bench.scores_report import ScoresReport
from homerl.host.html_pages import load_glossary, load_template


def render_scores(report: ScoresReport) -> str:
    """The page as HTML."""
    words = load_glossary(Path(__file__).parents[1])
    return load_template(Path(__file__).with_name("scores.html.jinja"), explained=words.explain_terms_as_html).render(
        report=report
    )


FITTING = 7  # columns of figures that are never broken
GAP = 2  # spaces after a column


def scores_terminal_tables(report: ScoresReport, width: int) -> Group:
    """All tables for a terminal of `width` columns, with their notes below them."""
    parts: list[Shown | Text] = []
    for table in report.tables:
        for part in _fitting(table, width):
            parts += [Text(part.title, "italic"), _table(part), Text()]
        parts[-1:] = [*(Text(f"  {note}", "dim") for note in table.notes), Text()]
    return Group(*parts, *map(Text, report.notes))


def _fitting(table: FigureTable, width: int) -> Iterator[FigureTable]:
    """The table in parts that each have as many runs as fit beside the labels, but one at least."""
    labels = max(len(line.label) for line in table.lines) + GAP
    cases = max(len(_cases(line.case_counts)) for line in table.lines) + GAP
    fitting = max(1, (width - labels - cases) // (_run_width(table) + GAP))
    parts = ceil(len(table.heads) / fitting)
    count = ceil(len(table.heads) / parts)
    for first in range(0, len(table.heads), count):
        runs = slice(first, first + count)
        lines = tuple(replace(line, cells=line.cells[runs]) for line in table.lines)
        yield replace(table, heads=table.heads[runs], lines=lines)


def _run_width(table: FigureTable) -> int:
    """Columns that the widest figure, interval or word of a head takes."""
    words = [word for head in table.heads for word in head.split(", ")]
    cells = [cell for line in table.lines for cell in line.cells if cell]
    return max(len(text) for text in (*words, *(cell.text for cell in cells), *(f"({cell.interval})" for cell in cells)))


def _table(table: FigureTable) -> Shown:
    heads = [Column(head.replace(", ", "\n"), justify="right", no_wrap=len(table.heads) <= FITTING) for head in table.heads]
    first = (Column("", no_wrap=True), Column("n", justify="right", no_wrap=True))
    shown = Shown(*first, *heads, box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for line in table.lines:
        shown.add_row(Text(line.label), Text(_cases(line.case_counts), "dim"), *map(_cell, line.cells))
    return shown


def _cases(numbers: tuple[str, ...]) -> str:
    return "/".join(numbers)


def _cell(cell: FigureCell | None) -> Text:
    """A figure, and its interval below it if it has one."""
    if cell is None:
        return Text("")
    text = Text(cell.text)
    return text.append(f"\n({cell.interval})", "dim") if cell.interval else text
