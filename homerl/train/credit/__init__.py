"""Credit modes: each turns the step rewards of a group into one advantage for each step.

Each file defines one mode as `MODE` (`contract.py`): its rule, its keys, and what it refuses. `rlve.credit` chooses a
mode by name (`registry.py`). Folders in the environment variable HOMERL_CREDIT (separated as in PATH) are searched too.

Invariant: a group whose rollouts all earned the same teaches nothing: all of its advantages are 0, in every mode.
"""

from __future__ import annotations

from envs.plugins import added_folders

__path__ += added_folders("credit")
