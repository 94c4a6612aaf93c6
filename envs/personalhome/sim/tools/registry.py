"""All tools of PersonalHomeTools, and how they are called.

Invariants: a call that is refused has changed nothing, since every call runs on a fork that takes the state's place when it
succeeds; results are plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.refusals import HouseholdRefused
from homerl.envs.personalhome.sim.tools import device_tools, plan_step_tools, record_tools, scene_tools, situation_tools
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool, check_tool_arguments

GROUPS = (record_tools, device_tools, situation_tools, scene_tools, plan_step_tools)
TOOLS: dict[str, HouseholdTool] = {tool.name: tool for group in GROUPS for tool in group.TOOLS}


def list_offered_tools(state: HouseholdState, in_plans: bool = False) -> Iterator[HouseholdTool]:
    """The tools that a household offers, in the order of `TOOLS`. Without a transcript there is no scene to look at.

    `in_plans` adds the tools that are steps of plans only.
    """
    hidden = () if state.household.transcript is not None else scene_tools.TOOLS
    return (tool for tool in TOOLS.values() if tool not in hidden and (in_plans or not tool.in_plans))


def call_household_tool(state: HouseholdState, name: str, arguments: Mapping[str, Any], in_plans: bool = True) -> Any:
    """Call a tool and return its result, plain data. Raises `Refused`, in which case nothing has changed.

    Afterwards `state.shown` holds the ids of what the call showed.
    """
    tools = {tool.name: tool for tool in list_offered_tools(state, in_plans)}
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        raise HouseholdRefused("unknown_tool", f"there is no tool {quote_value(name)} (there is {', '.join(tools)})")
    check_tool_arguments(tool, arguments)
    # A tool may fail halfway. It changes a copy, which is thrown away then.
    draft = state.fork()
    draft.shown = ()
    result = tool.run(draft, arguments)
    state.replace_with(draft)
    return result
