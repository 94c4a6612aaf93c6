"""What one step earns: one reward a file, over `envs.world.StepFacts`.

A file here that holds a `REWARD` (`reward.py` says what that is) is a reward, named as the file is. Rewards of your own may
lie elsewhere: each folder that the environment variable HOMERL_REWARDS names (several are separated as in PATH) is searched
too.

Invariants: a reward looks at nothing but the facts of a step, so every reward of a stored trajectory can be
recomputed from it; of those that lie here, every term but `progress` and `success` is at most 0.
"""

from __future__ import annotations

import os

__path__ += [folder for folder in os.environ.get("HOMERL_REWARDS", "").split(os.pathsep) if folder]
