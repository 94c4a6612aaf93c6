"""Toolsets: the sets of tools that an agent may see. The recipe chooses one by name.

Each module of this package with a `TOOLSET` (`envs/homeenv/sim/toolset.py`) is a toolset, named like its file. You can keep
toolsets of your own elsewhere: the environment variable HOMERL_TOOLSETS lists folders that are searched too, separated as
in PATH.

Invariant: `TOOLSETS` lists the papers' toolsets first, in the order of `FIRST`, which JSON Schemas show. The others follow
by name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from homerl.envs.core.plugins import added_plugin_folders, discover
from homerl.envs.homeenv.sim.toolset import Toolset

FIRST = ("homeflow", "smh", "direct")
__path__ += added_plugin_folders("toolsets")
_known = discover(sys.modules[__name__], "TOOLSET", Toolset)
TOOLSETS: Mapping[str, Toolset] = {name: _known[name] for name in dict.fromkeys([*FIRST, *_known])}
if TYPE_CHECKING:
    ToolsetName = str
else:
    ToolsetName = Literal[tuple(TOOLSETS)]  # a misspelt name is refused with a list of the known ones

__all__ = ["TOOLSETS", "ToolsetName"]
