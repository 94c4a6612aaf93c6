"""The report of a flywheel run as one HTML file.

Invariants: the page needs no network and no scripts; every text of the run is escaped, by the template or by the charts; a
part for which the run has no data is left out.

The result of a flywheel run: a table for the terminal and a page for the browser.

Invariants: both show the figures of `score.json`, rounded once; parts for which a run has no data are left out; writing
is atomic, so a reader never sees half a page.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from homerl.envs.core.documents import write_atomic
from homerl.host.html_pages import load_template
from homerl.play.metrics.contract import format_percent
from homerl.play.trajectory import ShownDialogue, Trajectory, show_dialogue
from homerl.report import figures as charts
from homerl.report.pages.flywheel_results import (
    MODELS,
    PLAYERS,
    FlywheelRun,
    Row,
    curves_by_index,
    metric_columns,
    metric_curve,
    newest_metric,
    outcome_curves,
    read_flywheel_run,
    reward_by_step,
    success_by_category,
)
from homerl.report.pages.world_pages import glossary_of_world
from homerl.synth.synthesis_statistics import count_filter_drops
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import default_world, known_worlds, source_parts, world_of


@dataclass(frozen=True)
class ChartFigure:
    """A chart with its title and note; `legend` lists the CSS classes of its areas, which are also their names."""

    title: str
    note: str
    chart: Markup
    legend: tuple[str, ...] = ()


def render_flywheel_page(run: FlywheelRun) -> str:
    """The page as HTML."""
    words = glossary_of_world(shown_world(run))
    filters: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "points": format_points,
        "figure": format_figure,
        "duration": format_duration,
        "kinds": success_by_category,
    }
    filters |= {"explained": words.explain_terms_as_html, "full": words.expand_abbreviations}
    return load_template(Path(__file__).with_name("report.html.jinja"), **filters).render(
        run=run,
        players=PLAYERS,
        bar=charts.interval_bar,
        columns=metric_columns(),
        facts=list(list_run_facts(run)),
        sft=nonempty_figures(sft_figures(run.sft)),
        rlve=nonempty_figures(rlve_figures(run.rlve)),
        difficulty=nonempty_figures(difficulty_figures(run.difficulties)),
        synthesis=list(list_synthesis_totals(run.synthesis)),
        drops=list_synthesis_drops(run.synthesis),
        examples=[readable_dialogue(trajectory) for trajectory in run.examples],
        rollouts=[readable_dialogue(trajectory) for trajectory in run.rollouts],
        commands=list(suggest_commands(run)),
    )


def shown_world(run: FlywheelRun) -> WorldAdapter:
    """The world whose words a run's report needs: that of the dialogues which it shows."""
    return world_of(run.examples[0].blueprint) if run.examples else default_world()


def readable_dialogue(trajectory: Trajectory) -> ShownDialogue:
    """A trajectory for reading, with its goals in words."""
    return show_dialogue(trajectory, world_of(trajectory.blueprint).goals_in_words(trajectory.blueprint))


def list_run_facts(run: FlywheelRun) -> Iterator[tuple[str, str]]:
    """(name, value) of the run's settings and environment."""
    record, model = run.record, run.recipe.get("model") or {}
    made = model.get("from_scratch") or {}
    yield "Model", model.get("name") or (f"from scratch ({_listing(made)})" if made else "")
    yield "Newest result", run.finished or ""
    yield "Seed", str(record.get("seed", ""))
    yield "Command", shlex.join(record.get("command") or ())
    yield "Commit", record.get("commit") or ""
    yield "homerl", record.get("homerl") or ""
    yield "Python", record.get("python") or ""
    yield "Packages", _listing(record.get("packages") or {})
    for name, rows in (("SFT", run.sft), ("RLVE", run.rlve)):
        yield name, summarise_training(rows)
    yield "Credit", (run.recipe.get("rlve") or {}).get("credit") or ""


