"""A metric of the reports is one object: with it, every file and every view has the metric."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.stored_scores import rescore_run
from homerl.play.bench_results import METRICS, read_bench_results
from homerl.play.metrics.contract import Mean, Share
from homerl.report.cards.model_card import _describe_scores
from homerl.report.pages import bench_report
from homerl.report.pages import bench_report as bench_log
from homerl.report.pages import flywheel_report as report
from homerl.report.pages import world_pages as glossary
from homerl.report.pages.bench_report import BenchReport
from homerl.report.pages.flywheel_report import read_flywheel_run

# The metric that CONTRIBUTING.md shows, for the tables of flywheels too, and a share.
STEPS = Mean(
    "steps",
    "steps a task",
    "The mean number of steps of a task.",
    "{:.2f}".format,
    lambda played, world: len(played.steps),
    column=True,
)
LONG = Share(
    "long", "long talks", "Talks of more than a step.", "{:.3f}".format, lambda played, world: len(played.steps) - 1
)


def printed(table: object) -> str:
    Console(file=(text := io.StringIO()), width=200).print(table)
    return " ".join(text.getvalue().split())


def test_it_is_all_that_every_report_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "steps", STEPS)
    monkeypatch.setitem(METRICS, "long", LONG)
    out = tmp_path / "sft/bench/heldout"
    scored = run_benchmark(BenchRun("smh-bench", "expert", out, limit=4))
    steps = [row["steps"] for row in read_bench_results(out)]
    said = f"{sum(steps) / 4:.2f}"
    assert scored["steps"] == sum(steps) / 4 > 0 and scored["long"]["n"] == 4
    assert "the same results" in rescore_run(out)
    table, page = printed(bench_report.write_bench_report(out)), (out / "report.html").read_text("utf-8")
    assert f"steps a task {said}" in table and "long talks 1.000" in table
    assert f'<abbr title="The mean number of steps of a task.">steps a task</abbr></dt><dd>{said}</dd>' in page
    logged = bench_log.flatten_score(BenchReport.read_folder(out))
    assert logged["bench/steps"] == scored["steps"] and logged["bench/long/share"] == scored["long"]["share"]
    card = _describe_scores({"heldout": scored})
    assert "| steps a task | long talks |" in card and f"| {said} | 1.000" in card
    assert "- **steps a task**: The mean number of steps of a task." in glossary.render_glossary_page()
    whole = printed(report.score_table(read_flywheel_run(tmp_path)))
    assert "steps" in whole and "a task" in whole and said in whole
    report.write_flywheel_report(tmp_path)
    assert f'<td class="n">{said}</td>' in (tmp_path / "report.html").read_text("utf-8")


def test_results_that_are_older_than_a_metric_are_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = run_benchmark(BenchRun("smh-bench", "expert", tmp_path, limit=2))
    monkeypatch.setitem(METRICS, "steps", STEPS)
    assert "the same results" in rescore_run(tmp_path) and "steps" not in json.loads((tmp_path / "score.json").read_text())
    assert not STEPS.format_score(scored) and "steps a task" not in printed(bench_report.write_bench_report(tmp_path))
