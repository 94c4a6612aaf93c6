"""The worlds: their contract (`contract.py`), their registry (`registry.py`), and one folder for each world.

A subfolder is a world if it is a package that defines `WORLD`. The environment variable HOMERL_WORLDS lists further folders
to search, separated as in PATH, so that a world can be added without changing this package.
"""

from __future__ import annotations

import os

__path__ += [folder for folder in os.environ.get("HOMERL_WORLDS", "").split(os.pathsep) if folder]
