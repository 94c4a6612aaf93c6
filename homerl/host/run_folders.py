"""What the folders of a run say: its recipes with paths as they are now, and how its stages were trained.

Invariants:
- A recipe that a run wrote into its folder (`recipe.yaml`, and a stage's, such as `rlve.yaml`) is of that run, wherever the
  folder was moved to or is looked at from. Any other recipe there is as it was.
- Files that a folder lacks are left out. A folder that was moved together with the others is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.core.plugins import OF_RUNS, refuse_unloaded_plugins

FILES, PLUGINS = "files", "plugins"  # folders of a run: the files that its recipe names, and the plug-ins that it used
OF_TASKS = ("worlds", "toolsets", "intents", "languages")  # kinds of plug-ins of which tasks are made
RECIPE, RECORD = "recipe.yaml", "run.json"  # which a run writes


def relocate_recipe_paths(data: Any, file: Path) -> Any:
    """The data of a recipe, with paths within its run as they are now. A recipe that is no run's own is as it was."""
    if not isinstance(data, dict) or not (out := data.get("out")):
        return data
    own = file.name in (RECIPE, f"{data.get('run')}.yaml") and (file.parent / RECORD).is_file()
    was, now = (Path(str(out)), file.parent) if own else (None, None)
    run = file.parent.parent  # of a stage
    if (run / RECORD).is_file() and (run / RECIPE).is_file() and Path(str(out)).name == file.parent.name:
        was, now = Path(str(out)).parent, run
    if was is None or now is None or was.resolve() == now.resolve():
        return data
    return replace_path_prefix(data, str(was), str(now))


def refuse_unloaded_run_plugins(folder: Path, kinds: Collection[str] = OF_RUNS) -> None:
    """Raise `InputError` if plug-ins of a run, or of the run of a stage, are not loaded (`refuse_unloaded`)."""
    for run in (folder, folder.parent):
        if (run / RECORD).is_file():
            refuse_unloaded_plugins(run / PLUGINS, kinds)


def replace_path_prefix(data: Any, was: str, now: str) -> Any:
    """The data with `now` in place of `was` where a text is that path, or one below it."""
    if isinstance(data, dict):
        return {key: replace_path_prefix(value, was, now) for key, value in data.items()}
    if isinstance(data, list):
        return [replace_path_prefix(value, was, now) for value in data]
    if isinstance(data, str) and (data == was or data.startswith(f"{was}/")):
        return now + data[len(was) :]
    return data


def flatten_recipe(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a recipe by path, with their values as text. A list is one value."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from flatten_recipe(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", "null" if value is None else str(value)


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