def summarise_training(rows: Sequence[Row]) -> str:
    """How much a stage trained: updates, tokens, time."""
    step, tokens, seconds = (newest_metric(rows, key) for key in ("step", "num_tokens", "train_runtime"))
    parts = [f"{step:,} updates" if step else "", f"{tokens:,.0f} tokens" if tokens else ""]
    return ", ".join(part for part in [*parts, format_duration(seconds) if seconds else ""] if part)


def sft_figures(rows: Sequence[Row]) -> Iterator[ChartFigure]:
    """Charts of loss and token accuracy."""
    yield _line("SFT", rows, "Loss", "loss")
    yield _line("SFT", rows, "Token accuracy", "mean_token_accuracy", share=True)


def rlve_figures(rows: Sequence[Row]) -> Iterator[ChartFigure]:
    """Charts of success, reward, outcomes, learning signal and credit, by update."""
    for title, key, share in CURVES:
        yield _line("RLVE", rows, title, key, share)
    if any(share for _, share in metric_curve(rows, PREFIXED)):
        yield _line("RLVE", rows, "Prefixed rollouts", PREFIXED, share=True)
    steps, outcomes = outcome_curves(rows)
    areas = charts.stacked_area("Outcome shares by update", steps, outcomes)
    yield ChartFigure("Outcomes", "share of rollouts", areas, tuple(outcomes))
    yield _heat("Credit mass", curves_by_index(rows, "credit_by_step/mass"))
    yield _heat("Reward", reward_by_step(rows))


PREFIXED = "curriculum/prefixed"  # while it falls, the success of rollouts may fall too
CURVES = (
    ("Success of rollouts", "success", True),
    ("Reward of rollouts", "reward", False),
    ("Entropy", "entropy", False),
    ("KL to the SFT model", "kl", False),
    ("Zero-advantage tokens", "sentinel/zero_advantage", True),
)


def difficulty_figures(difficulties: Sequence[float]) -> Iterator[ChartFigure]:
    """A chart of how hard the synthesised blueprints were."""
    note = f"{len(difficulties):,} blueprints by the share of their rollouts that failed"
    yield ChartFigure("Difficulty", note, charts.histogram_chart("Blueprints by difficulty", difficulties))


def nonempty_figures(figures: Iterator[ChartFigure]) -> list[ChartFigure]:
    """The figures whose charts are not empty."""
    return [shown for shown in figures if shown.chart]


def list_synthesis_totals(stats: Row) -> Iterator[tuple[str, str]]:
    """(name, value) of the synthesis' totals."""
    for name, key, say in TOTALS:
        if key in stats:
            yield name, say(stats[key])


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


def format_points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return charts.with_minus_sign(f"{100 * share:+.1f}")


def format_figure(value: float) -> str:
    """A number with three significant digits."""
    return charts.with_minus_sign(f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}")


def format_duration(seconds: float) -> str:
    """Seconds in a readable unit: s, min or h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _ends(points: Sequence[charts.Point], say: Callable[[float], str]) -> str:
    """Where a curve started and ended: means over a tenth of its points, because single updates are noisy."""
    values, tenth = [value for _, value in points], max(1, len(points) // 10)
    if not values:
        return ""
    return f"{say(fmean(values[:tenth]))} → {say(fmean(values[-tenth:]))}".replace(" % →", " →")


def _line(stage: str, rows: Sequence[Row], title: str, key: str, share: bool = False) -> ChartFigure:
    points = metric_curve(rows, key)
    chart = charts.line_chart(f"{stage}: {title.lower()} by update", points, share)
    return ChartFigure(title, _ends(points, format_percent if share else format_figure), chart)


def _heat(title: str, curves: Mapping[int, Sequence[charts.Point]]) -> ChartFigure:
    values = [value for curve in curves.values() for _, value in curve]
    note = "by step; orange below 0" if min(values, default=0.0) < 0 else "by step of the episode"
    return ChartFigure(title, note, charts.heat_map(f"{title} by step of the episode and update", curves))


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, []))


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
