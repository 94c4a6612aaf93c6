"""`homerl bench robustness`: how much success a model loses when people tell their wishes other than at once.

Each behaviour is played alone, at rate 1, on the tasks of the suite that allow it. The same tasks are played told at once.
The difference is paired by task.

Invariants: a behaviour and its baseline are the same tasks with the same seeds; tasks that a behaviour leaves as they are do
not count; the model is loaded once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column, Table

from homerl.app.runs.bench import episodes_of, players_of
from homerl.app.runs.checks.preflight import check_machine
from homerl.app.runs.recipe import load_recipe, recipe_data
from homerl.app.studies.suite import (
    BenchRun,
    claimed,
    factories_of,
    instances_of,
    limited,
    prepared,
    refuse_other_run,
    refuse_results,
)
from homerl.bench.instances import Instances
from homerl.bench.recipe import BenchRecipe
from homerl.bench.runner import EpisodeSpec, EpisodeSpecs, Heldout, Pace, ParticipantFactories, run_suite
from homerl.bench.score import counts, paired_difference
from homerl.bench.suites import spread_evenly
from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.measure.intervals import SHARES, mean_interval
from homerl.host.terminal.console import console
from homerl.host.terminal.progress import progress_bar
from homerl.play.course import AT_ONCE, BEHAVIOURS, Behaviour, Behaviours
from homerl.play.results import read_facts, results_in
from homerl.play.situation import Blueprint
from homerl.worlds.registry import suites

TOLD_AT_ONCE = "at_once"


@dataclass(frozen=True)
class Robustness:
    """Success (a share in [0, 1]) on the `n` tasks that can show a behaviour: told at once, and with the behaviour.

    `change` is the second less the first. The intervals are of 95 %, over tasks.
    """

    behaviour: Behaviour
    n: int
    at_once: float
    success: float
    interval: tuple[float, float]
    change: float
    change_interval: tuple[float, float]


def run_robustness(settings: BenchRun) -> Table:
    """Play the suite told at once and with each behaviour alone; write `robustness.json`; return the table.

    Raises `InputError` where people tell all at once: in worlds and settings without dialogues.
    """
    settings, world, suite, setting = prepared(replace(settings, robustness=True))
    if world.tell is None or world.endpoint_agent(setting) is not None:
        remedy = f"name one of {', '.join(name for name, (at, _) in suites().items() if at.tell)}"
        raise InputError(f"in {suite.name} ({setting}) people tell all at once", settings.suite, remedy)
    found = limited(instances_of(settings), settings.limit)
    factories, pace = factories_of(settings, world, setting)
    title = f"{suite.name}, {setting}: {settings.served or settings.model}"
    with claimed(settings, asdict(settings)):
        episodes = Instances(found, setting, settings.runs)
        return measured(episodes, range(len(episodes)), factories, pace, settings.out, title)


def run_recipe_robustness(path: str, out: Path, limit: int | None = None, resume: bool = False) -> Iterator[Table]:
    """The same for the agent and each suite of a recipe of `run: bench`, with at most `limit` tasks of a suite. Suites of
    worlds without behaviours are left out.

    `robustness.json` is in the folder of the suite's name. Raises `InputError` for a recipe of another run, and for one
    without a suite that is left.
    """
    recipe = load_recipe(path)
    if not isinstance(recipe, BenchRecipe):
        remedy = "name one of `run: bench`; a flywheel writes one for each of its models, as RUN/rlve/bench.yaml"
        raise InputError(f"a recipe of `run: {recipe.run}` benchmarks no single model", path, remedy)
    played = [suite for suite in recipe.bench.suites if suite.world.tell is not None]
    left_out = ", ".join(suite.name for suite in recipe.bench.suites if suite not in played)
    if not played:
        raise InputError(f"in {left_out} people tell all at once", path, "name a recipe with a suite of dialogues in homes")
    agent, bench = str(recipe.model.name if recipe.model else recipe.agent), recipe.bench
    settings = BenchRun(
        str(Path(path).resolve()), agent, out, limit=limit, temperature=bench.temperature, max_tokens=bench.max_tokens,
        seed=recipe.seed, cpu=recipe.cpu, at_once=bench.batch, resume=resume, robustness=True,
    )  # fmt: skip
    refuse_other_recipe(settings, recipe)
    check_machine(recipe, path)
    if left_out:
        console.print(f"left out, since people tell all at once there: {left_out}", highlight=False)
    players = players_of(recipe)
    with claimed(settings, asdict(settings) | {"recipe": recipe_data(recipe)}):
        for suite in played:
            episodes = episodes_of(suite, bench.limits)
            chosen = spread_evenly(range(len(episodes)), limit or len(episodes))
            yield measured(episodes, chosen, *players(suite), out / suite.name, f"{suite.name}: {agent}")


def refuse_other_recipe(settings: BenchRun, recipe: BenchRecipe) -> None:
    """Raise `InputError` for a folder with results, unless these are of the same recipe and options and the run goes on."""
    refuse_results(settings)
    refuse_other_run(settings)
    run = settings.out / "run.json"
    if run.exists() and read_facts(settings.out, run.name).get("recipe") != recipe_data(recipe):
        remedy = "give the recipe as it was, or choose another --out"
        raise InputError("the recipe has changed since the results here", str(settings.out), remedy)


def measured(
    episodes: Heldout | Instances, indices: Sequence[int], factories: ParticipantFactories, pace: Pace, out: Path, title: str
) -> Table:
    """Play some of the episodes told at once and with each behaviour; write `robustness.json`; return the table."""
    at_once = Chosen(episodes.told_by(AT_ONCE), indices)
    with progress_bar() as bar:
        task = bar.add_task("tasks", total=(1 + len(BEHAVIOURS)) * len(at_once), note=title)
        seen = partial(bar.advance, task)
        plain = blueprints(at_once, seen)
        told = {name: Chosen(episodes.told_by(only(name)), indices) for name in BEHAVIOURS}
        parts = {name: part for name, specs in told.items() if (part := that_show(plain, specs, seen)).indices}
    if parts:
        shown = sorted({index for part in parts.values() for index in part.indices})
        to_play: dict[str, EpisodeSpecs] = {TOLD_AT_ONCE: Chosen(at_once, shown)}
        to_play |= {str(name): part for name, part in parts.items()}
        play_parts(to_play, factories, pace, out, title)
    rows = [robustness_of(out, name, {plain[index].id for index in part.indices}) for name, part in parts.items()]
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "robustness.json", json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return robustness_table(rows, title if parts else f"{title}: no task shows a behaviour")


class Chosen:
    """Some of a suite's episodes, by their indices in it."""

    def __init__(self, of: EpisodeSpecs, indices: Sequence[int]) -> None:
        self.of, self.indices = of, indices
        self.identity = f"{of.identity} {list(indices)}"

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> EpisodeSpec:
        return self.of[self.indices[index]]


