"""PersonalHome as an environment: an agent looks around in a household and acts in it by tool calls.

Invariants:
- Every call runs on a fork, which takes the state's place when it succeeds. So a refused call has changed nothing.
- `step` never raises on an agent's action. Results are plain data.
- Progress is 0: what is to be reached is Φ of a situation, and no part of the world.
- What calls have shown is part of the state, since it is evidence that counts once.
- No step ends an episode: an agent ends it with words.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

from homerl.envs.core.world import Action, World, why_action_too_large
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.tools import household_tools, plan_step_tools, scene_tools
from homerl.envs.personalhome.sim.tools.contract import (
    HouseholdRefused,
    HouseholdTool,
    check_tool_arguments,
    household_tool_schema,
)

GROUPS = (household_tools, scene_tools, plan_step_tools)
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


class PersonalHome(World):
    """A world that is made from a state, which it forks, so that the caller's does not change.

    `tools` are the names of those that the agent has: all by default, and none where the prompt says all.
    """

    def __init__(self, state: HouseholdState, tools: Collection[str] | None = None) -> None:
        self.state, self._tools = state.fork(), None if tools is None else frozenset(tools)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the agent may call, as OpenAI function schemas. Those of plans are steps, and never among them."""
        return [household_tool_schema(tool) for tool in self._offered_tools()]

    def _offered_tools(self) -> Iterator[HouseholdTool]:
        """The tools that the household offers and the agent has."""
        return (tool for tool in list_offered_tools(self.state) if self._tools is None or tool.name in self._tools)

    def fork(self) -> Self:
        """An independent copy."""
        # `__init__` would fork the state a second time.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.state = self.state.fork()
        return twin

    def state_key(self) -> str:
        """The key of the household's state."""
        return self.state.state_key()

    def step(self, action: Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Call a tool. `action` holds its `name` and its arguments.

        `info` holds `progress`, `blocked` (rule and message of a refusal, or None), `error` (None: no code runs here),
        `changed` (see `HouseholdState.changes_since`), and `read`: the ids of what the call showed (see `tools`).
        """
        before = self.state.fork()
        given = dict(action) if isinstance(action, Mapping) else {}
        name, blocked = given.pop("name", None), None
        try:
            if excess := why_action_too_large(given):
                raise Refused("size_limit", excess)
            if name not in (known := [tool.name for tool in self._offered_tools()]):
                said = f"there is {', '.join(known)}" if known else "answer with what the prompt says"
                raise Refused("unknown_tool", f"there is no tool {quote_value(name)}; {said}")
            observation = result_to_observation(call_household_tool(self.state, name, given, in_plans=False))
        except Refused as refusal:
            observation = f"refused: {refusal.rule}: {refusal.message}"
            blocked = {"rule": refusal.rule, "message": refusal.message}
        info = {
            "progress": 0.0,
            "blocked": blocked,
            "error": None,
            "changed": self.state.changes_since(before),
            "read": () if blocked else self.state.shown,
        }
        whole = observation.encode(errors="replace").decode()  # half characters of surrogate pairs fit into no file
        return whole, 0.0, False, False, info


def result_to_observation(result: Any) -> str:
    """A tool's result as an agent reads it: compact JSON."""
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))
