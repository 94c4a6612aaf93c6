"""The record of a run: resolved recipe, seeds, package versions and git commit, beside its results."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from homerl import __version__
from homerl.app.runs.recipe import recipe_data
from homerl.envs.core.documents import write_atomic
from homerl.host.recipe.base import BaseRecipe
from homerl.host.recipe.place import RECIPE, RECORD

PACKAGES = (
    "torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "deepspeed", "vllm", "wandb",
    "pydantic", "pydantic-monty", "gymnasium", "numpy", "pvlib",
)  # fmt: skip


def write_run_record(recipe: BaseRecipe) -> None:
    """Write `recipe.yaml` and `run.json` to the run's folder."""
    recipe.out.mkdir(parents=True, exist_ok=True)
    write_atomic(recipe.out / RECIPE, yaml.safe_dump(recipe_data(recipe), sort_keys=False, allow_unicode=True))
    write_atomic(recipe.out / RECORD, json.dumps(describe_environment(recipe), indent=1) + "\n")


def describe_environment(recipe: BaseRecipe) -> dict[str, Any]:
    """Seed, versions, commit and command."""
    return {
        "homerl": __version__,
        "seed": recipe.seed,
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "command": sys.argv,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree that homerl runs from; None outside of a git repository."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
