"""The contract of a toolset, checked in homes."""

from __future__ import annotations

from homerl.envs.core.world import check_world, name_example, require_clause
from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.toolsets import TOOLSETS

CALLS = 6  # of each tool, on average


def check_toolset(name: str) -> None:
    """Check what the world needs of a toolset: its schemas, its prompt, and calls that fit the schemas, in two homes.

    Raises:
        ContractError: The toolset breaks its contract. The message names the clause and the call.
    """
    toolset = TOOLSETS[name]
    for language, text in toolset.instruction.items():
        require_clause(isinstance(text, str), "an instruction is no text", language, "language")
    for home in (HomeSampler.sample_test(), make_home(3, HomeRecipe(devices=(12, 12)))):
        with name_example(toolset.offer, "devices of the home", len(home.plan.devices)):
            tools = toolset.tools_of_home(home)
        require_clause(tools, "a home has no tools", len(home.plan.devices), "devices of the home")
        env = HomeEnv(home, toolset=name)
        env.action_space.seed(0)
        check_world(env, [env.action_space.sample() for _ in range(CALLS * len(tools))])
