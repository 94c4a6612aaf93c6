"""Starts the run of a recipe. Both ways to start one (the launch hook and `homerl run`) end here.

Invariants: bad input, and runs that this machine cannot do, end before any work with one message and exit code 2; a run
that lost its training signal ends with code 3, and one that waited too long with code 4; only the first process prints,
except for what one process alone knows (`homerl/host/exit_codes.py`); one run at a time works in a folder; of the processes
that a launcher started, all train, and the first does everything else alone.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import name_path_in_errors
from homerl.host.exit_codes import run_to_end, write_exit_code
from homerl.host.processes import die_with_parent, is_local_main_process, is_main_process
from homerl.host.recipe_files import read_own_recipe
from homerl.host.terminal import print_error, say, waiting_spinner
from homerl.train import TRAININGS

LIBRARY_SETTINGS = {  # environment variables
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # beside ours
    "WANDB_SILENT": "true",  # it prints into our bars, and runs are offline unless asked otherwise
    "TOKENIZERS_PARALLELISM": "false",  # processes are forked, and would inherit its threads' locks
    "THP_MEM_ALLOC_ENABLE": "1",  # torch's large tensors on a CPU are in huge pages
}


def main(path: str, argv: Sequence[str]) -> int:
    """Check the recipe at `path` with the overrides `argv`, run it, and return the exit code."""
    die_with_parent()
    set_up_libraries()  # before they are imported, when some read these variables
    code = run_to_end(partial(_start_run, path, argv), lambda end: end.by_all or is_main_process())
    write_exit_code(code)
    return code


def refuse_without_packages(path: Path) -> None:
    """Raise `ModuleNotFoundError` if a package is missing that a run of this recipe surely needs. What else the recipe's
    reading imports may be in a smaller extra, which would be named and then not suffice."""
    for package, kinds in {"torch": (*TRAININGS, "flywheel"), "sacrebleu": ("synth",)}.items():
        if find_spec(package) is None and read_own_recipe(path).get("run") in kinds:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def _start_run(path: str, argv: Sequence[str]) -> None:
    with (
        waiting_spinner(f"{path}: checking the recipe and this machine", in_log=True) if is_main_process() else nullcontext()
    ):
        from homerl.app.runs.preflight import check_machine, find_other_limits, refuse_other_process_count
        from homerl.app.runs.recipe import load_recipe, split_from_option
        from homerl.app.runs.rehearsal import measure_prompts, rehearse_recipe

        recipe = load_recipe(path, argv)
        # A launcher starts a process for each GPU, whatever the kind.
        if not is_main_process() and recipe.run not in TRAININGS:
            return
        refuse_other_process_count(recipe, path)
        check_machine(recipe, path)
        warnings: list[str] = []
        if is_main_process():  # if it refuses, the launcher ends the others
            rehearse_recipe(recipe)
            warnings += [found.line for found in measure_prompts(recipe, path) if found.warns]
            warnings += find_other_limits(recipe)
    for line in warnings:
        print_error(f"warning: {line}")
    run_recipe(recipe, split_from_option(argv)[1])


def run_recipe(recipe: Any, origin: Path | None = None) -> None:
    """Let the run's folder hold what the run needs and a record of it, then run it, alone in its folder.

    A flywheel first takes what it would make alike from the run `origin`.
    """
    from homerl.app.runs.flywheel import flywheel_stages
    from homerl.app.runs.resume import refuse_another_training, take_finished_stages, unfinished_stages
    from homerl.app.runs.run_folder import copy_recipe_files, write_run_record
    from homerl.host.processes import folder_lock

    with folder_lock(recipe.out) if is_main_process() else nullcontext():
        if recipe.run in TRAININGS and is_local_main_process():
            _take_up_stored_run(recipe)
        # a benchmark writes into the folder of the run that made its model
        if is_main_process() and recipe.run != "bench":
            recipe = copy_recipe_files(recipe)
            stages = [*flywheel_stages(recipe)] if recipe.run == "flywheel" else []
            if origin and stages:
                take_finished_stages(recipe, stages, origin)
            refuse_another_training(recipe)
            # The record of a flywheel that has made everything stays that of the commit that made it.
            if not stages or unfinished_stages(stages):
                write_run_record(recipe)
        with name_path_in_errors(recipe.out):  # libraries that write a model or a checkpoint do not say where
            pkgutil.resolve_name(RUNNERS[recipe.run])(recipe)


def _take_up_stored_run(recipe: Any) -> None:
    """Go on from a checkpoint in another place, if the recipe names one and this machine has none."""
    if not recipe.checkpoint_to:
        return
    from homerl.train.checkpoint_store import take_up_stored_run

    if name := take_up_stored_run(recipe):
        say(f"{recipe.out}: taken from {recipe.checkpoint_to}: {name}")


def set_up_libraries() -> None:
    """Leave the terminal's progress to homerl, and forks safe. Environment variables that are already set are kept."""
    for name, value in LIBRARY_SETTINGS.items():
        os.environ.setdefault(name, value)


RUNNERS = {  # the function for each value of `run:`; a run imports only its own
    "synth": "homerl.app.runs.stages:run_synth",
    "sft": "homerl.train.update.sft:train_sft",
    "rlve": "homerl.train.update.rlve:train_rlve",
    "bench": "homerl.app.runs.stages:run_bench",
    "flywheel": "homerl.app.runs.flywheel:run_flywheel",
}
