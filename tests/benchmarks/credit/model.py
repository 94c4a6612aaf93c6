"""Tiny language models in the real trainer: recipes `run: rlve` that differ in the keys of credit alone.

Invariants: all runs of a task start from one SFT model and play the same blueprints, and runs that did not are refused; a
run is a function of task, variant and seed; what is finished is one JSON file, written whole, and is never done again.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from credit import figures
from credit.tasks import TASKS, Demonstrator, Task, make
from credit.variants import VARIANTS, WHOLE
from envs.documents import InputError, write_atomic
from homerl.play.loop import play
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Trajectory, read_rows, to_row, write_rows
from homerl.terminal.progress import progress_bar
from homerl.train.recipe import RLVERecipe, SFTRecipe
from homerl.worlds.registry import begin

MODEL = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32, "intermediate_size": 128}
PHRASES = ('device(\\"', '\\").turn_on()', '\\").close()', '\\").start()', "Done.", "turn on the", "close the")
NOTED = 0.5  # so that the model can be its own teacher; on all tokens, since a plan is read by copying
ROWS = {"train": 256, "heldout": 512}
REMEDY = "Its SFT model may not have learnt to copy: give another --sft-seed and --out."
KEPT = (
    "success",
    "episode/sampled_tokens",
    "entropy",
    "episode/steps",
    "curriculum/left_flat",
    "anchor/coverage",
    "anchor/singletons",
    "grad_norm",
    "teacher/gap",
    "teacher/agrees",
    "teacher/factor",
)


@dataclass(frozen=True)
class Size:
    """How much of everything. `epochs` of SFT and `updates` are the task's if they are None. `sft_seed` is of the SFT
    models: by chance one may not learn to copy what is asked for, and from it nothing can be compared."""

    demonstrations: int = 2400
    epochs: float | None = None
    sft_seed: int = 0
    updates: int | None = None
    blueprints: int = 8
    group: int = 8
    every: int = 3
    tests: int = 96


SMALLEST = Size(demonstrations=12, epochs=0.5, updates=1, blueprints=1, group=8, every=1, tests=4)


def study(out: Path, tasks: Sequence[str], modes: Sequence[str], seeds: int, size: Size = Size()) -> dict[str, Any]:
    """All runs that are not finished yet; the curves of all, by task and mode."""
    from homerl.run.launch import quieten

    quieten()
    todo = [(task, mode, seed) for seed in range(seeds) for task in tasks for mode in modes]
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    with progress_bar(Console(file=sys.stdout)) as bar:  # this one, whatever `hushed` puts in its place
        shown = bar.add_task("credit", total=len(todo), note="")
        for task, mode, seed in todo:
            bar.update(shown, note=f"{task}, {mode}, seed {seed}")
            found[task, mode, seed] = run(out, task, mode, seed, size)
            bar.advance(shown)
            if (mode, seed) == (modes[0], 0) and not any(share for _, share in found[task, mode, seed]["curve"]):
                bar.console.print(f"{task}: its first run never succeeds, so there may be nothing to compare. {REMEDY}")
    for task in tasks:
        one_start(out, [found[task, mode, seed] for mode in modes for seed in range(seeds)])
    return {task: {mode: [found[task, mode, seed]["curve"] for seed in range(seeds)] for mode in modes} for task in tasks}


def one_start(out: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Raises `InputError` if the runs of a task began from different SFT models."""
    for one in runs:
        if "start" not in one or one["start"] != runs[0].get("start"):
            where = result(out, one["task"], one["mode"], one["seed"])
            raise InputError(
                "it began from another SFT model than others of its task", str(where), "delete it: it is made again"
            )


