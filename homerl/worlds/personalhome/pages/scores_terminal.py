"""The report of runs as tables for a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Column
from rich.table import Table as Shown
from rich.text import Text

from homerl.worlds.personalhome.bench.report import Report
from homerl.worlds.personalhome.bench.tables import Cell, Table

FITTING = 7  # columns of figures that are never broken
FEW = 2  # runs whose intervals stand beside their figures; those of more stand below, for a terminal has 80 columns


def tables(report: Report) -> Group:
    """All tables, with their notes below them."""
    parts: list[Shown | Text] = []
    for table in report.tables:
        parts += [_table(table), *(Text(f"  {note}", "dim") for note in table.notes), Text()]
    return Group(*parts, *map(Text, report.notes))


def _table(table: Table) -> Shown:
    """A table. Where models are lines, the intervals are left to the other tables."""
    gap = None if table.beside else " " if len(table.heads) <= FEW else "\n"
    heads = [Column(head, justify="right", no_wrap=len(table.heads) <= FITTING) for head in table.heads]
    counted = [] if table.beside else [Column("n", justify="right")]
    shown = Shown(
        Column("", no_wrap=table.beside), *counted, *heads, title=table.title, title_justify="left",
        box=None, padding=(0, 2, 0, 0), pad_edge=False,
    )  # fmt: skip
    for at, line in enumerate(table.lines):
        if line.printed and not table.lines[at - 1].printed:
            shown.add_row()
            shown.add_row(Text("printed by the paper", "dim italic"))
        label = Text(line.label, "bold" if table.beside and not line.printed else "")
        numbers = [] if table.beside else [Text("/".join(line.numbers), "dim")]
        shown.add_row(label, *numbers, *(_cell(cell, gap) for cell in line.cells))
    return shown


def _cell(cell: Cell | None, gap: str | None) -> Text:
    """A figure, and after a gap its interval; without a gap the figure alone."""
    if cell is None:
        return Text("")
    text = Text(cell.text + ("?" if cell.doubts else ""))
    return text.append(f"{gap}({cell.interval})", "dim") if gap and cell.interval else text
