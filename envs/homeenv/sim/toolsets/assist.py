"""The `assist` toolset: Home Assistant's Assist API, with the tools, texts and results of a real one.

`envs/homeenv/sim/assist` holds its parts.

Invariant: what an agent reads with the prompt `full` is what a Home Assistant with this home tells its own agent, but for
the digits of numbers, secrets, and times at which something was pressed. So a policy that was trained with it can be used
there as it is.
"""

from __future__ import annotations

from homerl.envs.homeenv.sim.assist.api_and_prompt import assist_prompt, latest_recorded_api, static_context
from homerl.envs.homeenv.sim.assist.assist_tools import TOOLS, offered_assist_tools, unknown_tool_result
from homerl.envs.homeenv.sim.assist.assist_writer import AssistWriter
from homerl.envs.homeenv.sim.assist.entities_of_home import is_out_of_reach
from homerl.envs.homeenv.sim.toolset import Toolset

# The texts around the list of entities. Home Assistant has them in English alone.
INSTRUCTION = {"en": f"{latest_recorded_api().before}\n\n{latest_recorded_api().after}"}
TOOLSET = Toolset(
    TOOLS,
    INSTRUCTION,
    AssistWriter,
    aliases=True,
    clock=True,
    offer=offered_assist_tools,
    told=assist_prompt,
    listed=static_context,
    missing=unknown_tool_result,
    beyond=is_out_of_reach,
)
