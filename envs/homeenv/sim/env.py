"""HomeEnv: a home as a Gymnasium environment. What works without Gymnasium takes `HomeWorld` of `home_world.py`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from homerl.envs.core.spaces import AnyText, ToolCalls
from homerl.envs.core.world import Action
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_world import HomeWorld
from homerl.envs.homeenv.sim.toolset import Limits


class HomeEnv(HomeWorld, gym.Env[str, Action]):
    """A `HomeWorld` with the spaces of its actions and observations."""

    def __init__(
        self, home: Home, conditions: tuple[str, ...] = (), toolset: str = "homeflow", limits: Limits = Limits()
    ) -> None:
        super().__init__(home, conditions, toolset, limits)
        self.observation_space = AnyText()
        self.action_space = ToolCalls(self.tools)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Return to the home as it was given. Tasks that were added since stay."""
        gym.Env.reset(self, seed=seed)
        return super().reset()
