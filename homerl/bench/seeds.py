"""A table of several flywheel runs: each seed's scores and paired gain, then their mean and its interval over the seeds.

Invariants: the figures come from the runs' own results; a run without results is refused with its path. The interval of a
run's gain is over its tasks; that of the mean is over the runs, and so says what another seed may give.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.table import Table

from homerl.bench.score import paired_difference, score_results
from homerl.envs.core.documents import InputError
from homerl.host.measure.intervals import student_interval
from homerl.play.results import SCORED, read_results_file

MODELS = ("untrained", "sft", "rlve")


def build_seeds_table(runs: Sequence[Path], suite: str) -> Table:
    """A table with one row for each run: success of each model in percent, and RLVE's gain over SFT in points."""
    table = Table("run", "untrained", "SFT", "RLVE", "RLVE − SFT", "95 %", title=f"success on {suite} in %, gains in points")
    columns: list[list[float]] = [[] for _ in (*MODELS, "gain")]
    for run in runs:
        results = [read_model_results(run, model, suite, SCORED) for model in MODELS]
        gain = paired_difference(results[1], results[2])
        values = [*(100 * score_results(rows)["success"] for rows in results), 100 * gain["gain"]]
        for column, value in zip(columns, values):
            column.append(value)
        low, high = (100 * bound for bound in gain["interval"])
        table.add_row(str(run), *(f"{v:.1f}" for v in values[:-1]), f"{values[-1]:+.1f}", f"{low:+.1f} to {high:+.1f}")
    if len(runs) > 1:
        table.add_section()
        means = [fmean(column) for column in columns]
        table.add_row("mean", *(f"{m:.1f}" for m in means[:-1]), f"{means[-1]:+.1f}", _interval(columns[-1]))
        table.add_row("spread (s.d.)", *(f"{stdev(column):.1f}" for column in columns), "")
    return table


def _interval(gains: Sequence[float]) -> str:
    """The interval of the mean gain; nothing if all gains are equal, since few equal values say nothing of others."""
    if len(set(gains)) == 1:
        return ""
    low, high = student_interval(gains)
    return f"{low:+.1f} to {high:+.1f}"


def find_scored_suites(run: Path) -> list[str]:
    """The names of the suites on which a run's last model was scored. Raises `InputError` if there are none."""
    scored = sorted(path.parent.name for path in (run / MODELS[-1] / "bench").glob("*/results.jsonl"))
    if not scored:
        raise InputError(
            "this run has no results", where=str(run), remedy="name a flywheel's folder, and let it finish first"
        )
    return scored


def read_model_results(run: Path, model: str, suite: str, needed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The results of one model of a run on a suite, with the `needed` keys; `InputError` if there are none."""
    path = run / model / "bench" / suite / "results.jsonl"
    if not path.exists():
        raise InputError("this run has no such results", where=str(path), remedy="let the flywheel finish first")
    return list(read_results_file(path, needed))
