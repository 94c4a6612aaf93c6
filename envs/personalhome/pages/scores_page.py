"""The report of runs as one HTML file, and as tables for a terminal.

Invariants:
- The page needs no other file and no script. Every text of a run is escaped. Equal reports give equal bytes.
- In a terminal labels and figures are whole. A table that is wider than the terminal is shown in several, each of some runs.
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

from homerl.envs.personalhome.bench.scores_report import FigureTable, ScoresReport
from homerl.host.html_pages import load_glossary, load_template


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
