"""The page of a leaderboard, as HTML or within a Markdown page, and its tables for the terminal.

Invariants:
- Every figure is that of a result in the file beside the page (`homerl.bench.leaderboard`).
- Of a Markdown page only what stands between two marks is written; the rest is its author's.
- The HTML page needs no other file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from rich import box
from rich.console import Group

from homerl.bench.leaderboard import (
    Leaderboard,
    LeaderboardResult,
    add_results,
    read_leaderboard,
    result_of_run,
    write_leaderboard_file,
)
from homerl.envs.core.documents import InputError, ensure_writable, write_atomic
from homerl.host.terminal import count_with_noun
from homerl.report.figures import Estimate, FigureColumn, FigureTable
from homerl.report.pages.world_pages import load_report_template
from homerl.worlds.registry import default_world

BEGIN, END = "<!-- leaderboard: written by `homerl bench publish` -->", "<!-- /leaderboard -->"
MARKED = re.compile(r"(<!-- leaderboard\b[^>]*-->\n)(.*?)(<!-- /leaderboard -->)", re.DOTALL)
NEW_PAGE = f"# Leaderboard\n\n{BEGIN}\n{END}\n"
SHORT = 8  # characters of a commit that pages show


def publish_results(
    runs: Sequence[Path],
    files: Sequence[Path],
    page: Path,
    name: str | None = None,
    parameters: int | None = None,
) -> Leaderboard:
    """Add the results of runs and files to the leaderboard beside a page, and write both; return it.

    The results of a run replace earlier ones of the same thing. Raises `InputError` for what is refused; nothing is written
    then.
    """
    if page.suffix not in (".md", ".html"):
        raise InputError("a page of a leaderboard ends in .html or .md", str(page), "for example --out leaderboard.html")
    board_file = page.with_suffix(".json")
    for file in (page, board_file):
        ensure_writable(file)
    board = Leaderboard(homerl_leaderboard=1)
    for file in [*([board_file] if board_file.is_file() else []), *files]:
        board = add_results(board, read_leaderboard(file).results, file)
    for run in runs:
        board = add_results(board, [result_of_run(run, name, parameters)], run, replace=True)
    text = markdown_of_leaderboard(board, page) if page.suffix == ".md" else html_of_leaderboard(board)
    write_leaderboard_file(board, board_file)
    write_atomic(page, text)
    return board


def markdown_of_leaderboard(board: Leaderboard, page: Path) -> str:
    """The text of a Markdown page, with the tables between its marks. Raises `InputError` if it has none."""
    text = page.read_text("utf-8") if page.is_file() else NEW_PAGE
    parts = []
    for (suite, setting), results in board.by_suite().items():
        played = "\n".join(f"- {one.model}: `{one.command}`{_commit_of(one)}" for one in results)
        parts.append(f"## {suite}, {setting}\n\n{suite_table(results).to_markdown()}\n\nPlayed with:\n\n{played}\n")
    tables = "\n".join(parts) or "There are no results yet.\n"
    written, times = MARKED.subn(lambda found: f"{found[1]}\n{tables}\n{found[3]}", text)
    if times != 1:
        what = "the page has no place for the tables" if not times else "the page has several places for the tables"
        raise InputError(what, str(page), f"write the line {BEGIN} where they begin, and {END} where they end, once")
    return written


def html_of_leaderboard(board: Leaderboard) -> str:
    """The page as HTML."""
    template = load_report_template("leaderboard.html.jinja", default_world(), commit=_commit_of)
    return template.render(suites={key: (results, suite_table(results)) for key, results in board.by_suite().items()})


def leaderboard_tables(board: Leaderboard) -> Group:
    """The tables for the terminal."""
    tables = (
        suite_table(results).to_rich(title=f"{suite}, {setting}", box=box.SIMPLE_HEAD, pad_edge=False)
        for (suite, setting), results in board.by_suite().items()
    )
    return Group(*tables)


def suite_table(results: Sequence[LeaderboardResult]) -> FigureTable:
    """The results of one suite and setting. A column that no result fills is left out."""
    columns = (
        FigureColumn("model", right=False, is_name=True),
        FigureColumn("parameters", write=short_count),
        FigureColumn("success", html=lambda success: Markup("<b>{}</b>").format(success)),
        FigureColumn("95 %", write=Estimate.bounds_text),
        FigureColumn("n", write="{:,}".format),
        FigureColumn("tokens a task", write="{:,.0f}".format),
        FigureColumn("cost of 1,000 tasks", write="{:,.2f}".format),
        FigureColumn("grader"),
        FigureColumn("notes", right=False),
    )
    rows = [
        (
            one.model,
            one.parameters,
            (share := Estimate(one.success, one.interval, one.n)),
            share,
            one.n,
            one.tokens,
            None if one.cost is None else 1000 * one.cost,
            one.grader,
            "; ".join(one.marks) or None,
        )
        for one in results
    ]
    shown = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return FigureTable(tuple(columns[at] for at in shown), [[tuple(row[at] for at in shown) for row in rows]])


def short_count(number: int) -> str:
    """A number of parameters in three digits: `596M`, `8.19B`."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= 0.9995 * size:
            return f"{float(f'{number / size:.3g}'):g}{unit}"
    return str(number)


def _commit_of(result: LeaderboardResult) -> str:
    """Version and commit, in words."""
    return f", homerl {result.homerl}" + (f", commit {result.commit[:SHORT]}" if result.commit else "")


def describe_leaderboard(board: Leaderboard) -> str:
    """How much there is, in words."""
    suites = {result.suite for result in board.results}
    return f"{count_with_noun(len(board.results), 'result')} on {count_with_noun(len(suites), 'suite')}"
