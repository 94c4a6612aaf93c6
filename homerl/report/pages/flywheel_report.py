"""The report of a flywheel run: what its folder holds, tables for the terminal, and one HTML page.

Invariants:
- Data that a partial run lacks are empty or None, never an error. Only the paired gain is computed, by the benchmark's own
  function; all other figures are those of the files.
- Both show the figures of `score.json`, rounded once.
- The page needs no network. Its script only hides rows of the table of tasks.
- The template and the charts escape every text of the run.
- A part for which the run has no data is left out.
- Writing is atomic, so a reader never sees half a page.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import read_json, write_atomic
from homerl.host.recipe_files import RECIPE, RECORD
from homerl.play.bench_results import METRICS
from homerl.play.metrics.contract import Mean, format_percent
from homerl.play.trajectory import Outcome, Trajectory
from homerl.report import figures as charts
from homerl.report.figures import Estimate, FigureColumn, FigureTable
from homerl.report.pages.episode_pages import EXAMPLES, MODELS, PLAYERS, first_of_each_outcome
from homerl.report.pages.played_tasks import PlayedTask, dialogue_page_name, list_kinds, write_dialogue_pages
from homerl.report.pages.world_pages import glossary_of_world, load_report_template, readable_dialogue
from homerl.synth.shards import count_filter_drops
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import default_world, known_worlds, source_parts, world_of

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
    tasks: tuple[PlayedTask, ...] = ()

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
        examples=tuple(one for _, one in first_of_each_outcome(out / f"{shown}/bench/{suite}/trajectories.jsonl", EXAMPLES)),
        rollouts=tuple(one for _, one in first_of_each_outcome(updates[-1], 1)) if updates else (),
    )


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


# The page


@dataclass(frozen=True)
class ChartFigure:
    """A chart with its title and note; `legend` lists the CSS classes of its areas, which are also their names."""

    title: str
    note: str
    chart: Markup
    legend: tuple[str, ...] = ()


def render_flywheel_page(run: FlywheelRun) -> str:
    """The page as HTML."""
    drops = list_synthesis_drops(run.synthesis)
    columns = FigureColumn("dropped by", right=False), FigureColumn("because", right=False)
    sft = [_draw_metric("SFT", run.sft, *curve) for curve in SFT_CURVES]
    hardness = charts.histogram_chart("Blueprints by difficulty", run.difficulties)
    note = f"{len(run.difficulties):,} blueprints by the share of their rollouts that failed"
    return load_report_template("report.html.jinja", shown_world(run), kinds=success_by_category).render(
        run=run,
        players=PLAYERS,
        columns=metric_columns(),
        facts=list(list_run_facts(run)),
        sft=nonempty_figures(sft),
        rlve=nonempty_figures(rlve_figures(run.rlve)),
        difficulty=nonempty_figures([ChartFigure("Difficulty", note, hardness)]),
        synthesis=[(name, say(run.synthesis[key])) for name, key, say in TOTALS if key in run.synthesis],
        drops=FigureTable((*columns, FigureColumn("tasks", write="{:,}".format)), [drops]) if drops else None,
        examples=[readable_dialogue(trajectory) for trajectory in run.examples],
        rollouts=[readable_dialogue(trajectory) for trajectory in run.rollouts],
        commands=list(suggest_commands(run)),
        task_kinds=list_kinds(run.tasks),
        task_players=[model for model in PLAYERS if any(model in task.by_model for task in run.tasks)],
        page_name=dialogue_page_name,
    )


def shown_world(run: FlywheelRun) -> WorldAdapter:
    """The world whose words a run's report needs: that of the dialogues which it shows."""
    return world_of(run.examples[0].blueprint) if run.examples else default_world()


def list_run_facts(run: FlywheelRun) -> Iterator[tuple[str, str]]:
    """(name, value) of the run's settings and environment."""
    record, model = run.record, run.recipe.get("model") or {}
    listed = ((model.get("from_scratch") or {}).items(), (record.get("packages") or {}).items())
    made, packages = (", ".join(f"{key} {value}" for key, value in each if value not in (None, [])) for each in listed)
    yield "Model", model.get("name") or (f"from scratch ({made})" if made else "")
    yield "Newest result", run.finished or ""
    yield "Seed", str(record.get("seed", ""))
    yield "Command", shlex.join(record.get("command") or ())
    for name in ("Commit", "homerl", "Python"):
        yield name, record.get(name.lower()) or ""
    yield "Packages", packages
    for name, rows in (("SFT", run.sft), ("RLVE", run.rlve)):
        step, tokens, seconds = (newest_metric(rows, key) for key in ("step", "num_tokens", "train_runtime"))
        parts = [f"{step:,} updates"] if step else []
        parts += [f"{tokens:,.0f} tokens"] if tokens else []
        if seconds:
            minutes = seconds / 60
            hours = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
            parts.append(f"{seconds:.0f} s" if seconds < 120 else hours)
        yield name, ", ".join(parts)
    yield "Credit", (run.recipe.get("rlve") or {}).get("credit") or ""


