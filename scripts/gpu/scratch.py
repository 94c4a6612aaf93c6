"""recipes/scratch_100m.yaml whole: a model of 100M parameters from scratch, and its success before and after training."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, Machine, has, seconds_left
from gpu.shipped import TINY_FLYWHEEL, logged

BENCHES = 110  # seconds kept for the benchmarks of three models


def scratch(machine: Machine) -> dict[str, Any]:
    """Run synthesis, SFT and RLVE, one stage after the other, each with a share of the time left. Then evaluate the three
    models on SmartHome-Bench's easier half, the trained ones first. A second start resumes.
    """
    from homerl.run.flywheel import run_stage, stages
    from homerl.run.recipe import load_recipe

    out, taken = machine.folder / "scratch", dict[str, float]()
    common = ["--out", str(out), "--processes", str(os.cpu_count())]
    reports = ["--report_to", '["tensorboard"]'] if has("tensorboard") else []
    asked = load_recipe(ROOT / "recipes/scratch_100m.yaml", [*common, *reports, *machine.pick([], TINY_FLYWHEEL)])
    todo = list(stages(asked))
    todo = [*todo[:3], *todo[4:], todo[3]]  # the benchmark of the untrained model is the least important
    figures = learned(out, asked.bench.suites[0].name) | {"seconds": taken}
    for stage, product in todo:
        begin, run = time.monotonic(), stage["run"]
        if product.exists():
            continue
        if run in ("sft", "rlve"):
            stage[run]["seconds"] = max(20.0, (seconds_left() - BENCHES - 50) * {"sft": 0.45, "rlve": 0.9}[run])
        run_stage(stage, [sys.executable, "-m", "homerl.cli", "run"])
        taken[Path(stage["out"]).name + (" bench" if run == "bench" else "")] = time.monotonic() - begin
        figures = learned(out, asked.bench.suites[0].name) | {"seconds": taken}
        machine.keep("scratch_100m", figures)
    return figures


def learned(out: Path, suite: str) -> dict[str, Any]:
    """The figures in the folder of a flywheel so far: scores, differences, numbers of updates, trajectories, parameters."""
    from homerl.bench.score import paired_difference
    from homerl.play.trajectory import read_rows
    from homerl.train.recipe import ModelSettings
    from homerl.train.sizes import sizes_of

    figures: dict[str, Any] = {"suite": suite}
    results = {name: out / name / "bench" / suite for name in ("untrained", "sft", "rlve")}
    for name, folder in results.items():
        if (folder / "score.json").exists():
            score = json.loads((folder / "score.json").read_text())
            figures[name] = {key: score.get(key) for key in ("n", "success", "interval", "phi", "tool_calls", "by_category")}
    rows = [list(read_rows(results[name] / "results.jsonl")) for name in ("sft", "rlve") if name in figures]
    if len(rows) == 2:
        figures["rlve - sft"] = paired_difference(*rows)
    for stage in ("sft", "rlve"):
        if (out / stage / "metrics.jsonl").exists():
            figures[f"{stage} updates"] = logged(out / stage)[-1]["step"]
    if (out / "synth/trajectories.jsonl").exists():
        figures["trajectories"] = (out / "synth/trajectories.jsonl").read_bytes().count(b"\n")
    if (out / "sft/model").exists():
        figures["parameters"] = sizes_of(ModelSettings(name=str(out / "sft/model"))).parameters
    return figures