def tokens(out: Path, tasks: Sequence[str], modes: Sequence[str], seeds: int) -> str:
    """The tokens that a rollout sampled on the mean of all updates and seeds, as a table.

    `counterfactual` is left out: most of its rollouts are cut after one step, and metrics of episodes leave these out.
    """
    rows, modes = [], [mode for mode in modes if not mode.startswith("counterfactual")]
    for task in tasks:
        runs = ((json.loads(result(out, task, mode, seed).read_text()) for seed in range(seeds)) for mode in modes)
        sampled = ([update["episode/sampled_tokens"] for one in each for update in one["updates"]] for each in runs)
        rows.append([task, *(f"{fmean(each):.1f}" for each in sampled)])
    return figures.markdown(["task", *modes], rows)


def result(out: Path, task: str, mode: str, seed: int) -> Path:
    """The file of a finished run."""
    return out / "runs" / f"{task}-{mode.replace(' ', '-')}-{seed}.json"


def run(out: Path, task: str, mode: str, seed: int, size: Size) -> dict[str, Any]:
    """The figures of one run: success on held-out homes by rollouts spent, and what it cost."""
    from homerl.train.rlve import train_rlve

    size = sized(size, TASKS[task])
    done = result(out, task, mode, seed)
    if done.exists():
        return finished(done, size)
    start = make_sft(out, task, size)
    recipe = rlve_recipe(out, TASKS[task], mode, seed, size, start)
    shutil.rmtree(recipe.out, ignore_errors=True)  # one that was broken off: begun again, it is short
    before = time.perf_counter()
    with hushed(out / "runs.log"):
        train_rlve(recipe)
    lines = list(read_rows(recipe.out / "metrics.jsonl"))
    found = {
        "task": task, "mode": mode, "seed": seed, "size": asdict(size), "start": digest(start),
        "seconds": time.perf_counter() - before,
        "curve": curve(lines, size, TASKS[task].measure),
        "updates": [{key: line.get(key) for key in KEPT} for line in lines if "loss" in line],
    }  # fmt: skip
    write_atomic(done, json.dumps(found) + "\n")
    shutil.rmtree(recipe.out)
    gc.collect()  # a trainer holds itself in circles
    return found


def digest(model: Path) -> str:
    """What tells the weights of two models apart."""
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()[:16]


def sized(size: Size, task: Task) -> Size:
    """The size of a task's runs."""
    return replace(size, epochs=size.epochs or task.epochs, updates=size.updates or task.updates)


def finished(done: Path, size: Size) -> dict[str, Any]:
    """The figures of a run that is finished, which must have been of this size."""
    found = json.loads(done.read_text())
    if found["size"] != asdict(size):
        raise InputError(f"it was made at another size: {found['size']}", str(done), "give another --out")
    return found


def curve(lines: Sequence[Mapping[str, float]], size: Size, measure: str) -> list[tuple[int, float]]:
    """(rollouts spent, success or another measure) of each evaluation."""
    found = [line[f"eval/{measure}"] for line in lines if f"eval/{measure}" in line]
    return [(i * size.every * size.blueprints * size.group, success) for i, success in enumerate(found)]


def make_sft(out: Path, task: str, size: Size) -> Path:
    """The task's SFT model, which every run starts from, and its blueprints."""
    from homerl.train.sft import train_sft

    folder = out / "sft" / task
    made = folder / "size.json"
    wanted = {"demonstrations": size.demonstrations, "epochs": size.epochs, "seed": size.sft_seed}
    if made.exists() and json.loads(made.read_text()) == wanted:
        return folder / "model"
    shutil.rmtree(folder, ignore_errors=True)
    for split, count in ROWS.items():
        write_rows(blueprints(out, task, split), (make(task, split, seed).model_dump(mode="json") for seed in range(count)))
    data = folder / "trajectories.jsonl"
    write_rows(data, map(to_row, demonstrations(TASKS[task], size.demonstrations)))
    with hushed(out / "runs.log"):
        model = train_sft(sft_recipe(folder, data, size))
    write_atomic(made, json.dumps(wanted) + "\n")
    return model


