"""HomeEnv, a simulator of smart homes whose results can be verified (HomeFlow 3.2.1, Appendix A).

From the ground up: `values` (types, expressions), `devices` (what a product is and does), `plan` (what never changes in a
home), `state` (what does), `home.py`, and above it files, the sandbox, tools, toolsets and `env.py`. A lamp goes on in three
files: `home.py` takes the call, `state/state.py` finds the service and writes the values, `devices/service.py` runs it.

Invariant: nothing here imports `envs.homemaker`. HomeMaker builds homes from the parts that this package defines.
"""

from __future__ import annotations

import gymnasium

from envs.homeenv.devices.spec import Entity

__all__ = ["Entity", "register"]


def register() -> None:
    """Register `HomeEnv-v0` so that `gymnasium.make` returns the environment without Gymnasium's default wrappers.

    HomeFlow A.3 reads `env.engine` and steps before the first reset. The default wrappers allow neither.
    """
    if "HomeEnv-v0" not in gymnasium.registry:
        gymnasium.register(
            id="HomeEnv-v0",
            entry_point="envs.homeenv.env:HomeEnv",
            order_enforce=False,
            disable_env_checker=True,
        )


register()  # Gymnasium reads no entry points, so importing `envs.homeenv` must register the environment
