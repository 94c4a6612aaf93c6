"""Credit modes: each turns the step rewards of a group into one advantage for each step.

Each file defines one mode as `MODE` (`contract.py`): its rule, its keys, and what it refuses. `rlve.credit` chooses a
mode by name. Folders in the environment variable HOMERL_CREDIT (separated as in PATH) are searched too.

Invariant: a group of zero variance (its rollouts all earned the same) has advantage 0 everywhere, in every mode.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("credit")
