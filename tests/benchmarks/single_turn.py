"""HomeFlow's RLVE against its single-turn ablation (Table 4): both from one SFT model, at equal rollouts, several seeds.

`full` is the flywheel's own RLVE; `st` is the same with all that recipes/rlve_st.yaml changes: a group is sampled from the
last turn of an expert's dialogue, and earns what comes of it. What stands is not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import yaml
from differences import interval
from rich.console import Console
from rich.table import Table

from homerl.app.runs.resume import is_stage_done
from homerl.app.runs.stages import run_stage

ABLATION = Path(__file__).parents[2] / "recipes/rlve_st.yaml"
KINDS = ("full", "st")
FIGURES = {"entropy": "entropy", "tool calls": "episode/tool_calls", "success": "success"}


def stage(run: Path, out: Path, kind: str, seed: int, updates: int) -> dict[str, Any]:
    """The flywheel's RLVE stage with another seed, out and kind, evaluated on the way."""
    data = yaml.safe_load((run / "rlve/rlve.yaml").read_text())
    data["model"]["name"] = str(run / "sft/model")
    changed = yaml.safe_load(ABLATION.read_text()) if kind == "st" else {}
    data["rlve"] |= changed.get("rlve", {}) | {"updates": updates, "save_steps": updates, "blueprints_per_update": 8}
    data["rewards"] = data.get("rewards", {}) | changed.get("rewards", {})
    data["evaluation"] = {"every": updates // 4, "count": 300}
    return data | {"seed": seed, "out": str(out / f"{kind}-{seed}")}


def curve(folder: Path, name: str) -> list[float]:
    """A figure by update."""
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row[name] for row in rows if name in row]


def summary(out: Path, seeds: list[int], updates: int) -> Table:
    """Means over seeds of the training figures by quarter, and of success on held-out blueprints."""
    table = Table("figure", "kind", *(f"{i * updates // 4 + 1}-{(i + 1) * updates // 4}" for i in range(4)), "last: s.d.")
    for label, name in FIGURES.items():
        for kind in KINDS:
            runs = [quarters(curve(out / f"{kind}-{seed}", name)) for seed in seeds]
            table.add_row(
                f"{label}, training", kind, *(f"{fmean(q):.3f}" for q in zip(*runs)), spread([r[-1] for r in runs])
            )
    for label, name in (("success, held out", "eval/success"), ("tool calls, held out", "eval/episode/tool_calls")):
        for kind in KINDS:
            runs = [curve(out / f"{kind}-{seed}", name) for seed in seeds]
            means = (f"{fmean(values):.3f}" for values in list(zip(*runs))[1:])
            table.add_row(f"{label}, after", kind, *means, spread([r[-1] for r in runs]))
            table.add_row(f"{label}, before", kind, f"{fmean(r[0] for r in runs):.3f}")
    return table


def differences(out: Path, seeds: list[int], updates: int) -> Table:
    """Success on held-out blueprints, in points: paired by seed, with 95 % intervals (Student's t)."""
    full, st = (np.array([curve(out / f"{kind}-{seed}", "eval/success") for seed in seeds]) * 100 for kind in KINDS)
    table = Table("points of success, held out", *(f"after {i * updates // 4}" for i in range(1, 5)), "mean of the four")
    pairs = (("full - before", full - full[:, :1]), ("st - before", st - st[:, :1]), ("full - st", full - st))
    for label, gained in pairs:
        after = gained[:, 1:]
        table.add_row(label, *(interval(column, digits=1) for column in after.T), interval(after.mean(axis=1), digits=1))
    return table


def quarters(values: list[float]) -> list[float]:
    size = len(values) // 4
    return [fmean(values[i * size : (i + 1) * size]) for i in range(4)]


def spread(values: list[float]) -> str:
    return f"{stdev(values):.3f}" if len(values) > 1 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, default=Path("runs/quickstart"), help="a flywheel that has got to RLVE")
    parser.add_argument("--out", type=Path, default=Path("runs/single_turn"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--updates", type=int, default=40)
    asked = parser.parse_args()
    for seed in asked.seeds:
        for kind in KINDS:
            made = stage(asked.run, asked.out, kind, seed, asked.updates)
            if not is_stage_done(made, Path(made["out"]) / "model"):
                run_stage(made, [sys.executable])
    console = Console()
    console.print(summary(asked.out, asked.seeds, asked.updates))
    if len(asked.seeds) > 1:
        console.print(differences(asked.out, asked.seeds, asked.updates))


if __name__ == "__main__":
    main()
