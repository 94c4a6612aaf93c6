"""Reads the folder of a flywheel run.

Invariants: data that a partial run lacks are empty or None, never an error; figures are those of the files (only the
paired gain is computed, by the benchmark's own function); nothing is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import read_json
from homerl.host.run_folders import RECIPE, RECORD
from homerl.play.metrics.contract import Mean
from homerl.play.metrics.registry import METRICS
from homerl.play.trajectory import Outcome, Trajectory, locate_row_errors, read_rows, trajectory_from_row

MODELS = {"untrained": "untrained", "sft": "after SFT", "rlve": "after RLVE"}
PLAYERS = MODELS | {"expert": "expert (upper bound)"}  # whose scores a run holds; the expert knows the solution
EXAMPLES = 3
Row = Mapping[str, Any]


def metric_columns() -> list[Mean]:
    """The metrics that a flywheel's tables show beside success."""
    return [metric for metric in METRICS.values() if metric.column]


@dataclass(frozen=True)
class FlywheelRun:
    """The content of a run's folder; `scores` and `gains` are by suite, in the recipe's order."""

    out: Path
    recipe: Row
    recipe_text: str
    record: Row
    finished: str | None
    scores: Mapping[str, Mapping[str, Row]]
    gains: Mapping[str, Row]
    synthesis: Row
    difficulties: tuple[float, ...]
    sft: tuple[Row, ...]
    rlve: tuple[Row, ...]
    shown_model: str | None
    examples: tuple[Trajectory, ...]
    rollouts: tuple[Trajectory, ...]

    @property
    def name(self) -> str:
        """The name of the run's folder, also where that is written as `.`."""
        return self.out.resolve().name

    @property
    def has_expert(self) -> bool:
        """Whether the upper bound was played."""
        return any("expert" in by_model for by_model in self.scores.values())


def read_flywheel_run(out: Path) -> FlywheelRun:
    """Read a run's folder, complete or not."""
    recipe_text = _read_text(out / RECIPE)
    recipe = yaml.safe_load(recipe_text) or {}
    scores = _read_scores(out, [suite.get("name", "") for suite in (recipe.get("bench") or {}).get("suites") or ()])
    benchmarked = {model for by_model in scores.values() for model in by_model}
    shown = next((model for model in reversed(MODELS) if model in benchmarked), None)
    suite = next((suite for suite, by_model in scores.items() if shown in by_model), None)
    updates = sorted((out / "rlve/rollouts").glob("update_*.jsonl"))
    return FlywheelRun(
        out=out,
        recipe=recipe,
        recipe_text=recipe_text,
        record=_read_mapping(out / RECORD),
        finished=_find_end_time(out),
        scores=scores,
        gains={suite: gain for suite in scores if (gain := _compute_gain(out, suite))},
        synthesis=_read_mapping(out / "synth/stats.json"),
        difficulties=tuple(row["difficulty"] for row in _read_lines(out / "synth/blueprints.jsonl") if row.get("rollouts")),
        sft=read_training_metrics(out / "sft"),
        rlve=read_training_metrics(out / "rlve"),
        shown_model=shown,
        examples=first_of_each_outcome(out / f"{shown}/bench/{suite}/trajectories.jsonl", EXAMPLES),
        rollouts=first_of_each_outcome(updates[-1], 1) if updates else (),
    )


def first_of_each_outcome(path: Path, n: int) -> tuple[Trajectory, ...]:
    """The first n successes, then the first n failures of a file of trajectories."""
    found: dict[bool, list[Trajectory]] = {True: [], False: []}
    for number, row in enumerate(read_rows(path) if path.is_file() else (), 1):
        with locate_row_errors(f"{path}:{number}"):
            outcome = Outcome(row["outcome"])
            kind = found[outcome is Outcome.SUCCESS]
            if outcome.is_counted and len(kind) < n:
                kind.append(trajectory_from_row(row))
        if all(len(kind) == n for kind in found.values()):
            break
    return (*found[True], *found[False])


