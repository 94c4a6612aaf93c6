"""Shows a part's figures at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from gpu.breakdown import GROUPS

APART = ("by_group", "trl", "failed", "cut", "doubts", "predicted_gb", "peak_gb", "kernels")


def show(part: str, figures: dict[str, Any], console: Console | None = None) -> None:
    """Print the figures, the table of the update and the reasons of failures."""
    console = console or Console(width=120, markup=False)
    trl = figures.get("trl", {})
    console.rule(part)
    for whose, side in (("homerl", figures), ("TRL", trl)):
        if "failed" in side:
            console.print(f"{whose} failed: {side['failed']}", highlight=False)
        if "cut" in side:
            console.print(f"{whose} was cut after {side['updates']} updates: {side['cut']}", highlight=False)
        for doubt in side.get("doubts", ()):
            console.print(f"{whose}: do not trust where its time goes: {doubt}", highlight=False)
    for table in (figures_table(figures, trl), update_table(figures, trl), kernels_table(figures), memory_table(figures)):
        if table.row_count:
            console.print(table)


def figures_table(ours: dict[str, Any], trl: dict[str, Any]) -> Table:
    """Every other figure by name, with four digits; `–` where a side has none."""
    table = Table("figure", "homerl", "TRL")
    named = [dict(_flat(side)) for side in (ours, trl)]
    for name in dict.fromkeys(name for side in named for name in side):
        table.add_row(name, *(_shown(side.get(name)) for side in named))
    return table


def _flat(side: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The figures of a side, with those of its parts as `part.name`."""
    for key, value in side.items():
        if key != "kernels" and (above or key not in APART):
            yield from _flat(value, f"{above}{key}.") if isinstance(value, dict) else [(above + key, value)]


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)


def update_table(ours: dict[str, Any], trl: dict[str, Any]) -> Table:
    """Seconds and shares of an update by group, with a bar for each."""
    table = Table("training of an update", "homerl, s", "share", "", "TRL, s", "share", "")
    groups = [side.get("by_group") or {} for side in (ours, trl)]
    for group in GROUPS if any(groups) else ():
        cells: list[str] = []
        for spent in groups:
            whole = sum(spent.values())
            part = spent.get(group, 0.0) / whole if whole else 0.0
            cells += [f"{spent.get(group, 0.0):.3f}", f"{100 * part:.1f} %", "█" * round(20 * part)] if spent else [""] * 3
        table.add_row(group, *cells)
    return table


def kernels_table(figures: dict[str, Any]) -> Table:
    """The kernels of homerl's update that took longest."""
    table = Table("group", "kernel", "seconds", "times")
    for group, name, seconds, times in figures.get("kernels", ()):
        table.add_row(group, name[:70], f"{seconds:.4f}", str(times))
    return table


def memory_table(figures: dict[str, Any]) -> Table:
    """Predicted and measured GB by phase."""
    table = Table("peak memory", "predicted, GB", "measured, GB", "measured / predicted")
    measured = figures.get("peak_gb") or {}
    for phase, gb in (figures.get("predicted_gb") or {}).items():
        found = measured.get(phase) if isinstance(measured, dict) else None
        table.add_row(phase, f"{gb:.2f}", *([f"{found:.2f}", f"{found / gb:.2f}"] if found else ["–", "–"]))
    return table
