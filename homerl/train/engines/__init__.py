"""What samples the policy, chosen by recipe. All take token ids and give token ids.

A file here that has an `ENGINE` (`contract.py`) is an engine, which `rlve.engine.kind` chooses by name (`registry.py`).
Engines of your own may lie elsewhere: each folder that the environment variable HOMERL_ENGINES names (several are
separated as in PATH) is searched too.

Invariants: an engine samples with the weights of the last `sync`, says so in every sample's version, and a sample is of
one version whole; sampling is plain (the recipe's temperature, no cut-offs), so that its log-probabilities are the
loss's.
"""

from __future__ import annotations

import os

__path__ += [folder for folder in os.environ.get("HOMERL_ENGINES", "").split(os.pathsep) if folder]
