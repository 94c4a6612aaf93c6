"""Flywheels whole: a model of 100M parameters from scratch, and its success before and after training.

`scratch_100m` has short dialogues. `long_100m` has long ones, and a second RLVE from the same SFT model for as many seconds:
the recipe's own credit, and that of whole trajectories.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, Machine, has, seconds_left
from gpu.shipped import TINY_FLYWHEEL, logged

BENCH = 37  # seconds kept for the benchmark of a model
TRAJECTORY = "rlve_trajectory"  # the folder of the second RLVE


def scratch(machine: Machine, name: str, second: bool = False) -> dict[str, Any]:
    """Run synthesis, SFT and RLVE, one stage after the other, each with a share of the time left. Then evaluate the models
    on the recipe's first suite, the trained ones first. With `second` there is a second RLVE. A second start resumes.
    """
    from homerl.bench.recipe import BenchRecipe
    from homerl.run.children import run_stage
    from homerl.run.flywheel import stages
    from homerl.run.products import all_scored
    from homerl.run.recipe import load_recipe

    out, taken = machine.folder / name, dict[str, float]()
    common = ["--out", str(out), "--processes", str(os.cpu_count())]
    reports = ["--report_to", '["tensorboard"]'] if has("tensorboard") else []
    asked = load_recipe(ROOT / f"recipes/{name}.yaml", [*common, *reports, *machine.pick([], TINY_FLYWHEEL)])
    todo = [*in_order(list(stages(asked)), second)]
    benches, trainings = (sum(stage["run"] == run for stage, _ in todo) for run in ("bench", "rlve"))
    figures = learned(out, asked.bench.suites[0].name) | {"seconds": taken}
    for stage, product in todo:
        begin, run = time.monotonic(), stage["run"]
        # not `is_done`, which compares recipes: a training's has the seconds that were left
        if product.exists() and (run != "bench" or all_scored(BenchRecipe.model_validate(stage))):
            trainings -= run == "rlve"
            continue
        left = seconds_left() - benches * BENCH - 50
        if run in ("sft", "rlve"):
            stage[run]["seconds"] = max(20.0, left * (0.45 if run == "sft" else 0.9 / trainings))
        trainings -= run == "rlve"
        run_stage(stage, [sys.executable, "-m", "homerl.cli", "run"])
        taken[Path(stage["out"]).name + (" bench" if run == "bench" else "")] = time.monotonic() - begin
        figures = learned(out, asked.bench.suites[0].name) | {"seconds": taken}
        machine.keep(name, figures)
    return figures


Stage = tuple[dict[str, Any], Path]


def in_order(todo: list[Stage], second: bool) -> Iterator[Stage]:
    """The stages of a flywheel, the benchmarks of the expert and of the untrained model last, since they are the least
    important; with `second`, RLVE and its benchmark twice.
    """
    synth, sft, rlve, expert, untrained, *trained = todo
    yield from (synth, sft, rlve)
    if second:
        yield by_trajectory(rlve)
    yield from trained
    if second:
        yield by_trajectory(trained[-1])
    yield from (expert, untrained)


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
    from homerl.bench.score import paired_difference
    from homerl.play.trajectory import read_rows
    from homerl.train.model import ModelSettings
    from homerl.train.sizes import sizes_of

    figures: dict[str, Any] = {"suite": suite}
    results = {name: out / name / "bench" / suite for name in ("untrained", "sft", "rlve", TRAJECTORY)}
    for name, folder in results.items():
        if (folder / "score.json").exists():
            score = json.loads((folder / "score.json").read_text())
            figures[name] = {key: score.get(key) for key in ("n", "success", "interval", "phi", "tool_calls", "by_category")}
    for base, name in (("sft", "rlve"), (TRAJECTORY, "rlve")):
        if base in figures and name in figures:
            rows = [list(read_rows(results[one] / "results.jsonl")) for one in (base, name)]
            figures[f"{name} - {base}"] = paired_difference(*rows)
    for stage in ("sft", "rlve", TRAJECTORY):
        if (out / stage / "metrics.jsonl").exists():
            figures[f"{stage} updates"] = logged(out / stage)[-1]["step"]
    if (out / "synth/trajectories.jsonl").exists():
        figures["trajectories"] = (out / "synth/trajectories.jsonl").read_bytes().count(b"\n")
    if (out / "sft/model").exists():
        figures["parameters"] = sizes_of(ModelSettings(name=str(out / "sft/model"))).parameters
    return figures