def rlve_figures(rows: Sequence[Row]) -> Iterator[ChartFigure]:
    """Charts of success, reward, outcomes, learning signal and credit, by update."""
    for title, key, share in CURVES:
        yield _draw_metric("RLVE", rows, title, key, share)
    if any(share for _, share in metric_curve(rows, PREFIXED)):
        yield _draw_metric("RLVE", rows, "Prefixed rollouts", PREFIXED, share=True)
    steps, outcomes = outcome_curves(rows)
    areas = charts.stacked_area("Outcome shares by update", steps, outcomes)
    yield ChartFigure("Outcomes", "share of rollouts", areas, tuple(outcomes))
    maps = {"Credit mass": curves_by_index(rows, "credit_by_step/mass"), "Reward": reward_by_step(rows)}
    for title, curves in maps.items():
        negative = any(value < 0 for curve in curves.values() for _, value in curve)
        note = "by step; orange below 0" if negative else "by step of the episode"
        yield ChartFigure(title, note, charts.heat_map(f"{title} by step of the episode and update", curves))


PREFIXED = "curriculum/prefixed"  # while it falls, the success of rollouts may fall too
SFT_CURVES = (("Loss", "loss", False), ("Token accuracy", "mean_token_accuracy", True))
CURVES = (
    ("Success of rollouts", "success", True),
    ("Reward of rollouts", "reward", False),
    ("Entropy", "entropy", False),
    ("KL to the SFT model", "kl", False),
    ("Zero-advantage tokens", "sentinel/zero_advantage", True),
)


def nonempty_figures(figures: Iterable[ChartFigure]) -> list[ChartFigure]:
    """The figures whose charts are not empty."""
    return [shown for shown in figures if shown.chart]


TOTALS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Blueprints", "blueprints", "{:,}".format),
    ("Rollouts", "rollouts", "{:,}".format),
    ("Blueprints solved at least once", "generation_success", format_percent),
    ("Rollouts that succeed", "rollout_success", format_percent),
    ("Trajectories kept", "trajectories", "{:,}".format),
    ("Steps saved by shared prefixes", "steps_saved", format_percent),
)


def list_synthesis_drops(stats: Row) -> list[tuple[str, str, int]]:
    """(filter, reason, number of dropped candidates), most frequent first."""
    found = [(*key.partition(": ")[::2], count) for key, count in count_filter_drops(stats.get("dropped") or {}).items()]
    return sorted(found, key=lambda drop: (-drop[2], drop))


EXPORT = "my-home-agent"


def suggest_commands(run: FlywheelRun) -> Iterator[tuple[str, str]]:
    """(purpose, command) of possible next steps with this run."""
    out = shlex.quote(str(run.out))
    model = next((name for name in ("rlve", "sft") if (run.out / name / "model").is_dir()), None)
    if run.recipe and run.shown_model != "rlve":
        yield "Go on where this run stopped", f"accelerate launch {out}/recipe.yaml"
    if model and can_visit_homes(run.recipe):
        yield "Talk with the model", f"homerl chat {out}"
        yield "Replay dialogues in their homes", f"homerl view episode {out}"
    if model:
        yield "Export the model", f"homerl export {out} --to {EXPORT}"
        served = f"vllm serve {EXPORT} --enable-auto-tool-choice --tool-call-parser hermes"
        yield "Serve the export, on a GPU with vLLM", served
    if run.rollouts:
        newest = max((run.out / "rlve/rollouts").glob("update_*.jsonl"))
        purpose = "Replay training dialogues and recompute their rewards"
        yield purpose, f"homerl reverify {shlex.quote(str(newest))}"
    if run.recipe and run.shown_model == "rlve":
        seed = int(run.record.get("seed") or 0) + 1
        beside = shlex.quote(str(run.out.parent / f"{run.name}-seed{seed}"))
        again = f"accelerate launch {out}/recipe.yaml --seed {seed} --out {beside}"
        yield "The same with another seed", again


def can_visit_homes(recipe: Row) -> bool:
    """Whether a person can visit the homes in which a run's model is measured, or else trained: not in every world."""
    suites = [suite for suite in (recipe.get("bench") or {}).get("suites") or () if not suite.get("benchmark")]
    tasks = (suites[0] if suites else recipe.get("blueprints") or {}).get("recipe") or {}
    known = (part for part in source_parts(tasks) if part.get("world") in (None, *known_worlds()))
    return any(world_of(part).visits for part in known)


def _format_three_digits(value: float) -> str:
    return charts.with_minus_sign(f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}")


