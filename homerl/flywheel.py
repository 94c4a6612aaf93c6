"""The flywheel: synthesis, SFT, RLVE, and a benchmark of each model on the way.

Invariants: each stage is a process of its own, with a recipe of its own that can be run by hand; a stage whose
product stands is never run again, so the same command resumes; one flywheel at a time works in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from rich.console import Console

from envs.documents import InputError, write_atomic
from homerl.lifetime import PARENT
from homerl.recipe import FlywheelRecipe, resolved

SHARED = ("homerl", "seed", "parallel", "cpu", "wandb")


def run_flywheel(recipe: FlywheelRecipe) -> None:
    """Run what is not done yet, then print the table and where the report is."""
    console = Console()
    with alone(recipe.out):
        for stage, product in stages(recipe):
            if not product.exists():
                start(stage, launcher(recipe, stage["run"]))
                if not product.exists():
                    raise RuntimeError(f"stage {stage['out']} ended without {product}")
    from homerl.report import write_report

    report = write_report(recipe.out)
    console.print(report.table)
    console.print(f"report: [link=file://{report.page}]{report.page}[/link]")
    console.print(f"next:   homerl export {recipe.out} --to my-home-agent")


def stages(recipe: FlywheelRecipe) -> Iterator[tuple[dict[str, Any], Path]]:
    """(stage recipe as plain data, the file or folder that proves it done), in order."""
    data, out = resolved(recipe), recipe.out
    shared = {key: data[key] for key in SHARED}
    model = data["model"] | {"from_scratch": None}

    def stage(run: str, folder: str, **sections: Any) -> dict[str, Any]:
        return shared | {"run": run, "out": str(out / folder)} | sections

    yield stage("synth", "synth", synth=data["synth"], processes=recipe.processes), out / "synth/stats.json"
    yield stage("sft", "sft", model=data["model"], data=str(out / "synth"), sft=data["sft"]), out / "sft/model"
    trained = model | {"name": str(out / "sft/model"), "lora": data["model"]["lora"]}
    sections = {key: data[key] for key in ("blueprints", "rlve", "rewards", "user", "limits", "sentinel")}
    yield stage("rlve", "rlve", model=trained, **sections), out / "rlve/model"
    untrained = str(out / "sft/scratch") if recipe.model.from_scratch else recipe.model.name
    for name, weights in (("untrained", untrained), ("sft", str(out / "sft/model")), ("rlve", str(out / "rlve/model"))):
        last = recipe.bench.suites[-1].name
        settings = model | {"name": weights, "lora": None}
        yield stage("bench", name, model=settings, bench=data["bench"]), out / name / "bench" / last / "score.json"


def launcher(recipe: FlywheelRecipe, run: str) -> list[str]:
    """The command that starts a stage: plain Python, or torchrun where training takes several processes."""
    count = recipe.processes or (1 if recipe.cpu else _gpus())
    if run in ("sft", "rlve") and count > 1:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    return [sys.executable]


def start(stage: dict[str, Any], command: list[str]) -> None:
    """Write the stage's recipe and run it to its end."""
    path = Path(stage["out"]) / "stage.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "homerl: 1\n" + yaml.safe_dump({k: v for k, v in stage.items() if k != "homerl"}, sort_keys=False))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "RANK", "WORLD_", "LOCAL_", "MASTER_"))}
    environment = {"OMP_NUM_THREADS": "1"} | clean | {PARENT: str(os.getpid()), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([*command, str(path)], env=environment)
    if done.returncode:
        raise InputError(
            f"stage {path.parent.name} ended with code {done.returncode}",
            where=str(path), remedy="see its message above; the same command goes on from here",
        )  # fmt: skip


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder's lock; another flywheel in it is refused."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        with lock.acquire(timeout=10):
            yield
    except Timeout:
        raise InputError("another run works in this folder", where=str(out), remedy="wait for it, or choose --out") from None


def _gpus() -> int:
    import torch

    return max(1, torch.cuda.device_count())


def load_scores(out: Path) -> dict[str, dict[str, Any]]:
    """model -> suite -> score, for the models that were benchmarked."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("untrained", "sft", "rlve"):
        for path in sorted((out / name / "bench").glob("*/score.json")):
            found.setdefault(name, {})[path.parent.name] = json.loads(path.read_text())
    return found
