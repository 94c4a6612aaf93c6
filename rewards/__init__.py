"""The rewards of one step: one reward for each file, computed from `homerl.envs.core.world.StepFacts`.

A file that defines a `REWARD` (see `reward.py`) is a reward with the file's name. Folders in the environment variable
HOMERL_REWARDS (separated as in PATH) are searched too.

Invariants: a reward uses the facts of a step and nothing else, so every reward of a stored trajectory can be recomputed
from it; among the rewards in this folder, every term except `progress` and `success` is at most 0.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("rewards")
