"""Several runs beside each other: a table of the seeds of a flywheel, and a comparison of two runs.

The comparison is a sentence, a table with intervals, what differs in the recipes, and the curves of both runs in one page.
A compared run is the folder of a flywheel, of a stage or of a benchmark, or a file of results.

Invariants:
- The figures come from the runs' own results. A run without results is refused with its path.
- The interval of a gain of one run over another is over their tasks, and says nothing of another seed. The interval of a
  mean over runs is over the runs, so it says what another seed may give.
- A gain is paired by task. Only tasks that both runs played, and that count, make a difference.
- Suites that give the same names to other tasks are not compared.
- Nothing but the page is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from homerl.bench.scores import (
    gain_with_left_out,
    is_counted_result,
    paired_difference,
    score_results,
    success_with_interval,
)
from homerl.envs.core.documents import InputError, read_yaml, write_atomic
from homerl.host.html_pages import breakable_identifier
from homerl.host.recipe_files import RECIPE, flatten_recipe, relocate_recipe_paths, replace_path_prefix
from homerl.host.terminal import count_with_noun
from homerl.play.bench_results import SCORED, read_results_file
from homerl.play.confidence_intervals import student_interval
from homerl.report.figures import Estimate, FigureColumn, FigureTable, line_chart
from homerl.report.pages.episode_pages import MODELS
from homerl.report.pages.flywheel_report import (
    CURVES,
    SFT_CURVES,
    ChartFigure,
    Row,
    metric_curve,
    nonempty_figures,
    read_training_metrics,
)
from homerl.report.pages.world_pages import load_report_template
from homerl.worlds.registry import default_world


def build_seeds_table(runs: Sequence[Path], suite: str) -> Table:
    """A table with one row for each run: success of each model in percent, and RLVE's gain over SFT in points."""
    shares = [FigureColumn(name, write="{:.1f}".format) for name in ("untrained", "SFT", "RLVE")]
    gain_column = FigureColumn("RLVE − SFT", interval_heading="95 %")
    rows: list[tuple[Any, ...]] = []
    for run in runs:
        results = [read_model_results(run, model, suite, SCORED) for model in MODELS]
        gain = Estimate.of_gain(paired_difference(results[1], results[2]))
        rows.append((run, *(100 * score_results(model_rows)["success"] for model_rows in results), gain))
    sections = [rows]
    if len(runs) > 1:
        _, *models, gains = zip(*rows)
        values = [gain.value for gain in gains]
        # Equal gains of a few runs say nothing of other runs, so their mean has no interval.
        interval = student_interval(values) if len(set(values)) > 1 else None
        mean = Estimate(fmean(values), interval, is_gain=True)
        spread = Text(f"{100 * stdev(values):.1f}")
        sections.append([("mean", *map(fmean, models), mean), ("spread (s.d.)", *map(stdev, models), spread)])
    table = FigureTable((FigureColumn("run", right=False), *shares, gain_column), sections)
    return table.to_rich(title=f"success on {suite} in %, gains in points")


def find_scored_suites(run: Path) -> list[str]:
    """The names of the suites on which a run's last model was scored. Raises `InputError` if there are none."""
    scored = sorted(path.parent.name for path in (run / "rlve" / "bench").glob("*/results.jsonl"))
    if not scored:
        raise InputError("this run has no results", str(run), "name a flywheel's folder, and let it finish first")
    return scored


