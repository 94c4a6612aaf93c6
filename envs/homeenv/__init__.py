"""HomeEnv, a simulator of smart homes whose results can be verified (HomeFlow 3.2.1, Appendix A).

From the ground up: `values` (types, expressions), `devices` (what a product is and does), `plan` (what never changes in a
home), `state` (what does), `home.py`, and above it files, the sandbox, tools, toolsets and `env.py`. A lamp goes on in three
files: `home.py` takes the call, `state/state.py` finds the service and writes the values, `devices/service.py` runs it.

Invariant: nothing here imports `envs.homemaker`. HomeMaker builds homes from the parts that this package defines.
"""

from __future__ import annotations

from envs.homeenv.devices.spec import Entity
from envs.registering import register

__all__ = ["Entity"]

register("HomeEnv-v0", "envs.homeenv.env:HomeEnv")
