"""What led to a stage's model: the stages before it, and what they were trained on.

Invariants: files that a folder lacks are left out; a folder that was moved with the others is found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.host.recipe.folders import (
    find_moved_folder,
    read_own_recipe,
    read_stage_recipe,
    stage_files,
    starting_model,
    was_beside_stage,
)
from homerl.host.recipe.place import RECIPE
from homerl.play.trajectory import locate_row_errors
from homerl.worlds.sources import read_first_row


def stage_lineage(stage: Path) -> list[Path]:
    """The stages that led to a stage's model, oldest first; each started from the model of the one before."""
    chain = [stage]
    while (model := find_moved_folder(chain[0], starting_model(read_stage_recipe(chain[0])))) and model.name == "model":
        if model.parent in chain:
            break
        chain.insert(0, model.parent)
    return chain


def last_blueprint_recipe(stage: Path) -> dict[str, Any]:
    """The recipe of the blueprints that a stage's model was last trained on, or one of them; empty if there is no trace."""
    return next(filter(None, (_played(folder, read_stage_recipe(folder)) for folder in reversed(stage_lineage(stage)))), {})


def training_data_folder(stage: Path, recipe: Mapping[str, Any]) -> Path | None:
    """The folder of the data by which a recipe trained a stage, even if both were moved together. None if it is gone or on
    the hub. A stage without data of its own has those of its flywheel.
    """
    if source := recipe.get("data"):
        moved = stage.parent / Path(source).name
        return moved if was_beside_stage(stage, Path(source)) and moved.is_dir() else find_moved_folder(stage, source)
    flywheel = any(read_own_recipe(path).get("run") == "flywheel" for path in stage_files(stage, RECIPE))
    return stage.parent / "synth" if flywheel else None


def _played(stage: Path, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of the blueprints that a stage was trained on, or the first that is found of these blueprints."""
    told: dict[str, Any] = next(
        (found for key in ("blueprints", "synth") if (found := (recipe.get(key) or {}).get("recipe"))), {}
    )
    if told and "file" not in told:
        return told
    if told and (first := read_first_row(Path(told["file"]))):
        return first
    source = recipe.get("data")
    data = training_data_folder(stage, recipe) or (Path(source) if source else None)
    if data and (made := (read_stage_recipe(data).get("synth") or {}).get("recipe")):
        return dict(made)
    stored = [data / "trajectories.jsonl" if data.is_dir() else data] if data else []
    return next(filter(None, map(_blueprint, (*sorted((stage / "rollouts").glob("*.jsonl")), *stored))), {})


def _blueprint(file: Path) -> dict[str, Any]:
    """The blueprint of the first row of a file; empty if it has none. Raises `InputError` with its place if it is none."""
    if not isinstance(text := read_first_row(file).get("blueprint"), str):
        return {}
    with locate_row_errors(f"{file}:1"):
        if not isinstance(found := json.loads(text), dict):
            raise TypeError("its blueprint is no object")
    return found
