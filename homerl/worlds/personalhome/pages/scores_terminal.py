"""The report of runs as tables for a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Column
from rich.table import Table as Shown
from rich.text import Text

from homerl.worlds.personalhome.bench.report import Report
from homerl.worlds.personalhome.bench.tables import Cell, Table


def tables(report: Report) -> Group:
    """All tables, with their notes below them."""
    parts: list[Shown | Text] = []
    for table in report.tables:
        parts += [_table(table), *(Text(f"  {note}", "dim") for note in table.notes), Text()]
    return Group(*parts, *map(Text, report.notes))


def _table(table: Table) -> Shown:
    """A table. Where models are lines, the intervals are left to the other tables."""
    heads = [Column(head, justify="right") for head in table.heads]
    counted = [] if table.beside else [Column("n", justify="right")]
    shown = Shown(
        Column("", no_wrap=True), *counted, *heads, title=table.title, title_justify="left", box=None, padding=(0, 2, 0, 0)
    )  # fmt: skip
    for at, line in enumerate(table.lines):
        if line.printed and not table.lines[at - 1].printed:
            shown.add_row()
        label = Text(line.label, "bold" if table.beside and not line.printed else "")
        label.append("  printed" if line.printed else "", "dim")
        numbers = [] if table.beside else [Text("/".join(line.numbers), "dim")]
        shown.add_row(label, *numbers, *(_cell(cell, not table.beside) for cell in line.cells))
    return shown


def _cell(cell: Cell | None, whole: bool) -> Text:
    if cell is None:
        return Text("")
    text = Text(cell.text + (" ?" if cell.doubts else ""))
    return text.append(f" ({cell.interval})", "dim") if whole and cell.interval else text