def metric_curve(rows: Sequence[Row], key: str) -> list[tuple[float, float]]:
    """(step, value) of each row with a finite value of `key`; for rows of one step, the last."""
    points = {row["step"]: row[key] for row in rows if _is_finite(row.get(key))}
    return sorted(points.items())


def success_by_category(by_model: Mapping[str, Row]) -> dict[str, dict[str, Row]]:
    """Success by category and model, with intervals; by family, without intervals, if there are no categories."""
    found: dict[str, dict[str, Row]] = {}
    for model, score in by_model.items():
        families = {name: {"success": share} for name, share in score.get("by_family", {}).items()}
        for name, part in (score.get("by_category") or families).items():
            found.setdefault(name, {})[model] = part
    return dict(sorted(found.items()))


def curves_by_index(rows: Sequence[Row], prefix: str) -> dict[int, list[tuple[float, float]]]:
    """The curves of `prefix/0`, `prefix/1`, ..., by that index."""
    indices = {int(key.rpartition("/")[2]) for row in rows for key in row if key.startswith(f"{prefix}/")}
    return {index: metric_curve(rows, f"{prefix}/{index}") for index in sorted(indices)}


def outcome_curves(rows: Sequence[Row]) -> tuple[list[float], dict[str, list[float]]]:
    """(steps, the share of each outcome at each step); an outcome missing at a step has share 0."""
    curves = {str(outcome): dict(metric_curve(rows, f"outcome/{outcome}")) for outcome in Outcome}
    steps = sorted({step for points in curves.values() for step in points})
    return steps, {name: [points.get(s, 0.0) for s in steps] for name, points in curves.items() if points}


def reward_by_step(rows: Sequence[Row]) -> dict[int, list[tuple[float, float]]]:
    """The curve of the mean reward at each step index, summed over its parts."""
    totals: dict[int, dict[float, float]] = {}
    for row in rows:
        for key, value in row.items():
            if key.startswith("reward_by_step/") and _is_finite(value):
                at = totals.setdefault(int(key.rpartition("/")[2]), {})
                at[row["step"]] = at.get(row["step"], 0.0) + value
    return {index: sorted(points.items()) for index, points in sorted(totals.items())}


def newest_metric(rows: Sequence[Row], key: str) -> Any:
    """The newest value of a metric, or None."""
    return next((row[key] for row in reversed(rows) if key in row), None)


def _read_scores(out: Path, order: Sequence[str]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for model in PLAYERS:
        for path in sorted((out / model / "bench").glob("*/score.json")):
            found.setdefault(path.parent.name, {})[model] = _read_mapping(path)
    ranks = {name: rank for rank, name in enumerate(order)}
    return dict(sorted(found.items(), key=lambda item: (ranks.get(item[0], len(ranks)), item[0])))


def _compute_gain(out: Path, suite: str) -> Row | None:
    """RLVE's paired gain over SFT on a suite, over episodes that count for both; None if there are none."""
    paths = [out / model / "bench" / suite / "results.jsonl" for model in ("sft", "rlve")]
    before, after = ([row for row in _read_lines(path) if Outcome(row["outcome"]).is_counted] for path in paths)
    shared = {row["id"] for row in before} & {row["id"] for row in after}
    return paired_difference(before, after) if shared else None


def _find_end_time(out: Path) -> str | None:
    """When the newest result of the run was written, in UTC."""
    products = ("*/bench/*/score.json", "*/metrics.jsonl", "synth/stats.json")
    newest = max((path.stat().st_mtime for product in products for path in out.glob(product)), default=None)
    if newest is None:
        return None
    return datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _read_mapping(path: Path) -> dict[str, Any]:
    return read_json(path).data if path.is_file() else {}


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON Lines file; an incomplete line of a killed run is skipped."""
    for line in _read_text(path).split("\n"):  # a text may hold other ends of lines
        try:
            yield json.loads(line)
        except ValueError:
            continue


def read_training_metrics(folder: Path) -> tuple[Row, ...]:
    """What a training logged in its folder; empty if there is nothing."""
    return tuple(_read_lines(folder / "metrics.jsonl"))


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
