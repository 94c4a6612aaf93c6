"""The commands of `homerl`, by topic. A file defines `COMMAND`: a `Command` (`homerl/host/terminal.py`), or a tuple of them.

The environment variable HOMERL_COMMANDS lists further folders to search. The logic is in the modules that a command calls;
these are imported when it runs, so that `homerl --help` is quick.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("commands")
