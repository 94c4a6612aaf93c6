"""`homerl bench robustness`: how much success a model loses when people tell their wishes other than at once.

Each behaviour is played alone, at rate 1, on the tasks of the suite that allow it. The same tasks are played told at once.
The difference is paired by task.

Invariants: a behaviour and its baseline are the same tasks with the same seeds; tasks that a behaviour leaves as they are do
not count; the model is loaded once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column, Table

from envs.documents import InputError, write_atomic
from homerl.bench.instances import Instances, that_show
from homerl.bench.runner import Pace, ParticipantFactories, run_suite
from homerl.bench.score import counts, paired_difference
from homerl.measure.intervals import SHARES, mean_interval
from homerl.play.course import BEHAVIOURS, Behaviour, Behaviours
from homerl.play.trajectory import read_rows
from homerl.run.bench_command import BenchRun, claimed, factories_of, instances_of, limited, prepared
from homerl.terminal.progress import progress_bar
from homerl.worlds.contract import Instance
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
    showing = {name: that_show(found, setting, only(name)) for name in BEHAVIOURS}
    factories, pace = factories_of(settings, world, setting)
    seen = {instance.id for instances in showing.values() for instance in instances}
    parts = {TOLD_AT_ONCE: Instances([i for i in found if i.id in seen], setting, settings.runs)}
    parts |= {name: Instances(showing[name], setting, settings.runs, only(name)) for name in BEHAVIOURS if showing[name]}
    with claimed(settings, asdict(settings)):
        play_parts(parts, factories, pace, settings)
    rows = [compared(settings.out, name, showing[name]) for name in BEHAVIOURS if showing[name]]
    write_atomic(settings.out / "robustness.json", json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return table(rows, f"{suite.name}, {setting}: {settings.served or settings.model}")


def only(behaviour: Behaviour) -> Behaviours:
    """The behaviour alone, in every wish that allows it."""
    return Behaviours(**{behaviour: 1.0})


def play_parts(parts: dict[str, Instances], factories: ParticipantFactories, pace: Pace, settings: BenchRun) -> None:
    """Play each part into a folder of its name, under one progress bar."""
    total, before = sum(map(len, parts.values())), 0
    with progress_bar() as bar:
        task = bar.add_task("robustness", total=total, note=settings.model)
        for name, instances in parts.items():
            bar.update(task, note=f"{settings.model}, {name.replace('_', ' ')}")
            advance = partial(_advance, bar, task, before)
            run_suite(instances, factories, settings.out / name, pace, advance)
            before += len(instances)


def _advance(bar: Any, task: Any, before: int, done: int, total: int) -> None:
    bar.update(task, completed=before + done)


def compared(out: Path, behaviour: Behaviour, showing: Sequence[Instance]) -> Robustness:
    """The figures of one behaviour, from the results on disk."""
    ids = {instance.id for instance in showing}
    before, after = (
        [row for row in read_rows(out / part / "results.jsonl") if row["id"] in ids and counts(row)]
        for part in (TOLD_AT_ONCE, behaviour)
    )
    both = {row["id"] for row in before} & {row["id"] for row in after}  # a server may have spoiled the other of a pair
    before, after = ([row for row in rows if row["id"] in both] for rows in (before, after))
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


def table(rows: Sequence[Robustness], title: str) -> Table:
    """The table for the terminal."""
    names = ("tasks", "at once %", "so told %", "change", "95 %")
    found = Table("behaviour", *(Column(name, justify="right", no_wrap=True) for name in names), title=title)
    for row in rows:
        low, high = (f"{100 * share:+.1f}" for share in row.change_interval)
        shares = (f"{100 * row.at_once:.1f}", f"{100 * row.success:.1f}", f"{100 * row.change:+.1f}")
        found.add_row(row.behaviour.replace("_", " "), str(row.n), *shares, f"{low} to {high}")
    return found
