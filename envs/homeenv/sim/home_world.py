"""A home in which an agent acts by tool calls (HomeFlow 3.2.1, A.3, A.4).

Φ is the list of goal conditions of an episode. Each condition is one task of the episode.

Invariants:
- `step` never raises because of an agent's action.
- Progress is the share of the conditions in Φ that hold.
- The episode terminates when all conditions in Φ hold. An episode without tasks never terminates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from homerl.envs.core.world import World, action_arguments, why_action_too_large
from homerl.envs.homeenv.sim.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import Limits, RunResult, Tool
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value


@dataclass(frozen=True)
class ConditionTask:
    """One task: a condition, and the home in which it has to hold."""

    id: int
    compiled: Condition
    home: Home

    @property
    def condition(self) -> str:
        """The text of the condition."""
        return self.compiled.text

    @property
    def finished(self) -> bool:
        """Whether the condition holds now."""
        return self.compiled.holds_in(self.home)


class TaskBoard:
    """Φ: the tasks of an episode, in the order in which they were added. Their ids count from 1."""

    def __init__(self, home: Home, conditions: Iterable[Condition] = ()) -> None:
        self.home = home
        self.tasks = [ConditionTask(id, condition, home) for id, condition in enumerate(conditions, 1)]

    def add_task(self, condition: str) -> ConditionTask:
        """Compile a condition and add it as a task. Raises `ConditionError` if it does not compile for this home."""
        task = ConditionTask(len(self.tasks) + 1, compile_condition(condition, self.home.plan), self.home)
        self.tasks.append(task)
        return task

    def episode_in(self, home: Home) -> HomeEpisodeState:
        """An episode with the same tasks in another home."""
        return HomeEpisodeState(home, TaskBoard(home, [task.compiled for task in self.tasks]))

    @property
    def progress(self) -> float:
        """m (HomeFlow 3.4.2): the share of conditions that hold, 0..1. It is 0 if there are none."""
        if not self.tasks:
            return 0.0
        return sum(task.finished for task in self.tasks) / len(self.tasks)


class HomeEpisodeState(NamedTuple):
    """The state of an episode: `home` is the home, `task` is the board with its tasks (`env.engine.task.add_task`)."""

    home: Home
    task: TaskBoard


class HomeWorld(World):
    """A world in which an agent acts on a home by tool calls.

    `home` is forked, so the caller's home does not change. `conditions` are the texts of the first tasks. `toolset` is a
    key of `TOOLSETS`, and any other name is a `ValueError`. `limits` apply to the snippets that `pyexec` runs.
    `tools_with_name` are the tools that have an argument `name` (see `homerl.envs.core.world.tool_call_to_action`).
    """

    # How many seconds the code of the rest of a message may run; None where each step is a message of its own.
    _seconds_left: float | None = None

    def __init__(
        self, home: Home, conditions: tuple[str, ...] = (), toolset: str = "homeflow", limits: Limits = Limits()
    ) -> None:
        if toolset not in TOOLSETS:
            raise ValueError(f"toolset '{toolset}' is not one of {', '.join(TOOLSETS)}")
        self.toolset, self._limits, self._start = toolset, limits, home.fork()
        self._find_tools()
        self.engine = TaskBoard(home, [compile_condition(text, home.plan) for text in conditions]).episode_in(home.fork())

    def _find_tools(self) -> None:
        self._tools: dict[str, Tool] = {tool.name: tool for tool in TOOLSETS[self.toolset].tools_of_home(self._start)}
        self.tools_with_name = frozenset(name for name, tool in self._tools.items() if "name" in tool.parameters)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_tools"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._find_tools()  # tools hold functions, which may not be pickled

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools of the agent's toolset, as OpenAI function schemas."""
        return [tool.function_schema() for tool in self.offered_tools]

    @property
    def offered_tools(self) -> tuple[Tool, ...]:
        """The same, as they are."""
        return tuple(self._tools.values())

    def reset(self) -> tuple[str, dict[str, Any]]:
        """Return to the home as it was given. Tasks that were added since stay."""
        self.engine = self.engine.task.episode_in(self._start.fork())
        return "", self._info_of_step(RunResult(""), ())

    def begin_message(self) -> None:
        """The snippets of the steps until the next message share `limits.message`."""
        self._seconds_left = self._limits.message

    def step(self, action: Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run a tool call, then let the automations act on the new state.

        `action` holds the tool's `name` and its arguments. The reward is the change of progress (-1..1). `info` holds
        `progress`, `blocked` (rule and message of a refusal, or None), `error` (of the agent's code, or None), and
        `changed` (see `changes`).
        """
        home, before = self.engine.home.fork(), self.engine.task.progress
        result = self._run_tool(action)
        self.engine.home.settle_rules()  # automations react within the same step
        info = self._info_of_step(result, name_state_changes(home, self.engine.home))
        done = bool(self.engine.task.tasks) and info["progress"] == 1.0
        return result_as_observation(result), info["progress"] - before, done, False, info

    def _run_tool(self, action: Mapping[str, Any]) -> RunResult:
        name = action.get("name") if isinstance(action, Mapping) else None
        if excess := why_action_too_large({"name": name}):  # first the name alone, since the next refusals quote it
            return RunResult("", Refused("size_limit", excess))
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None and (missing := TOOLSETS[self.toolset].missing) is not None:
            return missing(name if isinstance(name, str) else quote_value(name))
        if tool is None:
            known = ", ".join(self._tools)
            return RunResult("", Refused("unknown_tool", f"there is no tool {quote_value(name)} (there is {known})"))
        if excess := why_action_too_large(action):
            return RunResult("", Refused("size_limit", excess))
        limits = self._limits
        if self._seconds_left is not None:
            limits = replace(limits, seconds=min(limits.seconds, self._seconds_left))
        result = tool.run(self.engine.home, action_arguments(action), limits)
        if self._seconds_left is not None:
            stopped = result.refusal is not None and result.refusal.rule == "time_limit"
            self._seconds_left = 0.0 if stopped else self._seconds_left - result.seconds
        return result

    def _info_of_step(self, result: RunResult, changed: tuple[str, ...]) -> dict[str, Any]:
        blocked = {"rule": result.refusal.rule, "message": result.refusal.message} if result.refusal else None
        return {"progress": self.engine.task.progress, "blocked": blocked, "error": result.error, "changed": changed}

    def fork(self) -> Self:
        """An independent copy: its home is a fork, and it has the same tasks."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.engine = self.engine.task.episode_in(self.engine.home.fork())
        return twin

    def state_key(self) -> str:
        """The state key of the home, which does not cover the tasks."""
        return self.engine.home.state_key()


def name_state_changes(before: Home, after: Home) -> tuple[str, ...]:
    """The names of everything that differs between two states of a home.

    A slot is `1001.light.brightness`, an automation `automation.2`, and the clock `clock`.
    """
    slots = tuple(str(before.plan.slots[change.slot]) for change in before.diff(after))
    old, new = ({rule.id: rule for rule in home.rules} for home in (before, after))
    rules = tuple(f"automation.{id}" for id in sorted(old | new) if old.get(id) != new.get(id))
    return slots + rules + (("clock",) if before.clock != after.clock else ())


def result_as_observation(result: RunResult) -> str:
    """The observation that an agent gets: the printed text, then the refusal or error, or "ok" if there is neither."""
    lines = [result.output.rstrip("\n")] if result.output.strip() else []
    if result.refusal and not result.worded:
        lines.append(f"refused: {result.refusal}")
    elif result.error:
        lines.append(f"error: {result.error}")
    return "\n".join(lines).encode(errors="replace").decode() or "ok"  # lone surrogates cannot be stored
