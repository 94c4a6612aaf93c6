"""The report of a benchmark run: terminal tables, CSV, and one HTML page (`homerl.report.pages.bench_page`).

Invariants: every figure is the score's or is computed from the results; the papers' figures stand beside ours, marked as
printed, and are never mixed with them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from homerl.envs.core.documents import write_atomic
from homerl.report.pages.bench_page import errors, overall, render
from homerl.report.pages.bench_results import BenchReport, Row, groups, says_judge
from homerl.report.pages.glossary import glossary_of

FREQUENT = 5  # reasons of left-out episodes that are named
MANY = 8  # most columns that a terminal shows in full


def write_report(folder: Path) -> Group:
    """Write `report.csv` and `report.html` to the run's folder; return tables for the terminal."""
    report = BenchReport.read(folder)
    write_atomic(folder / "report.csv", as_csv(report))
    write_atomic(folder / "report.html", render(report).encode("utf-8", "replace"))
    return tables(report)


def as_csv(report: BenchReport) -> str:
    """One row for the whole, and for each value of each label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["suite", "model", "setting", "group", "value", "n", "success", "low", "high"])
    for group, value, row in groups(report.score):
        fixed = [report.suite, report.model, report.setting, group, value, row["n"]]
        writer.writerow([*fixed, *(f"{share:.6f}" for share in (row["success"], *row["interval"]))])
    return text.getvalue()


def tables(report: BenchReport) -> Group:
    """Tables for the terminal: success by group, errors, why episodes were left out, and the paper's figures."""
    found: list[Table | str] = [_success(report)]
    if report.score.get("errors"):
        found.append(_errors(report))
    if report.faults:
        found.append(faults_table(report))
    if judge := says_judge(report.score):
        found.append(f"{judge[0].upper()}{judge[1:]}.")
    categories, rows = report.printed()
    if rows:
        found.append(_printed(report, categories, rows))
    return Group(*found, f"report: {report.folder / 'report.html'}")


def _success(report: BenchReport) -> Table:
    score = report.score
    table = Table("", *_right("n", "success %", "95 %"), title=f"{report.suite}, {report.setting}: {report.model}")
    group, words = None, glossary_of(report.world)
    for label, value, row in groups(score):
        if group not in (None, label):
            table.add_section()
        group = label
        low, high = row["interval"]
        name = words.in_full(value.replace("_", " ")) or (report.part and "these tasks") or "overall"
        table.add_row(name, str(row["n"]), f"{100 * row['success']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}")
    notes = [report.part] if report.part else []
    notes += [f"{metric.heading} {said}" for metric, said in report.metrics]
    notes += [f"{report.left_out} left out: nobody's failure"] if report.left_out else []
    notes += [f"cost {report.cost:.2f}"] if report.cost is not None else []
    notes += [f"pass^{k} {100 * share:.1f} %{of and f' ({of})'}" for k, share, of in report.pass_hat]
    table.caption = ", ".join(notes)
    return table


def _errors(report: BenchReport) -> Table:
    table = Table("dimension", "error", *_right("n", "%"), title="why instances failed")
    for dimension, kind, count, share in errors(report):
        table.add_row(dimension, kind, str(count), f"{100 * share:.1f}")
    return table


def _right(*names: str) -> Iterator[Column]:
    """Columns of figures."""
    return (Column(name, justify="right") for name in names)


def faults_table(report: BenchReport) -> Table:
    """The most frequent reasons of episodes that were left out."""
    table = Table("who failed", "why", *_right("n"), title="why episodes were left out")
    for who, reason, count in report.faults[:FREQUENT]:
        table.add_row(who, Text(reason), str(count))
    if rest := sum(count for _, _, count in report.faults[FREQUENT:]):
        table.add_row("", "other reasons", str(rest))
    return table


def _printed(report: BenchReport, categories: Sequence[str], rows: Sequence[Row]) -> Table:
    many = len(categories) > MANY  # a terminal has 80 columns
    heads = [name.removeprefix("QT").replace("-", ".").replace(" ", "\n") if many else name for name in categories]
    shape: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "pad_edge": False} if many else {}
    title = "beside the paper's figures, as printed"
    table = Table("success %", *_right(*heads, "all" if many else "overall"), title=title, **shape)
    by, digits = report.score.get("by_category", {}), 0 if many else 1

    def figures(values: Iterable[float | None]) -> list[str]:
        return ["" if value is None else f"{value:.{digits}f}" for value in values]

    ours = [100 * by[name]["success"] if name in by else None for name in categories]
    whole = overall(report, categories)
    table.add_row(Text(report.model, "bold"), *figures([*ours, None if whole is None else 100 * whole]))
    table.add_section()
    for row in sorted(rows, key=lambda row: -row["overall"]):
        table.add_row(row["model"], *figures([*row["categories"], row["overall"]]))
    return table
