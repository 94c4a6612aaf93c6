"""Engines: the samplers of the policy. They take token ids and return token ids.

Each file defines one engine as `ENGINE` (`contract.py`). `rlve.engine.kind` chooses one by name. Folders in
the environment variable HOMERL_ENGINES (separated as in PATH) are searched too.

Invariants:
- An engine samples with the weights of the last `sync`, and every sample names their version: the oldest one, if weights
  came while it ran.
- Sampling has the recipe's temperature and no cut-offs such as top-p. So its log-probabilities are those of the loss.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("engines")
