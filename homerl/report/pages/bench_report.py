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
from homerl.report.pages.bench_page import count_errors, overall_success, render_bench_page
from homerl.report.pages.bench_results import BenchReport, Row, judge_sentence, list_score_groups
from homerl.report.pages.glossary import glossary_of_world

FREQUENT = 5  # reasons of left-out episodes that are named
MANY = 8  # most columns that a terminal shows in full


def write_bench_report(folder: Path) -> Group:
    """Write `report.csv` and `report.html` to the run's folder; return tables for the terminal."""
    report = BenchReport.read_folder(folder)
    write_atomic(folder / "report.csv", bench_report_to_csv(report))
    write_atomic(folder / "report.html", render_bench_page(report).encode("utf-8", "replace"))
    return bench_report_tables(report)


def bench_report_to_csv(report: BenchReport) -> str:
    """One row for the whole, and for each value of each label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["suite", "model", "setting", "group", "value", "n", "success", "low", "high"])
    for group, value, row in list_score_groups(report.score):
        fixed = [report.suite_name, report.model_name, report.setting_name, group, value, row["n"]]
        writer.writerow([*fixed, *(f"{share:.6f}" for share in (row["success"], *row["interval"]))])
    return text.getvalue()


def bench_report_tables(report: BenchReport) -> Group:
    """Tables for the terminal: success by group, errors, why episodes were left out, and the paper's figures."""
    found: list[Table | str] = [_success(report)]
    if report.score.get("errors"):
        found.append(_errors(report))
    if report.fault_counts:
        found.append(faults_table(report))
    if judge := judge_sentence(report.score):
        found.append(f"{judge[0].upper()}{judge[1:]}.")
    categories, rows = report.printed_figures()
    if rows:
        found.append(_printed(report, categories, rows))
    return Group(*found, f"report: {report.folder / 'report.html'}")


def _success(report: BenchReport) -> Table:
    score = report.score
    table = Table(
        "", *_right("n", "success %", "95 %"), title=f"{report.suite_name}, {report.setting_name}: {report.model_name}"
    )
    group, words = None, glossary_of_world(report.world)
    for label, value, row in list_score_groups(score):
        if group not in (None, label):
            table.add_section()
        group = label
        low, high = row["interval"]
        name = words.expand_abbreviations(value.replace("_", " ")) or (report.played_part and "these tasks") or "overall"
        table.add_row(name, str(row["n"]), f"{100 * row['success']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}")
    notes = [report.played_part] if report.played_part else []
    notes += [f"{metric.heading} {said}" for metric, said in report.metric_texts]
    notes += [f"{report.left_out_count} left out: nobody's failure"] if report.left_out_count else []
    notes += [f"cost {report.token_cost:.2f}"] if report.token_cost is not None else []
    notes += [f"pass^{k} {100 * share:.1f} %{of and f' ({of})'}" for k, share, of in report.pass_hat]
    table.caption = ", ".join(notes)
    return table


def _errors(report: BenchReport) -> Table:
    table = Table("dimension", "error", *_right("n", "%"), title="why instances failed")
    for dimension, kind, count, share in count_errors(report):
        table.add_row(dimension, kind, str(count), f"{100 * share:.1f}")
    return table


def _right(*names: str) -> Iterator[Column]:
    """Columns of figures."""
    return (Column(name, justify="right") for name in names)


def faults_table(report: BenchReport) -> Table:
    """The most frequent reasons of episodes that were left out."""
    table = Table("who failed", "why", *_right("n"), title="why episodes were left out")
    for who, reason, count in report.fault_counts[:FREQUENT]:
        table.add_row(who, Text(reason), str(count))
    if rest := sum(count for _, _, count in report.fault_counts[FREQUENT:]):
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
    whole = overall_success(report, categories)
    table.add_row(Text(report.model_name, "bold"), *figures([*ours, None if whole is None else 100 * whole]))
    table.add_section()
    for row in sorted(rows, key=lambda row: -row["overall"]):
        table.add_row(row["model"], *figures([*row["categories"], row["overall"]]))
    return table
