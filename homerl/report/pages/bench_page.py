"""The report of a benchmark as one HTML file: success by group, errors, the paper's figures, and some trajectories.

Invariants: the page needs no other file; every text of a run is escaped, by the template or by the charts; dialogues and
changes of the home are shown as stored. For large runs the page shows the first dialogues of each subcategory and
outcome, and says how many are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homerl.host.pages.templates import load_template
from homerl.play.dialogue import ShownDialogue
from homerl.play.metrics.contract import Share, format_percent
from homerl.play.metrics.registry import METRICS
from homerl.play.trajectory import locate_row_errors, read_rows, trajectory_from_row
from homerl.report.pages import charts
from homerl.report.pages.bench_results import BenchReport, figures_by_label, judge_sentence
from homerl.report.pages.glossary import glossary_of_world
from homerl.report.pages.page import readable_dialogue

EACH = 4  # dialogues shown of one subcategory and outcome (success or not)


@dataclass(frozen=True)
class BenchEntry:
    """One result with its dialogue."""

    result: dict[str, Any]
    played: ShownDialogue


def render_bench_page(report: BenchReport) -> str:
    """The page as HTML."""
    categories, rows = report.printed_figures()
    shown = list(select_entries(report))
    words = glossary_of_world(report.world)
    filters: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "explained": words.explain_terms_as_html,
        "full": words.expand_abbreviations,
        "meaning": words.meaning_of_term,
    }
    return load_template(Path(__file__).with_name("bench.html.jinja"), **filters).render(
        report=report,
        score=report.score,
        parts=figures_by_label(report.score),
        bar=charts.interval_bar,
        errors=list(count_errors(report)),
        taxonomy=report.world.taxonomy,
        judge=judge_sentence(report.score),
        categories=categories,
        overall=overall_success(report, categories),
        printed=sorted(rows, key=lambda row: -row["overall"]),
        entries=shown,
        shares=[metric for metric in METRICS.values() if isinstance(metric, Share)],
        hidden=len(report.results) - len(shown),
    )


def overall_success(report: BenchReport, categories: Sequence[str]) -> float | None:
    """Success over all of the paper's categories; None if others were played, for then it is not the paper's figure."""
    played = report.score.get("by_category", {})
    return report.score.get("success") if set(played) == set(categories) else None


def count_errors(report: BenchReport) -> Iterator[tuple[str, str, int, float]]:
    """(dimension in words, type, count, share of all failures), in the score's order: most frequent first."""
    counts = report.score.get("errors", {})
    known = report.world.dimensions
    for name, count in counts.items():
        dimension, _, kind = name.partition(": ")
        yield f"{dimension}: {known.get(dimension, dimension)}", kind, count, count / sum(counts.values())


def select_entries(report: BenchReport) -> Iterator[BenchEntry]:
    """The results whose dialogues are shown, in the suite's order."""
    seen: Counter[tuple[str, bool]] = Counter()
    path = report.folder / "trajectories.jsonl"
    for number, (result, row) in enumerate(zip(report.results, read_rows(path), strict=True), 1):
        kind = result.get("subcategory", ""), result["success"]
        seen[kind] += 1
        if seen[kind] <= EACH:
            with locate_row_errors(f"{path}:{number}"):
                dialogue = readable_dialogue(trajectory_from_row(row))
            yield BenchEntry(dict(result), dialogue)
