"""Toolsets: the sets of tools that an agent may see. The recipe chooses one by name.

Each module of this package with a `TOOLSET` (`envs/homeenv/toolset.py`) is a toolset, named like its file. You can keep
toolsets of your own elsewhere: the environment variable HOMERL_TOOLSETS lists folders that are searched too, separated as
in PATH.

Invariant: `TOOLSETS` lists the papers' toolsets first, in the order of `FIRST`, which JSON Schemas show. The others follow
by name.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from envs.homeenv.toolset import Toolset

FIRST = ("homeflow", "smh", "direct")
__path__ += [folder for folder in os.environ.get("HOMERL_TOOLSETS", "").split(os.pathsep) if folder]


def _found() -> dict[str, Toolset]:
    """All toolsets by name, those in `FIRST` first."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in FIRST)
    modules = {name: import_module(f"{__name__}.{name}") for name in (*FIRST, *names)}
    return {name: module.TOOLSET for name, module in modules.items() if hasattr(module, "TOOLSET")}


TOOLSETS: Mapping[str, Toolset] = _found()
if TYPE_CHECKING:
    ToolsetName = str
else:
    ToolsetName = Literal[tuple(TOOLSETS)]  # a misspelt name is refused with a list of the known ones

__all__ = ["TOOLSETS", "ToolsetName"]
