"""HomeEnv, the verifiable home simulator (HomeFlow 3.2.1, Appendix A)."""

from __future__ import annotations

from typing import Any

import gymnasium

from envs.homeenv.spec import Entity

__all__ = ["Entity", "HomeSampler", "register"]


def __getattr__(name: str) -> Any:
    if name == "HomeSampler":  # lazily: HomeMaker builds on HomeEnv
        from envs.homemaker.make import HomeSampler

        return HomeSampler
    raise AttributeError(name)


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
