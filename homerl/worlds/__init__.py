"""Worlds to play in: the contract (`contract.py`), how worlds are found (`registry.py`), and one folder for each world.

A folder here that holds a package with a `WORLD` is a world. Worlds of your own may lie elsewhere: each folder that the
environment variable HOMERL_WORLDS names (several are separated as in PATH) is searched too.
"""

from __future__ import annotations

import os

__path__ += [folder for folder in os.environ.get("HOMERL_WORLDS", "").split(os.pathsep) if folder]
