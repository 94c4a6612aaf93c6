"""A run's folder holds a record of the run (its recipe, versions and commit), and all that it reads: files and plug-ins.

Invariants: the run reads the copies, so a file that changes meanwhile changes nothing in it; a run that goes on with another
file than it began with is refused; a file of a run is copied whole, and never again. What other runs made (data, models, a
synthesis) is not copied.
"""

from __future__ import annotations

import filecmp
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from homerl import __version__
from homerl.app.runs.recipe import recipe_to_yaml
from homerl.envs.core.documents import InputError, name_path_in_errors, write_atomic
from homerl.envs.core.model import READS, ShippedNames
from homerl.envs.core.plugins import OF_RUNS, added_plugin_folders
from homerl.host.recipe_files import FILES, PLUGINS, RECIPE, RECORD, BaseRecipe

PACKAGES = (
    "torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "deepspeed", "vllm", "wandb",
    "pydantic", "pydantic-monty", "gymnasium", "numpy", "pvlib",
)  # fmt: skip


def write_run_record(recipe: BaseRecipe) -> None:
    """Write `recipe.yaml` and `run.json` to the run's folder."""
    recipe.out.mkdir(parents=True, exist_ok=True)
    write_atomic(recipe.out / RECIPE, recipe_to_yaml(recipe))
    write_atomic(recipe.out / RECORD, json.dumps(describe_environment(recipe), indent=1) + "\n")


def describe_environment(recipe: BaseRecipe) -> dict[str, Any]:
    """Seed, versions, commit and command."""
    return {
        "homerl": __version__,
        "seed": recipe.seed,
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _find_version(name))},
        "commit": find_source_commit(),
        "command": sys.argv,
    }


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_source_commit() -> str | None:
    """The commit of the source tree that homerl runs from; None outside of a git repository."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


CACHES = shutil.ignore_patterns("__pycache__", "*.pyc")


def copy_recipe_files(recipe: BaseRecipe) -> Any:
    """Copy what the recipe names into the run's folder, and return the recipe that names the copies.

    Raises `InputError` if a copy of an earlier start differs from what the recipe names now.
    """
    # Plug-ins come first: the folders that the environment names.
    for kind in OF_RUNS:
        place = recipe.out / PLUGINS / kind
        for folder in map(Path, added_plugin_folders(kind)):
            if folder.is_dir() and folder != place.resolve():
                with name_path_in_errors(place):
                    shutil.copytree(folder, place, dirs_exist_ok=True, ignore=CACHES)
    return _with_copies(recipe, _Shelf(recipe.out))


class _Shelf:
    """The run's copies, by the files that they were made from."""

    def __init__(self, out: Path) -> None:
        self.own = [folder.resolve() / FILES for folder in (out, out.parent)]  # those of the run, and of a stage's flywheel
        self.folder, self.taken = out / FILES, dict[Path, Path]()

    def copied_path(self, name: str) -> str:
        """The copy of a file or folder, which is made if needed. A name of something else, or of a copy, is itself."""
        source = Path(name).resolve()
        if not source.exists() or any(source.is_relative_to(folder) for folder in self.own):
            return name
        if source not in self.taken:
            # Two files of one name get different numbers.
            path = self.folder / (Path(name).name or source.name)
            numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, len(self.taken) + 3))
            self.taken[source] = next(free for free in (path, *numbered) if free not in self.taken.values())
            self._copy(source, self.taken[source])
        return str(self.taken[source])

    def _copy(self, source: Path, copy: Path) -> None:
        if copy.exists():
            if are_equal_files(source, copy):
                return
            remedy = f"put back what it was ({copy}), or choose another --out"
            raise InputError(f"the run in {self.folder.parent} began with another content", str(source), remedy)
        making = copy.with_name(f".{copy.name}.making")  # a start can be killed within a copy
        with name_path_in_errors(copy):
            self.folder.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.rmtree(making, ignore_errors=True)
                shutil.copytree(source, making, ignore=CACHES)
            else:
                shutil.copy2(source, making)
            making.rename(copy)


def are_equal_files(one: Path, other: Path) -> bool:
    """Whether two files, or all files of two folders, are equal."""
    if one.is_dir() != other.is_dir():
        return False
    if not one.is_dir():
        return filecmp.cmp(one, other, shallow=False)
    names = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} for folder in (one, other)]
    kept = [{name for name in found if "__pycache__" not in name.parts} for found in names]
    return kept[0] == kept[1] and all(filecmp.cmp(one / name, other / name, shallow=False) for name in kept[0])


def _with_copies(value: Any, shelf: _Shelf) -> Any:
    """A part of a recipe that names the copies."""
    if isinstance(value, BaseModel):
        changed = {}
        for name, field in type(value).model_fields.items():
            part = getattr(value, name)
            reads = READS in field.metadata
            new = _name_copies(part, shelf, field.metadata) if reads else _with_copies(part, shelf)
            if new != part:
                changed[name] = new
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple | list):
        return type(value)(_with_copies(part, shelf) for part in value)
    if isinstance(value, dict):
        return {key: _with_copies(part, shelf) for key, part in value.items()}
    return value


def _name_copies(value: Any, shelf: _Shelf, marks: Sequence[Any]) -> Any:
    """The value of a field that names files: a path, several, or none."""
    shipped = {name for mark in marks if isinstance(mark, ShippedNames) for name in mark.names}
    if isinstance(value, tuple):
        return tuple(name if name in shipped else shelf.copied_path(name) for name in value)
    return value if value is None else type(value)(shelf.copied_path(str(value)))
