"""The result of a flywheel run: a table for the terminal and a page for the browser.

Invariants: both show the figures of `score.json`, rounded once; parts for which a run has no data are left out; writing
is atomic, so a reader never sees half a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from homerl.envs.core.documents import write_atomic
from homerl.play.metrics.contract import format_percent
from homerl.report.pages.glossary import glossary_of_world
from homerl.report.pages.page import format_points, render_flywheel_page, shown_world, suggest_commands
from homerl.report.pages.run import MODELS, PLAYERS, FlywheelRun, Row, metric_columns, read_flywheel_run, success_by_category


@dataclass(frozen=True)
class FlywheelReport:
    """The tables to print, the path of the page, and (purpose, command) of possible next steps."""

    table: RenderableType
    page: Path
    next: tuple[tuple[str, str], ...]


def write_flywheel_report(out: Path) -> FlywheelReport:
    """Read the run in `out`, write `out/report.html`, and return the tables and the path."""
    run = read_flywheel_run(out)
    page = out / "report.html"
    write_atomic(page, render_flywheel_page(run).encode("utf-8", "replace"))
    return FlywheelReport(Group(score_table(run), *category_tables(run)), page, tuple(suggest_commands(run)))


def score_table(run: FlywheelRun) -> Table:
    """One row for each model and one for the expert; all metrics but success are those of the first suite."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))  # within 80 columns
    table.caption, table.caption_justify, table.caption_style = gain_caption(run), "left", ""
    table.add_column("model")
    for suite, by_model in run.scores.items():
        tasks = max(score["n"] for score in by_model.values())
        table.add_column(Text(f"{suite}\nsuccess, n={tasks}"), justify="right")
    for metric in metric_columns():
        table.add_column("\n".join(["", *metric.heading.split(" ", 1)][-2:]), justify="right")  # of two lines
    for model, name in PLAYERS.items():
        if any(model in by_model for by_model in run.scores.values()):
            if model not in MODELS:
                table.add_section()
            table.add_row(
                name.replace(" (", "\n("), *model_cells(run, model), style="bold" if model == run.shown_model else ""
            )
    return table


def model_cells(run: FlywheelRun, model: str) -> Iterator[Text]:
    """A model's cells after its name: success in each suite, then the other metrics of the first suite."""
    suites = list(run.scores.values())
    for by_model in suites:
        most = max(score["n"] for score in by_model.values())
        yield success_cell(by_model.get(model, {}), most)
    for metric in metric_columns():
        yield Text(metric.format_score(suites[0].get(model, {})))


def success_cell(score: Row, tasks: int | None = None) -> Text:
    """Success in percent with its interval, as `71.2 %  67.4–75.0`, and n if it is not `tasks`; empty without a score."""
    if "success" not in score:
        return Text("")
    low, high = (f"{100 * bound:.1f}" for bound in score["interval"])
    of = f"n={score['n']}  " if tasks not in (None, score["n"]) else ""
    return Text.assemble((of, "dim not bold"), format_percent(score["success"]), (f"{f'{low}–{high}':>11}", "dim not bold"))


def category_tables(run: FlywheelRun) -> Iterator[Table]:
    """For each suite with categories, success by category and model."""
    for suite, by_model in run.scores.items():
        found = {
            name: by for name, by in success_by_category(by_model).items() if any("n" in score for score in by.values())
        }
        if not found:
            continue
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(Text(suite))
        models = [model for model in MODELS if model in by_model]
        for name in ("n", *(MODELS[model] for model in models)):
            table.add_column(name, justify="right")
        for name, by in found.items():
            n = max(score["n"] for score in by.values())
            table.add_row(name, str(n), *(success_cell(by.get(model, {})) for model in models))
        words = glossary_of_world(shown_world(run))
        full = [words.expand_abbreviations(name) for name in found if words.expand_abbreviations(name) != name]
        table.caption, table.caption_justify, table.caption_style = ", ".join(full) or None, "left", "dim"
        yield table


def gain_caption(run: FlywheelRun) -> Text:
    """RLVE's gain over SFT, one line for each suite."""
    if not run.scores:
        return Text(" nothing was benchmarked yet")
    lines = [gain_line(suite, gain) for suite, gain in run.gains.items()]
    if len(run.scores) > 1:
        *most, last = (metric.heading for metric in metric_columns())
        lines.append(Text(f"{', '.join(most)} and {last} are of {next(iter(run.scores))}", "dim"))
    return Text.assemble(" ", Text("\n ").join(lines))  # indented like the table


def gain_line(suite: str, gain: Mapping[str, Any]) -> Text:
    """A suite's gain in points with its interval; green if it is above 0, red if below."""
    low, high = gain["interval"]
    style = "bold green" if low > 0 else "bold red" if high < 0 else "bold"
    interval = f" points (95 % {format_points(low)} to {format_points(high)})"
    return Text.assemble(f"RLVE − SFT on {suite}: ", (format_points(gain["gain"]), style), interval)
