"""The flywheel: synthesis, SFT, RLVE, and a benchmark of each model, and of the expert as their upper bound.

Invariants: each stage is a process with its own recipe, which can also be run by hand; a stage that is done is
never run again, so the same command resumes (`homerl.app.runs.resume` says what is done).
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from homerl.app.runs.recipe import FlywheelRecipe, recipe_data
from homerl.app.runs.resume import Stage, require_stage_product, unfinished_stages
from homerl.app.runs.stages import (
    StageProcess,
    count_played_episodes,
    run_stage,
    stage_recipe_path,
    start_stage_process,
)
from homerl.host.progress_bar import progress_bar, progress_updater
from homerl.host.terminal import console, say_in_log
from homerl.train import TRAININGS
from homerl.worlds.contract import EXPERT

RLVE_SECTIONS = ("blueprints", "rlve", "rewards", "user", "limits", "agent", "sentinel", "deadlines", "evaluation")
POLL = 0.2  # seconds between looks at the benchmarks that run
SHARED = ("homerl", "seed", "parallel", "cpu", "wandb", "report_to")


def run_flywheel(recipe: FlywheelRecipe) -> None:
    """Run the stages that are not done, then print the table and the path of the report."""
    from homerl.report.pages.flywheel_report import write_flywheel_report

    todo = unfinished_stages(found := [*flywheel_stages(recipe)])
    for line in kept_stages_lines([stage for stage in found if stage not in todo], todo):
        console.print(line, highlight=False)
    benches = [stage for stage, _ in todo if stage["run"] == "bench"]
    made = [(stage, product) for stage, product in todo if stage["run"] != "bench"]
    lines = iter(stage_lines(recipe.out.name, [stage for stage, _ in made], bool(benches)))
    for stage, product in made:
        say_in_log(next(lines))
        run_stage(stage, stage_command(recipe, stage["run"]))
        require_stage_product(stage, product)
    for line in lines:
        say_in_log(line)
    benchmark_models(recipe, benches, console)
    for stage, product in todo:
        require_stage_product(stage, product)
    report = write_flywheel_report(recipe.out)
    console.print(report.table)
    console.print(Text.assemble("report: ", (str(report.page), f"link file://{report.page}")))
    for line in next_commands_lines(report.next, os.environ.get("HOMERL_ACTIVATE", "")):
        console.print(line, highlight=False, soft_wrap=True)


def kept_stages_lines(done: Sequence[Stage], todo: Sequence[Stage]) -> Iterator[str]:
    """What a run that goes on says first: what is there already, and what is still to be made."""
    if done and todo:
        texts = []
        for stages in (done, todo):
            names = [(Path(stage["out"]).name, stage["run"] == "bench") for stage, _ in stages]
            texts.append(", ".join(f"the benchmark of {name}" if is_bench else name for name, is_bench in names))
        yield f"kept from an earlier start: {texts[0]}; to do: {texts[1]}"


def stage_lines(name: str, made: Sequence[dict[str, Any]], benchmarks: bool) -> list[str]:
    """What a log says at the beginning of each stage, such as `smoke: 1 of 3: synth`; the benchmarks are the last one."""
    begun = [", which an earlier start has begun" * stage_recipe_path(stage).exists() for stage in made]
    named = [Path(stage["out"]).name + earlier for stage, earlier in zip(made, begun)] + ["benchmarks"] * benchmarks
    return [f"{name}: {number} of {len(named)}: {stage}" for number, stage in enumerate(named, 1)]


def next_commands_lines(commands: Iterable[tuple[str, str]], activate: str) -> Iterator[str]:
    """What a person may do next, ready to be typed. `activate` is a command that the shell needs first, or empty."""
    yield "next:"
    if activate:
        yield f"  {activate}   # once in each shell; ./scripts/homerl needs no activation"
    for purpose, command in commands:
        yield f"  {command}   # {purpose[0].lower()}{purpose[1:]}"


def benchmark_models(recipe: FlywheelRecipe, todo: Sequence[dict[str, Any]], console: Console) -> None:
    """Benchmark the models and the expert concurrently (one for each process on a CPU) with one progress bar.

    If one fails, the others are played all the same. Ctrl-C ends those that run, and begins no other.
    """
    if not todo:
        return
    total = sum(suite["count"] for stage in todo for suite in stage["bench"]["suites"])
    workers, waiting, running = (recipe.processes or 1) if recipe.cpu else 1, deque(todo), list[StageProcess]()
    with progress_bar(console) as bar, ExitStack() as children:
        task = bar.add_task("bench", total=total, note=", ".join(Path(s["out"]).name for s in todo if s["model"]))
        show = progress_updater(bar, task)
        while waiting or any(child.is_process_running for child in running):
            if waiting and sum(child.is_process_running for child in running) < workers:
                stage = waiting.popleft()
                started = start_stage_process(stage, [sys.executable], Path(stage["out"]) / "bench.log")
                running.append(children.enter_context(started))
                continue
            time.sleep(POLL)
            played = sum(count_played_episodes(folder) for stage in todo for folder in Path(stage["out"]).glob("bench/*"))
            show(min(total, played), total)
        bar.update(task, completed=total)
    for child in running:
        child.raise_if_failed()


def flywheel_stages(recipe: FlywheelRecipe) -> Iterator[Stage]:
    """Yield (stage recipe as plain data, the file or folder that proves it done), in order."""
    data, out = recipe_data(recipe), recipe.out
    shared = {key: data[key] for key in SHARED}
    model = data["model"] | {"from_scratch": None}  # only SFT makes one; later stages load what it made

    def stage(run: str, folder: str, **sections: Any) -> dict[str, Any]:
        return shared | {"run": run, "out": str(out / folder)} | sections

    kept = {"checkpoint_to": recipe.checkpoint_to} if recipe.checkpoint_to else {}

    yield stage("synth", "synth", synth=data["synth"], processes=recipe.processes), out / "synth/stats.json"
    sft = stage(
        "sft", "sft", model=data["model"], data=str(out / "synth"), sft=data["sft"], deadlines=data["deadlines"], **kept
    )
    yield sft, out / "sft/model"
    trained = model | {"name": str(out / "sft/model"), "lora": data["model"]["lora"]}
    sections = {key: data[key] for key in RLVE_SECTIONS if key in data} | kept  # `agent` may be left out
    yield stage("rlve", "rlve", model=trained, **sections), out / "rlve/model"
    last = data["bench"]["suites"][-1]["name"]
    knowing = {"agent": EXPERT, "expert": data["synth"]["expert"] | {"mistakes": 0.0}}
    yield stage("bench", EXPERT, model=None, bench=data["bench"], **knowing), out / EXPERT / "bench" / last / "score.json"
    untrained = str(out / "sft/scratch") if recipe.model.from_scratch else recipe.model.name
    for name, weights in (("untrained", untrained), ("sft", str(out / "sft/model")), ("rlve", str(out / "rlve/model"))):
        most = recipe.untrained_tasks if name == "untrained" else None
        suites = [suite | {"count": min(suite["count"], most or suite["count"])} for suite in data["bench"]["suites"]]
        bench, settings = data["bench"] | {"suites": suites}, model | {"name": weights, "lora": None}
        yield stage("bench", name, model=settings, bench=bench), out / name / "bench" / last / "score.json"


def stage_command(recipe: FlywheelRecipe, run: str) -> list[str]:
    """The command that starts a stage: plain Python, or torchrun if training takes several processes."""
    count = recipe.processes or 1
    if not recipe.processes and not recipe.cpu:
        import torch

        count = max(1, int(torch.cuda.device_count()))  # one process a GPU
    if run in TRAININGS and count > 1:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    return [sys.executable]
