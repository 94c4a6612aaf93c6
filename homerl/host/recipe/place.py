"""Where a run lies: its own recipes name paths within the run as they were when it was started.

Invariant: a recipe that a run wrote into its folder (`recipe.yaml`, and a stage's, such as `rlve.yaml`) is of that run,
wherever the folder was moved to or is looked at from. Any other recipe there is as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

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
    if is_stage_folder(file.parent) and Path(str(out)).name == file.parent.name:
        was, now = Path(str(out)).parent, file.parent.parent
    if was is None or now is None or was.resolve() == now.resolve():
        return data
    return replace_path_prefix(data, str(was), str(now))


def refuse_unloaded_run_plugins(folder: Path, kinds: Collection[str] = OF_RUNS) -> None:
    """Raise `InputError` if plug-ins of a run, or of the run of a stage, are not loaded (`refuse_unloaded`)."""
    for run in (folder, folder.parent):
        if (run / RECORD).is_file():
            refuse_unloaded_plugins(run / PLUGINS, kinds)


def is_stage_folder(folder: Path) -> bool:
    """Whether a folder is that of a flywheel's stage."""
    return (folder.parent / RECORD).is_file() and (folder.parent / RECIPE).is_file()


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
