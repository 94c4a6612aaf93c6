"""Toolsets: the sets of tools that an agent may see. The recipe chooses one by name.

Each module of this package that defines a `TOOLSET` is a toolset, named like its file. You can keep toolsets of your own
elsewhere: the environment variable HOMERL_TOOLSETS lists folders that are searched too, separated as in PATH.

A toolset has tools, an instruction by language, and a writer, by which the scripted expert speaks. A file `switch.py` with
this text is the whole toolset `switch`:

    def switch(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        home.call(arguments["did"], "turn_on" if arguments["on"] else "turn_off")  # may raise `Refused`, which agents read
        return RunResult("")

    class SwitchWriter(StructuredWriter):  # each service call is one tool call
        def call(self, call: Call) -> dict[str, Any]:
            return tool_call("switch", {"did": call.did, "on": call.service == "turn_on"})

    TOOLS = (Tool("switch", "Switch a device.", {"did": "a device id", "on": {"type": "boolean"}}, ("did", "on"), switch),)
    TOOLSET = Toolset(TOOLS, {"en": "You switch devices with `switch`."}, SwitchWriter)

`envs/homeenv/sim/toolset.py` describes every part of `Toolset` and what a writer may define besides: `look` and `read` for
tools that read the home, `automate` for automations, `unfit` for plans that the tools cannot make. docs/homes.md has the
same example with its imports, and a test runs it.

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