def _draw_metric(stage: str, rows: Sequence[Row], title: str, key: str, share: bool = False) -> ChartFigure:
    """The curve of a metric. The note says where it started and ended."""
    points = metric_curve(rows, key)
    values, note = [value for _, value in points], ""
    if values:  # single updates are noisy, so these are means over a tenth of the updates
        tenth = max(1, len(values) // 10)
        say: Callable[[float], str] = format_percent if share else _format_three_digits
        note = f"{say(fmean(values[:tenth]))} → {say(fmean(values[-tenth:]))}".replace(" % →", " →")
    return ChartFigure(title, note, charts.line_chart(f"{stage}: {title.lower()} by update", points, share))


@dataclass(frozen=True)
class FlywheelReport:
    """The tables to print, the path of the page, and (purpose, command) of possible next steps."""

    table: RenderableType
    page: Path
    next: tuple[tuple[str, str], ...]


def write_flywheel_report(out: Path) -> FlywheelReport:
    """Read the run in `out`, write `out/report.html` with the pages of its dialogues, and return the tables and the path."""
    run = read_flywheel_run(out)
    run = replace(run, tasks=tuple(write_dialogue_pages(out, run.scores)))
    page = out / "report.html"
    write_atomic(page, render_flywheel_page(run).encode("utf-8", "replace"))
    return FlywheelReport(Group(score_table(run), *category_tables(run)), page, tuple(suggest_commands(run)))


def score_table(run: FlywheelRun) -> Table:
    """One row for each model and one for the expert; all metrics but success are those of the first suite."""
    columns = [FigureColumn("model", right=False)]
    most = {suite: max(score["n"] for score in by_model.values()) for suite, by_model in run.scores.items()}
    for suite, tasks in most.items():
        columns.append(FigureColumn(f"{suite}\nsuccess, n={tasks}"))
    for metric in metric_columns():  # headings of two lines, so that the table is at most 80 characters wide
        columns.append(FigureColumn("\n".join(["", *metric.heading.split(" ", 1)][-2:])))
    first = next(iter(run.scores.values()), {})
    models: list[tuple[Any, ...]] = []
    others: list[tuple[Any, ...]] = []
    for model, name in PLAYERS.items():
        if any(model in by_model for by_model in run.scores.values()):
            successes = (success_cell(run.scores[suite].get(model, {}), tasks) for suite, tasks in most.items())
            metrics = (metric.format_score(first.get(model, {})) for metric in metric_columns())
            row = name.replace(" (", "\n("), *successes, *metrics
            (models if model in MODELS else others).append(row)
    table = FigureTable(tuple(columns), [models, others], strong=MODELS.get(run.shown_model or ""))
    shown = table.to_rich(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=gain_caption(run))
    shown.caption_justify, shown.caption_style = "left", ""
    return shown


def gain_caption(run: FlywheelRun) -> Text:
    """RLVE's gain over SFT, one line for each suite. A gain is green if its interval is above 0, and red if below."""
    if not run.scores:
        return Text(" nothing was benchmarked yet")
    lines = []
    for suite, row in run.gains.items():
        gain, (low, high) = Estimate.of_gain(row), row["interval"]
        style = "bold green" if low > 0 else "bold red" if high < 0 else "bold"
        interval = f" points (95 % {gain.bounds_text()})"
        lines.append(Text.assemble(f"RLVE − SFT on {suite}: ", (str(gain), style), interval))
    if len(run.scores) > 1:
        *most, last = (metric.heading for metric in metric_columns())
        lines.append(Text(f"{', '.join(most)} and {last} are of {next(iter(run.scores))}", "dim"))
    return Text.assemble(" ", Text("\n ").join(lines))  # indented like the table


def success_cell(score: Row, tasks: int | None = None) -> Text:
    """Success in percent with its interval, as `71.2 %  67.4–75.0`, and n if it is not `tasks`; empty without a score."""
    if "success" not in score:
        return Text("")
    success = Estimate.of_score(score)
    of = f"n={success.n}  " if tasks not in (None, success.n) else ""
    return Text.assemble((of, "dim not bold"), str(success), (f"{success.bounds_text('–'):>11}", "dim not bold"))


def category_tables(run: FlywheelRun) -> Iterator[Table]:
    """For each suite with categories, success by category and model."""
    words = glossary_of_world(shown_world(run))
    for suite, by_model in run.scores.items():
        found = success_by_category(by_model)
        found = {name: by for name, by in found.items() if any("n" in score for score in by.values())}
        if not found:
            continue
        models = [model for model in MODELS if model in by_model]
        columns = FigureColumn(suite, right=False), *map(FigureColumn, ("n", *(MODELS[model] for model in models)))
        rows = [
            (name, max(score["n"] for score in by.values()), *(success_cell(by.get(model, {})) for model in models))
            for name, by in found.items()
        ]
        full = [words.expand_abbreviations(name) for name in found if words.expand_abbreviations(name) != name]
        caption = ", ".join(full) or None
        table = FigureTable(columns, [rows]).to_rich(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption)
        table.caption_justify, table.caption_style = "left", "dim"
        yield table
