"""Flywheels whole: a model of 100M parameters from scratch, and its success before and after training.

`scratch_100m` has short dialogues. `long_100m` has long ones, and a second RLVE from the same SFT model: the recipe's own
credit, and that of whole trajectories, for as many seconds. Benchmarks run at once on the one GPU.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, Machine, has
from gpu.shipped import TINY_FLYWHEEL, logged

BENCH = 110  # seconds kept for the benchmarks, with the start of their processes
START = 50  # seconds in which a training starts, its engine too, and saves its model at the end
SFT_SHARE = 0.45  # of the seconds that are left to trainings
LEAST = 20.0  # seconds that a training gets in any case
TRAJECTORY = "rlve_trajectory"  # the folder of the second RLVE
Stage = tuple[dict[str, Any], Path]  # a stage's recipe, and what it makes


def scratch(machine: Machine, name: str, second: bool = False) -> dict[str, Any]:
    """Run synthesis, SFT, RLVE and the benchmarks on the recipe's first suite. With `second` there is a second RLVE.

    SFT gets a share of the seconds left, and each RLVE as many as the other. A second start resumes.
    """
    from homerl.app.runs.flywheel import flywheel_stages
    from homerl.app.runs.recipe import load_recipe
    from homerl.app.runs.resume import is_fully_scored
    from homerl.bench.recipe import BenchRecipe

    def is_done(stage: dict[str, Any], product: Path) -> bool:
        # not `homerl.app.runs.resume.is_done`, which compares recipes: a training's has the seconds that were left
        return product.exists() and (stage["run"] != "bench" or is_fully_scored(BenchRecipe.model_validate(stage)))

    out = machine.folder / name
    common = ["--out", str(out), "--processes", str(os.cpu_count())]
    reports = ["--report_to", '["tensorboard"]'] if has("tensorboard") else []
    asked = load_recipe(ROOT / f"recipes/{name}.yaml", [*common, *reports, *machine.pick([], TINY_FLYWHEEL)])
    taken = Taken(out / "seconds.json", machine)

    def figures() -> dict[str, Any]:
        return learned(out, asked.bench.suites[0].name) | {"seconds": taken.seconds}

    for wave in waves(list(flywheel_stages(asked)), second):
        todo = [stage for stage, product in wave if not is_done(stage, product)]
        for stage in todo:
            if (run := stage["run"]) in ("sft", "rlve"):
                stage[run]["seconds"] = taken.granted(run, stage[run]["seconds"], 1 + second)
        for stage_name, seconds in run_at_once(todo, machine.folder):
            taken.keep(stage_name, seconds)
            machine.keep(name, figures())
    return figures()


@dataclass
class Taken:
    """The seconds that stages took and those that trainings were granted, on disk for a second start."""

    path: Path
    machine: Machine

    def __post_init__(self) -> None:
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.seconds: dict[str, float] = found.get("seconds", {})
        self.grants: dict[str, float] = found.get("grants", {})

    def granted(self, run: str, most: float, rlves: int) -> float:
        """The seconds of a training. All RLVEs get what the first was granted."""
        if run not in self.grants or run == "sft":
            left = (SFT_SHARE if run == "sft" else 1 / rlves) * (self.machine.seconds_left() - BENCH) - START
            self.grants[run] = max(LEAST, min(left, most))
        return self.grants[run]

    def keep(self, stage: str, seconds: float) -> None:
        """Note how long a stage took."""
        from homerl.envs.core.documents import write_atomic

        self.seconds[stage] = seconds
        write_atomic(self.path, json.dumps({"seconds": self.seconds, "grants": self.grants}))


def run_at_once(todo: list[dict[str, Any]], logs: Path) -> Iterator[tuple[str, float]]:
    """Run stages side by side, each with a log of its own. Yields the name of each that ends well, and its seconds.

    Raises `RuntimeError` with the end of a stage's log if it failed, after the others have ended.
    """
    from homerl.app.runs.stages import StageFailed, start_stage_process

    begin, failed = time.monotonic(), list[str]()
    with ExitStack() as children:
        running = {}
        for stage in todo:
            name = f"{Path(stage['out']).name}{' bench' if stage['run'] == 'bench' else ''}"
            command, log = (
                [sys.executable, "-m", "homerl", "run"],
                logs / f"{Path(stage['out']).parent.name} {name}.log",
            )
            running[name] = children.enter_context(start_stage_process(stage, command, log)), log
        while running:
            time.sleep(0.2)
            for name in [name for name, (child, _) in running.items() if not child.is_process_running]:
                child, log = running.pop(name)
                try:
                    child.raise_if_failed()
                except StageFailed:
                    failed.append(f"{name} failed: {log.read_text(errors='replace')[-1000:]}")
                else:
                    yield name, time.monotonic() - begin
    if failed:
        raise RuntimeError("\n".join(failed))


def waves(todo: list[Stage], second: bool) -> list[list[Stage]]:
    """The stages of a flywheel, grouped by what runs at the same time. With `second` there is an RLVE by trajectory and its
    benchmark, and none of the expert and the untrained model, for which no time is left.
    """
    synth, sft, rlve, *benches = todo
    if not second:
        return [[synth], [sft], [rlve], benches]
    *_, after_sft, after_rlve = benches
    return [[synth], [sft], [rlve], [by_trajectory(rlve)], [after_sft, after_rlve, by_trajectory(after_rlve)]]


def by_trajectory(stage: Stage) -> Stage:
    """RLVE with the credit of whole trajectories, or its benchmark, in a folder of its own."""
    data, product = stage
    out = Path(data["out"]).with_name(TRAJECTORY)
    more: Mapping[str, Any] = {"rlve": data["rlve"] | {"credit": "trajectory"}} if data["run"] == "rlve" else {}
    if data["run"] == "bench":
        more = {"model": data["model"] | {"name": str(out / "model")}}
    return {**data, **more, "out": str(out)}, out / product.relative_to(data["out"])


def learned(out: Path, suite: str) -> dict[str, Any]:
    """The figures in the folder of a flywheel so far: scores, differences, numbers of updates, trajectories, parameters."""
    from homerl.bench.scores import paired_difference
    from homerl.play.trajectory import read_rows
    from homerl.train.model_settings import ModelSettings, estimate_decoder_sizes

    figures: dict[str, Any] = {"suite": suite}
    results = {name: out / name / "bench" / suite for name in ("untrained", "sft", "rlve", TRAJECTORY)}
    for name, folder in results.items():
        if (folder / "score.json").exists():
            score = json.loads((folder / "score.json").read_text())
            figures[name] = {key: score.get(key) for key in ("n", "success", "interval", "phi", "tool_calls", "by_category")}
    for base, name in (("sft", "rlve"), ("sft", TRAJECTORY), (TRAJECTORY, "rlve")):
        if base in figures and name in figures:
            rows = [list(read_rows(results[one] / "results.jsonl")) for one in (base, name)]
            figures[f"{name} - {base}"] = paired_difference(*rows)
    for stage in ("sft", "rlve", TRAJECTORY):
        if (out / stage / "metrics.jsonl").exists():
            figures[f"{stage} updates"] = logged(out / stage)[-1]["step"]
    if (out / "synth/trajectories.jsonl").exists():
        figures["trajectories"] = (out / "synth/trajectories.jsonl").read_bytes().count(b"\n")
    if (out / "sft/model").exists():
        figures["parameters"] = estimate_decoder_sizes(ModelSettings(name=str(out / "sft/model"))).parameters
    return figures