def blueprints(specs: EpisodeSpecs, seen: Callable[[], None]) -> list[Blueprint]:
    """What the episodes play; `seen` is called after each."""
    found = []
    for index in range(len(specs)):
        found.append(specs[index].blueprint)
        seen()
    return found


def that_show(plain: Sequence[Blueprint], specs: EpisodeSpecs, seen: Callable[[], None]) -> Chosen:
    """The tasks that are told otherwise than in `plain` in some run; the others are told at once whatever the behaviours."""
    ids = {before.id for before, after in zip(plain, blueprints(specs, seen), strict=True) if before != after}
    return Chosen(specs, [index for index, blueprint in enumerate(plain) if blueprint.id in ids])


def only(behaviour: Behaviour) -> Behaviours:
    """The behaviour alone, in every wish that allows it."""
    return Behaviours(**{behaviour: 1.0})


def play_parts(
    parts: Mapping[str, EpisodeSpecs], factories: ParticipantFactories, pace: Pace, out: Path, title: str
) -> None:
    """Play each part into a folder of its name, under one progress bar."""
    total, before = sum(map(len, parts.values())), 0
    with progress_bar() as bar:
        task = bar.add_task("robustness", total=total, note=title)
        for name, instances in parts.items():
            bar.update(task, note=f"{title}, {name.replace('_', ' ')}")
            advance = partial(_advance, bar, task, before)
            run_suite(instances, factories, out / name, pace, advance)
            before += len(instances)


def _advance(bar: Any, task: Any, before: int, done: int, total: int) -> None:
    bar.update(task, completed=before + done)


def robustness_of(out: Path, behaviour: Behaviour, ids: Set[str]) -> Robustness:
    """The figures of one behaviour on the tasks with these ids, from the results on disk."""
    before, after = (
        [row for row in results_in(out / part / "results.jsonl") if row["id"] in ids and counts(row)]
        for part in (TOLD_AT_ONCE, behaviour)
    )
    both = {*map(_play, before)} & {*map(_play, after)}  # a server may have spoiled the other of a pair
    before, after = ([row for row in rows if _play(row) in both] for rows in (before, after))
    difference = paired_difference(before, after)
    success = np.array([row["success"] for row in after], dtype=float)
    return Robustness(
        behaviour,
        difference["n"],
        float(np.mean([row["success"] for row in before])),
        float(success.mean()),
        mean_interval(success, groups=[row["id"] for row in after], ends=SHARES),
        difference["gain"],
        difference["interval"],
    )


def _play(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["id"], row.get("run", 0)


def robustness_table(rows: Sequence[Robustness], title: str) -> Table:
    """The table for the terminal."""
    names = ("tasks", "at once %", "so told %", "change", "95 %")
    found = Table("behaviour", *(Column(name, justify="right", no_wrap=True) for name in names), title=title)
    for row in rows:
        low, high = (f"{100 * share:+.1f}" for share in row.change_interval)
        shares = (f"{100 * row.at_once:.1f}", f"{100 * row.success:.1f}", f"{100 * row.change:+.1f}")
        found.add_row(row.behaviour.replace("_", " "), str(row.n), *shares, f"{low} to {high}")
    return found
