"""The report of a flywheel run as one HTML file.

Invariants: the page needs no network and no scripts; every text of the run is escaped, by the template or by the charts; a
part for which the run has no data is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from homerl.host.pages.templates import template
from homerl.play.dialogue import Dialogue, dialogue
from homerl.play.metrics.contract import percent
from homerl.play.trajectory import Trajectory
from homerl.report.pages import charts
from homerl.report.pages.glossary import glossary_of
from homerl.report.pages.run import PLAYERS, Row, Run, by_index, columns, curve, kinds, last, outcome_shares, reward_by_step
from homerl.synth.report import filtered
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import default_world, parts_in, world_of, worlds


@dataclass(frozen=True)
class Figure:
    """A chart with its title and note; `legend` lists the CSS classes of its areas, which are also their names."""

    title: str
    note: str
    chart: Markup
    legend: tuple[str, ...] = ()


def render(run: Run) -> str:
    """The page as HTML."""
    words = glossary_of(world_in(run))
    filters: dict[str, Callable[..., Any]] = {
        "percent": percent,
        "points": points,
        "figure": figure,
        "duration": duration,
        "kinds": kinds,
    }
    filters |= {"explained": words.explained, "full": words.in_full}
    return template(Path(__file__).with_name("report.html.jinja"), **filters).render(
        run=run,
        players=PLAYERS,
        bar=charts.interval_bar,
        columns=columns(),
        facts=list(facts(run)),
        sft=drawn(sft_figures(run.sft)),
        rlve=drawn(rlve_figures(run.rlve)),
        difficulty=drawn(difficulty_figures(run.difficulties)),
        synthesis=list(synthesis(run.synthesis)),
        drops=drops(run.synthesis),
        examples=[readable_dialogue(trajectory) for trajectory in run.examples],
        rollouts=[readable_dialogue(trajectory) for trajectory in run.rollouts],
        commands=list(commands(run)),
    )


def world_in(run: Run) -> WorldAdapter:
    """The world whose words a run's report needs: that of the dialogues which it shows."""
    return world_of(run.examples[0].blueprint) if run.examples else default_world()


def readable_dialogue(trajectory: Trajectory) -> Dialogue:
    """A trajectory for reading, with its goals in words."""
    return dialogue(trajectory, world_of(trajectory.blueprint).goals_in_words(trajectory.blueprint))


def facts(run: Run) -> Iterator[tuple[str, str]]:
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
        yield name, training(rows)
    yield "Credit", (run.recipe.get("rlve") or {}).get("credit") or ""


def training(rows: Sequence[Row]) -> str:
    """How much a stage trained: updates, tokens, time."""
    step, tokens, seconds = (last(rows, key) for key in ("step", "num_tokens", "train_runtime"))
    parts = [f"{step:,} updates" if step else "", f"{tokens:,.0f} tokens" if tokens else ""]
    return ", ".join(part for part in [*parts, duration(seconds) if seconds else ""] if part)


def sft_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """Charts of loss and token accuracy."""
    yield _line("SFT", rows, "Loss", "loss")
    yield _line("SFT", rows, "Token accuracy", "mean_token_accuracy", share=True)


def rlve_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """Charts of success, reward, outcomes, learning signal and credit, by update."""
    for title, key, share in CURVES:
        yield _line("RLVE", rows, title, key, share)
    if any(share for _, share in curve(rows, PREFIXED)):
        yield _line("RLVE", rows, "Prefixed rollouts", PREFIXED, share=True)
    steps, outcomes = outcome_shares(rows)
    areas = charts.stacked_area("Outcome shares by update", steps, outcomes)
    yield Figure("Outcomes", "share of rollouts", areas, tuple(outcomes))
    yield _heat("Credit mass", by_index(rows, "credit_by_step/mass"))
    yield _heat("Reward", reward_by_step(rows))


PREFIXED = "curriculum/prefixed"  # while it falls, the success of rollouts may fall too
CURVES = (
    ("Success of rollouts", "success", True),
    ("Reward of rollouts", "reward", False),
    ("Entropy", "entropy", False),
    ("KL to the SFT model", "kl", False),
    ("Zero-advantage tokens", "sentinel/zero_advantage", True),
)


def difficulty_figures(difficulties: Sequence[float]) -> Iterator[Figure]:
    """A chart of how hard the synthesised blueprints were."""
    note = f"{len(difficulties):,} blueprints by the share of their rollouts that failed"
    yield Figure("Difficulty", note, charts.histogram("Blueprints by difficulty", difficulties))


def drawn(figures: Iterator[Figure]) -> list[Figure]:
    """The figures whose charts are not empty."""
    return [shown for shown in figures if shown.chart]


def synthesis(stats: Row) -> Iterator[tuple[str, str]]:
    """(name, value) of the synthesis' totals."""
    for name, key, say in TOTALS:
        if key in stats:
            yield name, say(stats[key])


TOTALS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Blueprints", "blueprints", "{:,}".format),
    ("Rollouts", "rollouts", "{:,}".format),
    ("Blueprints solved at least once", "generation_success", percent),
    ("Rollouts that succeed", "rollout_success", percent),
    ("Trajectories kept", "trajectories", "{:,}".format),
    ("Steps saved by shared prefixes", "steps_saved", percent),
)


def drops(stats: Row) -> list[tuple[str, str, int]]:
    """(filter, reason, number of dropped candidates), most frequent first."""
    found = [(*key.partition(": ")[::2], count) for key, count in filtered(stats.get("dropped") or {}).items()]
    return sorted(found, key=lambda drop: (-drop[2], drop))


EXPORT = "my-home-agent"


def commands(run: Run) -> Iterator[tuple[str, str]]:
    """(purpose, command) of possible next steps with this run."""
    out = shlex.quote(str(run.out))
    model = next((name for name in ("rlve", "sft") if (run.out / name / "model").is_dir()), None)
    if run.recipe and run.shown_model != "rlve":
        yield "Go on where this run stopped", f"accelerate launch {out}/recipe.yaml"
    if model and visited(run.recipe):
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


def visited(recipe: Row) -> bool:
    """Whether a person can visit the homes in which a run's model is measured, or else trained: not in every world."""
    suites = [suite for suite in (recipe.get("bench") or {}).get("suites") or () if not suite.get("benchmark")]
    tasks = (suites[0] if suites else recipe.get("blueprints") or {}).get("recipe") or {}
    known = (part for part in parts_in(tasks) if part.get("world") in (None, *worlds()))
    return any(world_of(part).visits for part in known)


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return charts.signed(f"{100 * share:+.1f}")


def figure(value: float) -> str:
    """A number with three significant digits."""
    return charts.signed(f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}")


def duration(seconds: float) -> str:
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


def _line(stage: str, rows: Sequence[Row], title: str, key: str, share: bool = False) -> Figure:
    points = curve(rows, key)
    chart = charts.line_chart(f"{stage}: {title.lower()} by update", points, share)
    return Figure(title, _ends(points, percent if share else figure), chart)


def _heat(title: str, curves: Mapping[int, Sequence[charts.Point]]) -> Figure:
    values = [value for curve in curves.values() for _, value in curve]
    note = "by step; orange below 0" if min(values, default=0.0) < 0 else "by step of the episode"
    return Figure(title, note, charts.heat_map(f"{title} by step of the episode and update", curves))


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, []))
