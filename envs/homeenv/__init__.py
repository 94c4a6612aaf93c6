"""HomeEnv, the verifiable home simulator (HomeFlow 3.2.1, Appendix A).

Invariant: nothing here imports `envs.homemaker`, which makes homes out of what is here.
"""

from __future__ import annotations

import gymnasium

from envs.homeenv.spec import Entity

__all__ = ["Entity", "register"]


def register() -> None:
    """Register `HomeEnv-v0` so that `gymnasium.make` returns it bare.

    Gymnasium's default wrappers hide `env.engine` and refuse a step before reset (HomeFlow A.3 does both).
    """
    if "HomeEnv-v0" not in gymnasium.registry:
        gymnasium.register(
            id="HomeEnv-v0",
            entry_point="envs.homeenv.env:HomeEnv",
            order_enforce=False,
            disable_env_checker=True,
        )


register()  # Gymnasium reads no entry points: importing `envs.homeenv` is what registers it
