"""Credit: step rewards of a group become one advantage a step. One mode a file: its rule, its keys, what it refuses.

A file here that has a `MODE` (`contract.py`) is a credit mode, which `rlve.credit` chooses by name (`registry.py`). Modes
of your own may lie elsewhere: each folder that the environment variable HOMERL_CREDIT names (several are separated as in
PATH) is searched too.
"""

from __future__ import annotations

import os

__path__ += [folder for folder in os.environ.get("HOMERL_CREDIT", "").split(os.pathsep) if folder]
