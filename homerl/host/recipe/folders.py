"""What the folders of a run say: by what recipe a stage was trained, and from which model it started.

Invariants: files that a folder lacks are left out; a folder that was moved with the others is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.host.recipe.place import RECIPE, relocate_recipe_paths

STAGES = ("rlve", "sft")  # folders of a flywheel, the last trained first


def read_stage_recipe(stage: Path) -> dict[str, Any]:
    """The resolved recipe by which a stage was trained, or an empty mapping; recipes of benchmarks are skipped."""
    recipes = (read_own_recipe(path) for path in stage_files(stage, RECIPE))
    return next((recipe for recipe in recipes if recipe.get("run") != "bench"), {})


def read_own_recipe(path: Path) -> dict[str, Any]:
    """A recipe that lies in a run's folder, with the paths within the run as they are now."""
    found: dict[str, Any] = relocate_recipe_paths(require_mapping(read_yaml(path)), path)
    return found


def find_moved_folder(stage: Path, source: str | None) -> Path | None:
    """The folder that a stage's record calls `source`, even if both were moved together; None if it is gone.

    What lay beside the stage is looked for there first: a copy's record may name a folder of another run here.
    """
    if not source:
        return None
    path = Path(source)
    moved = stage.parent / path.parent.name / path.name
    places = (moved, path) if was_beside_stage(stage, path.parent) else (path, moved)
    return next((folder for folder in places if folder.is_dir()), None)


def was_beside_stage(stage: Path, folder: Path) -> bool:
    """Whether a folder lay beside a stage's, as its record says."""
    return Path(read_stage_recipe(stage).get("out") or stage).parent == folder.parent


def stage_files(stage: Path, name: str) -> list[Path]:
    """The files of this name of a stage, then of the flywheel that it belongs to."""
    places = [stage / name, *([stage.parent / name] if stage.name in STAGES else [])]
    return [path for path in places if path.is_file()]


def starting_model(recipe: Mapping[str, Any]) -> str | None:
    """The hub id or folder of the model that a recipe starts from; None if it starts from scratch."""
    return (recipe.get("model") or {}).get("name")


def require_mapping(document: Document) -> dict[str, Any]:
    """The keys and values of a file. Raises `InputError` if it holds anything else."""
    if not isinstance(document.data, dict):
        raise InputError("this file must hold keys and values", document.path, "restore it, or remove it")
    return document.data
