"""What the folders of a run say: its stages, by what recipe each was trained, and on what.

Invariants: files that a folder lacks are left out; a folder that was moved with the others is found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.documents import Document, InputError, read_yaml
from homerl.play.trajectory import at_row
from homerl.recipe.place import RECIPE, in_place
from homerl.worlds.sources import first_row

STAGES = ("rlve", "sft")  # folders of a flywheel, the last trained first


def lineage(stage: Path) -> list[Path]:
    """The stages that led to a stage's model, oldest first; each started from the model of the one before."""
    chain = [stage]
    while (model := local_folder(chain[0], source_of(read_recipe(chain[0])))) and model.name == "model":
        if model.parent in chain:
            break
        chain.insert(0, model.parent)
    return chain


def played_by(stage: Path) -> dict[str, Any]:
    """The recipe of the blueprints that a stage's model was last trained on, or one of them; empty if there is no trace."""
    return next(filter(None, (_played(folder, read_recipe(folder)) for folder in reversed(lineage(stage)))), {})


def read_recipe(stage: Path) -> dict[str, Any]:
    """The resolved recipe by which a stage was trained, or an empty mapping; recipes of benchmarks are skipped."""
    recipes = (own_recipe(path) for path in stage_files(stage, RECIPE))
    return next((recipe for recipe in recipes if recipe.get("run") != "bench"), {})


def own_recipe(path: Path) -> dict[str, Any]:
    """A recipe that lies in a run's folder, with the paths within the run as they are now."""
    found: dict[str, Any] = in_place(mapping_of(read_yaml(path)), path)
    return found


def local_folder(stage: Path, source: str | None) -> Path | None:
    """The folder that a stage's record calls `source`, even if both were moved together; None if it is gone.

    What lay beside the stage is looked for there first: a copy's record may name a folder of another run here.
    """
    if not source:
        return None
    path = Path(source)
    moved = stage.parent / path.parent.name / path.name
    places = (moved, path) if _lay_beside(stage, path.parent) else (path, moved)
    return next((folder for folder in places if folder.is_dir()), None)


def _lay_beside(stage: Path, folder: Path) -> bool:
    """Whether a folder lay beside a stage's, as its record says."""
    return Path(read_recipe(stage).get("out") or stage).parent == folder.parent


def data_folder(stage: Path, recipe: Mapping[str, Any]) -> Path | None:
    """The folder of the data by which a recipe trained a stage, even if both were moved together. None if it is gone or on
    the hub. A stage without data of its own has those of its flywheel.
    """
    if source := recipe.get("data"):
        moved = stage.parent / Path(source).name
        return moved if _lay_beside(stage, Path(source)) and moved.is_dir() else local_folder(stage, source)
    flywheel = any(own_recipe(path).get("run") == "flywheel" for path in stage_files(stage, RECIPE))
    return stage.parent / "synth" if flywheel else None


def stage_files(stage: Path, name: str) -> list[Path]:
    """The files of this name of a stage, then of the flywheel that it belongs to."""
    places = [stage / name, *([stage.parent / name] if stage.name in STAGES else [])]
    return [path for path in places if path.is_file()]


def source_of(recipe: Mapping[str, Any]) -> str | None:
    """The hub id or folder of the model that a recipe starts from; None if it starts from scratch."""
    return (recipe.get("model") or {}).get("name")


def mapping_of(document: Document) -> dict[str, Any]:
    """The keys and values of a file. Raises `InputError` if it holds anything else."""
    if not isinstance(document.data, dict):
        raise InputError("this file must hold keys and values", document.path, "restore it, or remove it")
    return document.data


def _played(stage: Path, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of the blueprints that a stage was trained on, or the first that is found of these blueprints."""
    told: dict[str, Any] = next(
        (found for key in ("blueprints", "synth") if (found := (recipe.get(key) or {}).get("recipe"))), {}
    )
    if told and "file" not in told:
        return told
    if told and (first := first_row(Path(told["file"]))):
        return first
    source = recipe.get("data")
    data = data_folder(stage, recipe) or (Path(source) if source else None)
    if data and (made := (read_recipe(data).get("synth") or {}).get("recipe")):
        return dict(made)
    stored = [data / "trajectories.jsonl" if data.is_dir() else data] if data else []
    return next(filter(None, map(_blueprint, (*sorted((stage / "rollouts").glob("*.jsonl")), *stored))), {})


def _blueprint(file: Path) -> dict[str, Any]:
    """The blueprint of the first row of a file; empty if it has none. Raises `InputError` with its place if it is none."""
    if not isinstance(text := first_row(file).get("blueprint"), str):
        return {}
    with at_row(f"{file}:1"):
        if not isinstance(found := json.loads(text), dict):
            raise TypeError("its blueprint is no object")
    return found
