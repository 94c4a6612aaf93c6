"""A flywheel that starts at what another one made (`--from RUN`): it takes its synthesis, and its SFT if that is trained
alike, each with what was measured of it.

Invariants: a flywheel takes only what its own recipe would make, so the table says the same as without; what is taken is
copied whole or not at all, and the other run never changes; RLVE is never taken.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from homerl.app.runs.begun import differing_keys
from homerl.app.runs.children import stage_recipe_path
from homerl.app.runs.products import Stage, count_lost_blueprints, count_trajectories, is_fully_scored, is_recipe_of_stage
from homerl.app.runs.starting import FLAG
from homerl.app.runs.whole import are_equal_files
from homerl.bench.recipe import BenchRecipe
from homerl.envs.core.documents import InputError, name_path_in_errors, read_yaml
from homerl.host.recipe.base import BaseRecipe
from homerl.host.recipe.place import FILES
from homerl.host.terminal.console import say
from homerl.worlds.contract import EXPERT


def take_finished_stages(recipe: BaseRecipe, found: Sequence[Stage], run: Path) -> None:
    """Copy the finished stages of a flywheel `run` that are those of `recipe`, whose stages are `found`, and say which.

    Raises `InputError` if not even the synthesis is, or if a file that both name is another one there.
    """
    if run.resolve() == recipe.out.resolve():
        raise InputError("a run cannot start at itself", FLAG, "choose another --out")
    for file in (recipe.out / FILES).glob("*"):
        if (theirs := run / FILES / file.name).exists() and not are_equal_files(file, theirs):
            raise InputError(f"this is not the file of the run in {run}", str(file), f"leave out {FLAG}, or name that one")
    of = {name: [one for one in found if Path(one[0]["out"]).name == name] for name in ("synth", "sft", "untrained", EXPERT)}
    chain = [*takewhile(lambda name: _fits(*of[name][0], run / name), ("synth", "sft", "untrained"))]
    if not chain:
        why = ", ".join(_differing(of["synth"][0][0], run / "synth")) or "it has none, or an unfinished one"
        raise InputError(f"its synthesis is not that of the recipe: {why}", str(run), f"leave out {FLAG}, or change that")
    names = [*chain, *([EXPERT] if _fits(*of[EXPERT][0], run / EXPERT) else [])]
    for name in (taken := [name for name in names if not (recipe.out / name).exists()]):
        _copy(run / name, recipe.out / name, measured=_fits(*of[name][-1], run / name))
    say(f"taken from {run}: {', '.join(taken) or 'nothing that is not here already'}")


def _fits(stage: dict[str, Any], product: Path, theirs: Path) -> bool:
    """Whether another run's stage, in the folder `theirs`, is finished, and was made by the recipe of this stage."""
    path, made = theirs / stage_recipe_path(stage).name, theirs / product.relative_to(stage["out"])
    if not path.is_file() or not made.exists() or not is_recipe_of_stage(read_yaml(path).data, stage):
        return False
    if stage["run"] == "synth":
        return bool(count_trajectories(made)) and not count_lost_blueprints(made)
    return stage["run"] != "bench" or is_fully_scored(BenchRecipe.model_validate(stage | {"out": str(theirs)}))


def _differing(stage: dict[str, Any], theirs: Path) -> list[str]:
    """The keys in which the recipe of another run's stage differs."""
    if not (path := theirs / stage_recipe_path(stage).name).is_file():
        return []
    return differing_keys(read_yaml(path).data, stage)


def _copy(source: Path, target: Path, measured: bool) -> None:
    """Copy a stage's folder, without checkpoints, and without its benchmark unless that is the same one."""
    making = target.with_name(f".{target.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    left = ["checkpoints", ".lock", *([] if measured else ["bench", "bench.*"])]
    with name_path_in_errors(target):
        shutil.copytree(source, making, copy_function=_link, ignore=shutil.ignore_patterns(*left))
        making.rename(target)


def _link(source: str, target: str) -> None:
    """Another name for a file, which takes no room; a copy where the disk is another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
