"""What is published of a recipe.

Invariants: no account, address or absolute path of the machine is left; `without_files` names no file, and holds no home.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PRIVATE = {"out", "wandb", "url"}
OF_FILES = ("files", "keep", "weather", "catalogue")  # keys of homes that name files
SHIPPED = frozenset(("homeassistant",))  # catalogues that come with homerl, and are no files of anybody
PATH = re.compile(r"(-{1,2}[\w-]+=)?([/~][^\n]+)")  # alone, or as the value of an option


def strip_private_data(value: Any) -> Any:
    """The value without data of the machine; an absolute path keeps only its last name."""
    if isinstance(value, dict):
        return {key: strip_private_data(item) for key, item in value.items() if key not in PRIVATE}
    if isinstance(value, list):
        return [strip_private_data(item) for item in value]
    if isinstance(value, str) and (found := PATH.fullmatch(value)):
        return f"{found[1] or ''}.../{Path(found[2]).name}"
    return value


def strip_file_names(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe of tasks without the names of files, but for catalogues that come with homerl. Of a file of tasks, or of a
    task, which holds a whole home, nothing is left."""
    if "worlds" in recipe:
        parts = {
            name: {**part, "recipe": strip_file_names(part.get("recipe") or {})} for name, part in recipe["worlds"].items()
        }
        return {**recipe, "worlds": parts}
    if "id" in recipe or "file" in recipe:
        return {}
    home = recipe.get("home")
    kept = {key: value for key, value in home.items() if key not in OF_FILES} if isinstance(home, Mapping) else None
    if isinstance(home, Mapping) and kept is not None and (own := SHIPPED.intersection(home.get("catalogue") or ())):
        kept["catalogue"] = sorted(own)
    return {key: value for key, value in recipe.items() if key != "home"} | ({} if kept is None else {"home": kept})
