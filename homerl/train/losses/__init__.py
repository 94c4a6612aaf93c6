"""Losses: what an update on rollouts minimises. They take log-probabilities and advantages of tokens.

Each file defines one loss as `LOSS` (`contract.py`), or several that are one idea, with the derivation. `rlve.loss` chooses
one by name. Folders in the environment variable HOMERL_LOSSES (separated as in PATH) are searched too.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("losses")
