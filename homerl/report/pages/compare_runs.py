"""A table of several flywheel runs: each seed's scores and paired gain, then their mean and its interval over the seeds.

Invariants: the figures come from the runs' own results; a run without results is refused with its path. The interval of a
run's gain is over its tasks; that of the mean is over the runs, and so says what another seed may give.

Two runs compared: a sentence, a table with intervals, what differs in their recipes, and their curves beside each other.

A run is a flywheel's folder, a stage's, a benchmark's, or a file of results.

Invariants: only tasks that both played, and that count, make a difference, which is paired by task; suites that call other
tasks alike are not compared; the interval of a difference is over tasks, and says nothing of another seed; nothing but the
page is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from homerl.bench.scores import is_counted_result, paired_difference, score_results, success_with_interval
from homerl.envs.core.documents import InputError, read_yaml, write_atomic
from homerl.host.confidence_intervals import student_interval
from homerl.host.html_pages import load_template
from homerl.host.run_folders import RECIPE, flatten_recipe, relocate_recipe_paths, replace_path_prefix
from homerl.host.terminal import count_with_noun
from homerl.play.bench_results import SCORED, read_results_file
from homerl.play.metrics.contract import format_percent
from homerl.report import figures as charts
from homerl.report.pages.flywheel_report import CURVES, ChartFigure, format_points, nonempty_figures
from homerl.report.pages.flywheel_results import MODELS, Row, metric_curve, read_training_metrics
from homerl.report.pages.world_pages import glossary_of_world
from homerl.worlds.registry import default_world

SEED_MODELS = ("untrained", "sft", "rlve")


def build_seeds_table(runs: Sequence[Path], suite: str) -> Table:
    """A table with one row for each run: success of each model in percent, and RLVE's gain over SFT in points."""
    table = Table("run", "untrained", "SFT", "RLVE", "RLVE − SFT", "95 %", title=f"success on {suite} in %, gains in points")
    columns: list[list[float]] = [[] for _ in (*SEED_MODELS, "gain")]
    for run in runs:
        results = [read_model_results(run, model, suite, SCORED) for model in SEED_MODELS]
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
    scored = sorted(path.parent.name for path in (run / SEED_MODELS[-1] / "bench").glob("*/results.jsonl"))
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


Results = Mapping[str, Mapping[str, Sequence[Row]]]  # by suite and model; a folder of one model has it as ""
SFT_CURVES = (("Loss", "loss", False), ("Token accuracy", "mean_token_accuracy", True))
UNCOMPARED = ("out", "wandb", "processes")  # keys that make no other model
OF_TASK = ("families", "subcategories", "category", "subcategory", "devices", "size")  # what a result says of its task


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs."""

    name: str
    results: Results
    recipe: Mapping[str, Any]
    metrics: Mapping[str, Sequence[Row]]  # by stage


@dataclass(frozen=True)
class SuccessShare:
    """A share of successes, with its 95 % interval, over `n` tasks."""

    n: int
    success: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class ComparedModel:
    """A model of both runs on a suite: each one's success, and the paired gain of the second."""

    suite: str
    model: str
    first: SuccessShare
    second: SuccessShare
    n: int
    gain: float
    interval: tuple[float, float]

    @property
    def gain_with_interval(self) -> str:
        """The gain in points with its interval."""
        return f"{format_points(self.gain)}\n{format_points(self.interval[0])} to {format_points(self.interval[1])}"


@dataclass(frozen=True)
class RunComparison:
    """What two runs have in common, and where they differ. `lines` is never empty."""

    first: ComparedRun
    second: ComparedRun
    lines: tuple[ComparedModel, ...]

    @property
    def verdict_sentence(self) -> str:
        """The last model on the first suite, in words."""
        line = [line for line in self.lines if line.suite == self.lines[0].suite][-1]
        better = self.second if line.interval[0] > 0 else self.first if line.interval[1] < 0 else None
        verdict = f"{better.name} is better" if better else "neither is clearly better"
        model, suite = (f" {line.model}" if line.model else ""), (f"On {line.suite}, " if line.suite else "")
        low, high = map(format_points, line.interval)
        second, first = format_percent(line.second.success), format_percent(line.first.success)
        both = f"{self.second.name} succeeds in {second} of the tasks{model}, and {self.first.name} in"
        gain = f"{format_points(line.gain)} points (95 % {low} to {high}, {count_with_noun(line.n, 'task')})"
        return f"{suite}{both} {first}: {gain}, so {verdict}."

    @property
    def recipe_differences(self) -> list[tuple[str, str, str]]:
        """(key, value in the first recipe, value in the second) of each key that differs."""
        one, other = (
            dict(flatten_recipe({key: part for key, part in side.recipe.items() if key not in UNCOMPARED}))
            for side in (self.first, self.second)
        )
        keys = dict.fromkeys([*one, *other])
        return [(key, one.get(key, "—"), other.get(key, "—")) for key in keys if one.get(key) != other.get(key)]


def compare_runs(first: Path, second: Path) -> RunComparison:
    """Compare two runs. Raises `InputError` if one is none, or if they share no task."""
    one, other = (read_compared_run(path, name) for path, name in zip((first, second), _names(first, second)))
    lines = tuple(_lines(one, other))
    if not lines and (same := [suite for suite in one.results if suite in other.results]):
        what = f"the tasks of {', '.join(filter(None, same)) or 'the two'} have the same names, and are others"
        remedy = "play one suite with both models: homerl bench run SUITE --model RUN/rlve/model"
        raise InputError(what, f"{first}, {second}", remedy)
    if not lines:
        suites = " and ".join(", ".join(side.results) or "none" for side in (one, other))
        raise InputError(f"the two runs share no suite: {suites}", f"{first}, {second}", "name runs of one benchmark")
    return RunComparison(one, other, lines)


