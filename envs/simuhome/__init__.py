"""SimuHome: a home of Matter devices in virtual time (SimuHome, ICLR 2026)."""

from __future__ import annotations

import gymnasium

__all__ = ["register"]


def register() -> None:
    """Register `SimuHome-v0` so that `gymnasium.make` returns it bare, as HomeEnv is."""
    if "SimuHome-v0" not in gymnasium.registry:
        gymnasium.register(
            id="SimuHome-v0",
            entry_point="envs.simuhome.env:SimuHome",
            order_enforce=False,
            disable_env_checker=True,
        )


register()