def read_model_results(run: Path, model: str, suite: str, needed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The results of one model of a run on a suite, with the `needed` keys; `InputError` if there are none."""
    path = run / model / "bench" / suite / "results.jsonl"
    if not path.exists():
        raise InputError("this run has no such results", where=str(path), remedy="let the flywheel finish first")
    return list(read_results_file(path, needed))


Results = Mapping[str, Mapping[str, Sequence[Row]]]  # by suite and model; a folder of one model has it as ""
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
class ComparedModel:
    """A model of both runs on a suite: each one's success, and the paired gain of the second.

    `gain` is over what counts for both. In `whole_gain` a task that one of them left out is no success of it.
    """

    suite: str
    model: str
    first: Estimate
    second: Estimate
    gain: Estimate
    whole_gain: Estimate

    @property
    def better(self) -> int:
        """1 if the second is better, -1 if the first is, 0 if neither: what was left out makes nobody better."""
        bounds = [estimate.interval or (0.0, 0.0) for estimate in (self.gain, self.whole_gain)]
        return int(all(low > 0 for low, _ in bounds)) - int(all(high < 0 for _, high in bounds))


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
        better = {1: self.second, -1: self.first}.get(line.better)
        verdict = f"{better.name} is better" if better else "neither is clearly better"
        model, suite = (f" {line.model}" if line.model else ""), (f"On {line.suite}, " if line.suite else "")
        both = f"{self.second.name} succeeds in {line.second} of the tasks{model}, and {self.first.name} in {line.first}"
        gain = f"{line.gain} points (95 % {line.gain.bounds_text()}, {count_with_noun(line.gain.n, 'task')})"
        return f"{suite}{both}: {gain}, so {verdict}.{self._counts_sentence(line)}"

    def _counts_sentence(self, line: ComparedModel) -> str:
        """How many episodes count in each run, if these are not equal; else nothing."""
        if line.first.n == line.second.n:
            return ""
        fewer, more = sorted(((line.first, self.first), (line.second, self.second)), key=lambda side: side[0].n)
        told = f"{fewer[1].name} counts {count_with_noun(fewer[0].n, 'episode')}, {more[1].name} {more[0].n}"
        return f" {told}; with what was left out as failed, the gain is {line.whole_gain} points."

    @property
    def recipe_differences(self) -> list[tuple[str, str, str]]:
        """(key, value in the first recipe, value in the second) of each key that differs."""
        recipes = (dict(flatten_recipe(side.recipe)) for side in (self.first, self.second))
        one, other = ({k: v for k, v in keys.items() if k.split(".")[0] not in UNCOMPARED} for keys in recipes)
        keys = dict.fromkeys([*one, *other])
        return [(key, one.get(key, "—"), other.get(key, "—")) for key in keys if one.get(key) != other.get(key)]


def compare_runs(first: Path, second: Path) -> RunComparison:
    """Compare two runs. Raises `InputError` if one is none, if they share no task, or if they are one and the same."""
    if first.resolve() == second.resolve():
        raise InputError("these are one and the same run", f"{first}, {second}", "name two, which played the same tasks")
    # A run is called by the last part of its path in which the two differ, and by its last part.
    parts = [path.resolve().parts[::-1] for path in (first, second)]
    apart = next((names for names in zip(*parts, strict=False) if names[0] != names[1]), (str(first), str(second)))
    names = (name if name == of[0] else f"{name}/…/{of[0]}" for name, of in zip(apart, parts))
    one, other = (read_compared_run(path, name) for path, name in zip((first, second), names))
    lines = tuple(_compare_models(one, other))
    if not lines and (same := [suite for suite in one.results if suite in other.results]):
        what = f"the tasks of {', '.join(filter(None, same)) or 'the two'} have the same names, and are others"
        remedy = "play one suite with both models: homerl bench run SUITE --model RUN/rlve/model"
        raise InputError(what, f"{first}, {second}", remedy)
    if not lines:
        suites = " and ".join(", ".join(side.results) or "none" for side in (one, other))
        raise InputError(f"the two runs share no suite: {suites}", f"{first}, {second}", "name runs of one benchmark")
    return RunComparison(one, other, lines)


def read_compared_run(path: Path, name: str) -> ComparedRun:
    """What a folder or a file says. Raises `InputError` if there are no results."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    results = path / "results.jsonl" if path.is_dir() else path
    if results.is_file():
        return ComparedRun(name, {"": {"": read_results_file(results)}}, {}, {})
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


def _compare_models(first: ComparedRun, second: ComparedRun) -> Iterator[ComparedModel]:
    """The models of both runs on the suites that both have. If each run has only one suite, these two are compared."""
    suites = [(suite, suite) for suite in first.results if suite in second.results]
    if not suites and len(first.results) == len(second.results) == 1:
        suites = [*zip(first.results, second.results)]
    for one, other in suites:
        mine, theirs = first.results[one], second.results[other]
        if not _have_same_tasks(mine, theirs):
            continue
        models = [(model, model) for model in mine if model in theirs] or [([*mine][-1], [*theirs][-1])]
        for before, after in models:
            rows = mine[before], theirs[after]
            model = after if before == after else f"{after or second.name}, {before or first.name}"
            gain = Estimate.of_gain(paired_difference(*rows))  # first, since it refuses runs that share no valid result
            whole = Estimate.of_gain(gain_with_left_out(*rows))
            # Each success is over what counts for its own run; the gain is over what counts for both.
            counted = ([row for row in part if is_counted_result(row)] for part in rows)
            share, other_share = (Estimate.of_score(success_with_interval(part)) for part in counted)
            yield ComparedModel(other, model, share, other_share, gain, whole)


def _have_same_tasks(one: Mapping[str, Sequence[Row]], other: Mapping[str, Sequence[Row]]) -> bool:
    """Whether the tasks that two suites call alike are the same, as far as their results say."""
    first, second = ({row["id"]: row for rows in suite.values() for row in rows} for suite in (one, other))
    both = [(first[id], second[id]) for id in first.keys() & second.keys()]
    return all(mine[key] == theirs[key] for mine, theirs in both for key in OF_TASK if key in mine and key in theirs)


# What is shown


def comparison_tables(found: RunComparison) -> Group:
    """The sentence and the tables for the terminal."""
    compact: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False}
    on_two_lines: Callable[[Estimate], str] = lambda share: f"{share}\n{share.bounds_text('–')}"  # noqa: E731
    columns = (
        FigureColumn("suite\nmodel", right=False),
        *(FigureColumn(f"{side.name}\n95 %", write=on_two_lines) for side in (found.first, found.second)),
        FigureColumn("gain in points\n95 %", write=lambda gain: f"{gain}\n{gain.bounds_text()}"),
    )
    suites: dict[str, list[tuple[Any, ...]]] = {}
    for line in found.lines:
        row = f"{line.suite}\n{line.model}", line.first, line.second, line.gain
        suites.setdefault(line.suite, []).append(row)
    caption = "The intervals are over tasks: another seed may differ more (homerl seeds)."
    table = FigureTable(columns, [*suites.values()]).to_rich(caption=caption, **compact)
    table.caption_justify = "left"
    parts: list[Any] = [found.verdict_sentence, table]
    if found.recipe_differences:
        parts.append(differences_table(found).to_rich(**compact))
    return Group(*parts)


def differences_table(found: RunComparison) -> FigureTable:
    """The keys of the recipes that differ, with both values."""
    sides = (FigureColumn(side.name, right=False) for side in (found.first, found.second))
    key = FigureColumn("key", html=breakable_identifier, right=False, is_name=True)
    return FigureTable((key, *sides), [found.recipe_differences])


def write_comparison(found: RunComparison, page: Path) -> Path:
    """Write the page, and return its path. Each chart has the curves of both runs."""
    stages = {}
    for stage, curves in (("sft", SFT_CURVES), ("rlve", CURVES)):
        sides = [side.metrics.get(stage, ()) for side in (found.first, found.second)]
        figures = []
        for title, key, share in curves:
            one, other = (metric_curve(rows, key) for rows in sides)
            chart = line_chart(f"{stage}: {title.lower()}", one, share, other)
            figures.append(ChartFigure(title, "by update", chart))
        stages[stage] = nonempty_figures(figures)
    template = load_report_template("compare.html.jinja", default_world())
    text = template.render(found=found, differences=differences_table(found), stages=stages)
    write_atomic(page, text.encode("utf-8", "replace"))
    return page
