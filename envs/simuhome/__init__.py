"""SimuHome: homes of Matter devices in virtual time, after the paper SimuHome (ICLR 2026).

A home runs in one of two modes. Strict mode reproduces the paper's released program with its known faults. Mended mode
(`strict=False`) corrects them; docs/simuhome.md lists the differences. "The released program" means the paper's own
simulator wherever this package names it.
"""

from __future__ import annotations

import gymnasium

__all__ = ["register"]


def register() -> None:
    """Register `SimuHome-v0` with Gymnasium. As for HomeEnv, `gymnasium.make` adds no wrappers."""
    if "SimuHome-v0" not in gymnasium.registry:
        gymnasium.register(
            id="SimuHome-v0",
            entry_point="envs.simuhome.env:SimuHome",
            order_enforce=False,
            disable_env_checker=True,
        )


register()