def demonstrations(task: Task, count: int, first_seed: int = 10_000) -> Iterator[Trajectory]:
    """Dialogues of the demonstrator with the scripted user; by default in homes that RLVE does not know."""
    for seed in range(first_seed, first_seed + count):
        episode = begin(make(task.name, "train", seed), task.limits)
        yield asyncio.run(play(episode, Demonstrator(task, seed), ScriptedUser(seed), seed))


def blueprints(out: Path, task: str, split: str) -> Path:
    return out / "blueprints" / f"{task}-{split}.jsonl"


SHARED = {"homerl": 1, "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}, "report_to": []}


def sft_recipe(folder: Path, data: Path, size: Size) -> SFTRecipe:
    return SFTRecipe.model_validate(
        SHARED
        | {
            "run": "sft",
            "seed": size.sft_seed,
            "out": folder,
            "data": str(data),
            "model": {"dtype": "float32", "from_scratch": MODEL | {"phrases": PHRASES}},
            "sft": {
                "learning_rate": 3e-3, "muon": 0.02, "warmup": 0.02, "dialogues_per_update": 16, "epochs": size.epochs,
                "max_length": 2048, "save_steps": 10_000, "log_steps": 10, "noted": NOTED, "loss_on": "all",
            },
        }
    )  # fmt: skip


def rlve_recipe(out: Path, task: Task, mode: str, seed: int, size: Size, start: Path) -> RLVERecipe:
    """What differs between two runs of a task is the variant's keys and the seed."""
    source = {split: {"file": blueprints(out, task.name, split)} for split in ROWS}
    return RLVERecipe.model_validate(
        SHARED
        | {
            "run": "rlve",
            "seed": seed,
            "out": out / "work" / f"{task.name}-{mode.replace(' ', '-')}-{seed}",
            "model": {"name": str(start), "dtype": "float32"},
            "blueprints": {"recipe": source["train"], "count": ROWS["train"], "first_seed": 0},
            "evaluation": {"every": size.every, "count": size.tests, "first_seed": 0, "recipe": source["heldout"]},
            "limits": asdict(task.limits),
            "rewards": {"success": task.success, "collateral": task.collateral, "turn_limit": 0.0},
            "rlve": {
                **settings(out, task, mode), "branch": {"horizon": task.horizon}, "updates": size.updates,
                "blueprints_per_update": size.blueprints, "group": members(mode, task, size.group),
                "learning_rate": task.learning_rate, "lr_scheduler": "constant", "warmup": 0.0, "kl": 0.0, "loss": "dapo",
                "max_tokens": 10, "max_episode_tokens": 1024, "engine": {"batch": 128},
                "save_steps": 10_000, "log_steps": 1,
            },
        }
    )  # fmt: skip


def settings(out: Path, task: Task, mode: str) -> dict[str, Any]:
    """A variant's keys of `rlve`; where groups begin within dialogues, with the file of these."""
    keys = dict(VARIANTS[mode])
    if curriculum := keys.get("curriculum"):
        keys["curriculum"] = {"prefix": {**curriculum["prefix"], "synthesis": str(verified(out, task))}}
    return keys


def verified(out: Path, task: Task) -> Path:
    """The dialogues of a demonstrator that never slips, one for each blueprint of training."""
    file, perfect = out / "verified" / f"{task.name}.jsonl", replace(task, slip=0.0, trifle=0.0)
    if not file.exists():
        write_rows(file, map(to_row, demonstrations(perfect, ROWS["train"], first_seed=0)))
    return file


def members(mode: str, task: Task, group: int) -> int:
    """The rollouts of a group that samples as many steps as `group` whole episodes of the task."""
    return WHOLE + (group - WHOLE) * task.steps if mode.startswith("counterfactual") and group > WHOLE else group


@contextmanager
def hushed(log: Path) -> Iterator[None]:
    """What the trainer shows of a run goes to a file: the study has a bar of its own."""
    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        yield