def _names(*paths: Path) -> tuple[str, ...]:
    """What two runs are called: by the last part of their paths in which they differ, and by their last part."""
    parts = [path.resolve().parts[::-1] for path in paths]
    ends = zip(*parts, strict=False)
    apart = next((names for names in ends if names[0] != names[1]), tuple(map(str, paths)))
    return tuple(name if name == of[0] else f"{name}/…/{of[0]}" for name, of in zip(apart, parts))


def read_compared_run(path: Path, name: str) -> ComparedRun:
    """What a folder or a file says. Raises `InputError` if there are no results."""
    if path.is_file():
        return ComparedRun(name, {"": {"": read_results_file(path)}}, {}, {})
    if not path.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if (path / "results.jsonl").is_file():
        return ComparedRun(name, {"": {"": read_results_file(path / "results.jsonl")}}, {}, {})
    found: dict[str, dict[str, Sequence[Row]]] = {}
    for model, folder in {"": path, **{model: path / model for model in MODELS}}.items():
        for file in sorted((folder / "bench").glob("*/results.jsonl")):
            found.setdefault(file.parent.name, {})[MODELS.get(model, "")] = read_results_file(file)
    if not found:
        remedy = "name the folder of a flywheel that has finished, of a stage, or of `homerl bench run`"
        raise InputError("there are no results here", str(path), remedy)
    file = path / RECIPE
    recipe = relocate_recipe_paths(read_yaml(file).data, file) if file.is_file() else {}
    stages = {stage: path / stage for stage in ("sft", "rlve") if (path / stage).is_dir()} or {recipe.get("run", ""): path}
    metrics = {stage: read_training_metrics(folder) for stage, folder in stages.items()}
    return ComparedRun(name, found, replace_path_prefix(recipe, str(recipe.get("out")), "RUN"), metrics)


def _lines(first: ComparedRun, second: ComparedRun) -> Iterator[ComparedModel]:
    """The suites that both have; if each has but one, these two."""
    shared = [(suite, suite) for suite in first.results if suite in second.results]
    alone = (
        [(next(iter(first.results)), next(iter(second.results)))] if len(first.results) == len(second.results) == 1 else []
    )
    for one, other in shared or alone:
        mine, theirs = first.results[one], second.results[other]
        if not _alike(mine, theirs):
            continue
        models = [(model, model) for model in mine if model in theirs] or [([*mine][-1], [*theirs][-1])]
        for before, after in models:
            rows = mine[before], theirs[after]
            gain = paired_difference(*rows)
            model = after if before == after else f"{after or second.name}, {before or first.name}"
            low, high = gain["interval"]
            one_share, other_share = (
                SuccessShare(**success_with_interval([row for row in part if is_counted_result(row)])) for part in rows
            )
            yield ComparedModel(other, model, one_share, other_share, gain["n"], gain["gain"], (low, high))


def _alike(one: Mapping[str, Sequence[Row]], other: Mapping[str, Sequence[Row]]) -> bool:
    """Whether the tasks that two suites call alike are the same, as far as their results say."""
    first, second = ({row["id"]: row for rows in suite.values() for row in rows} for suite in (one, other))
    both = [(first[id], second[id]) for id in first.keys() & second.keys()]
    return all(mine[key] == theirs[key] for mine, theirs in both for key in OF_TASK if key in mine and key in theirs)


# What is shown


def comparison_tables(found: RunComparison) -> Group:
    """The sentence and the tables for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("suite\nmodel")
    for head in (f"{found.first.name}\n95 %", f"{found.second.name}\n95 %", "gain in points\n95 %"):
        table.add_column(head, justify="right", overflow="fold")
    for line in found.lines:  # each cell has two lines, so that it fits in a narrow terminal
        cells = (
            f"{line.suite}\n{line.model}",
            *(_cell(part) for part in (line.first, line.second)),
            line.gain_with_interval,
        )
        table.add_row(*cells, end_section=line.model == found.lines[-1].model)
    table.caption, table.caption_justify = (
        "The intervals are over tasks: another seed may differ more (homerl seeds).",
        "left",
    )
    parts: list[Any] = [found.verdict_sentence, table]
    if found.recipe_differences:
        keys = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        keys.add_column("key", no_wrap=True)
        for name in (found.first.name, found.second.name):
            keys.add_column(name, overflow="fold")
        for row in found.recipe_differences:
            keys.add_row(*row)
        parts.append(keys)
    return Group(*parts)


def _cell(share: SuccessShare) -> str:
    low, high = (f"{100 * bound:.1f}" for bound in share.interval)
    return f"{format_percent(share.success)}\n{low}–{high}"


def write_comparison(found: RunComparison, page: Path) -> Path:
    """Write the page, and return its path."""
    filters = {
        "percent": format_percent,
        "points": format_points,
        "explained": glossary_of_world(default_world()).explain_terms_as_html,
    }
    text = load_template(Path(__file__).with_name("compare.html.jinja"), **filters).render(
        found=found,
        bar=charts.interval_bar,
        stages={stage: nonempty_figures(comparison_figures(found, stage)) for stage in ("sft", "rlve")},
    )
    write_atomic(page, text.encode("utf-8", "replace"))
    return page


def comparison_figures(found: RunComparison, stage: str) -> Iterator[ChartFigure]:
    """The curves of a stage of both runs, each pair in one chart."""
    sides = [side.metrics.get(stage, ()) for side in (found.first, found.second)]
    for title, key, share in SFT_CURVES if stage == "sft" else CURVES:
        one, other = (metric_curve(rows, key) for rows in sides)
        yield ChartFigure(title, "by update", charts.line_chart(f"{stage}: {title.lower()}", one, share, other))
