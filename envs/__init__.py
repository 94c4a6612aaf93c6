"""Worlds: simulated homes that agents act in, one folder each, and what all of them are made of (`core/`).

A folder with an `adapter.py`, which defines `WORLD`, is a world. The environment variable HOMERL_WORLDS lists further
folders to search, separated as in PATH, so that a world can be added without changing this package. `assistant/` is no
world: it serves an agent to a Home Assistant.

In a checkout this folder stands beside `homerl/`, and a link makes it `homerl.envs`.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("worlds")
