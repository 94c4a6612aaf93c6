"""Toolsets: the tools that an agent sees, chosen in the recipe. One file a toolset, found by being here.

A toolset is a module with a `TOOLSET` (`envs/homeenv/toolset.py`); its name is the file's. Toolsets of your own may lie
elsewhere: each folder that the environment variable HOMERL_TOOLSETS names (several are separated as in PATH) is searched
too.

Invariant: `TOOLSETS` has those of the papers first, in the order in which JSON Schemas list them; the others follow by name.
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
    """The toolsets by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in FIRST)
    modules = {name: import_module(f"{__name__}.{name}") for name in (*FIRST, *names)}
    return {name: module.TOOLSET for name, module in modules.items() if hasattr(module, "TOOLSET")}


TOOLSETS: Mapping[str, Toolset] = _found()
if TYPE_CHECKING:
    ToolsetName = str
else:
    ToolsetName = Literal[tuple(TOOLSETS)]  # so that what is misspelt is refused with the names that there are

__all__ = ["TOOLSETS", "ToolsetName"]
