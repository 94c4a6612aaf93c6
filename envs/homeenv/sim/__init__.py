"""The simulator of HomeEnv (HomeFlow 3.2.1, Appendix A).

From the ground up: `values` (types, expressions), `devices` (what a product is and does), `home_plan.py` (what never changes
in a home), `home_state.py` (what does), `rules.py` (automations), `home.py` (time passes and automations act), and above it
files, `toolset.py`, the sandbox, toolsets, `home_world.py` and `env.py`. A lamp goes on in two files: `home_state.py` takes
the call, finds the service and writes the values; `devices/attributes_and_services.py` works them out.

Invariant: nothing here imports `homerl.envs.homeenv.maker`. HomeMaker builds homes from the parts that this package defines.
"""

from __future__ import annotations

from homerl.envs.core.world import register_environment
from homerl.envs.homeenv.sim.devices.device_spec import Entity

__all__ = ["Entity"]

register_environment("HomeEnv-v0", "homerl.envs.homeenv.sim.env:HomeEnv")
