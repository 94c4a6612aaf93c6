"""The simulator of HomeEnv (HomeFlow 3.2.1, Appendix A).

From the ground up: `values` (types, expressions), `devices` (what a product is and does), `plan` (what never changes in a
home), `state` (what does), `home.py`, and above it files, the sandbox, tools, toolsets and `env.py`. A lamp goes on in three
files: `home.py` takes the call, `state/state.py` finds the service and writes the values, `devices/service.py` runs it.

Invariant: nothing here imports `homerl.envs.homeenv.maker`. HomeMaker builds homes from the parts that this package defines.
"""

from __future__ import annotations

from homerl.envs.core.world import register_environment
from homerl.envs.homeenv.sim.devices.device_spec import Entity

__all__ = ["Entity"]

register_environment("HomeEnv-v0", "homerl.envs.homeenv.sim.env:HomeEnv")
