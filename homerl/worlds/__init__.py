"""The worlds: their contract (`contract.py`), their registry (`registry.py`), what they share (`paraphrase.py`,
`sources.py`, `unmade.py`, `visits.py`), and one folder for each world.

Each subfolder defines its world as `WORLD`. The environment variable HOMERL_WORLDS lists further folders
to search, separated as in PATH, so that a world can be added without changing this package.
"""

from __future__ import annotations

from envs.plugins import added_folders

__path__ += added_folders("worlds")
