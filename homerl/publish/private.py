"""What is published of a recipe.

Invariant: no account, address or absolute path of the machine is left.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PRIVATE = {"out", "wandb", "url"}
PATH = re.compile(r"(-{1,2}[\w-]+=)?([/~][^\n]+)")  # alone, or as the value of an option


def shareable(value: Any) -> Any:
    """The value without data of the machine; an absolute path keeps only its last name."""
    if isinstance(value, dict):
        return {key: shareable(item) for key, item in value.items() if key not in PRIVATE}
    if isinstance(value, list):
        return [shareable(item) for item in value]
    if isinstance(value, str) and (found := PATH.fullmatch(value)):
        return f"{found[1] or ''}.../{Path(found[2]).name}"
    return value
