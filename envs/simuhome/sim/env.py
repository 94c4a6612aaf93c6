"""SimuHome as a Gymnasium environment: tool calls act on a home in virtual time.

Invariants:
- `step` never raises on an agent's action.
- A refused call changes nothing, not even the clock.
- Progress is the share of goals and required actions that would hold if the agent stopped now. It is 0 if only a judge
  can decide.
- The episode terminates when the agent calls `finish`. A home without an episode never terminates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import gymnasium as gym

from homerl.envs.core.spaces import AnyText, ToolCalls
from homerl.envs.core.state_encoding import state_text, text_hash
from homerl.envs.core.world import Action, World
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.episode_file import EpisodeFile, HomeConfig
from homerl.envs.simuhome.sim.evaluation import AgentCall
from homerl.envs.simuhome.sim.home import MatterHome

ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class SimuHomeState:
    """The mutable part of the environment: the home, the required actions that were made, and the agent's final answer.

    `met` holds the indices of the required actions that were made.
    """

    def __init__(self, home: MatterHome, met: frozenset[int] = frozenset(), answer: str | None = None) -> None:
        self.home, self.met, self.answer = home, met, answer

    def fork(self) -> SimuHomeState:
        """An independent copy."""
        return SimuHomeState(self.home.fork(), self.met, self.answer)


class SimuHome(World, gym.Env[str, Action]):
    """A world that is made from an episode file, or from the configuration of a home alone.

    `toolset` is `released` (20 tools) or `paper` (13 tools). Every accepted call takes `ticks_per_step` ticks of 0.1 s.
    Raises `ValueError` for an unknown toolset, and pydantic's `ValidationError` if `episode` is not valid.
    """

    def __init__(
        self,
        episode: EpisodeFile | HomeConfig | Mapping[str, Any],
        strict: bool = True,
        toolset: str = "released",
        ticks_per_step: int = 0,
    ) -> None:
        if toolset not in tools.TOOLSETS:
            raise ValueError(f"toolset '{toolset}' is not one of {', '.join(tools.TOOLSETS)}")
        if isinstance(episode, Mapping):
            kind = EpisodeFile if "initial_home_config" in episode else HomeConfig
            episode = kind.model_validate(episode)
        self.episode: EpisodeFile | None = None
        if isinstance(episode, EpisodeFile):
            self.episode, episode = episode, episode.initial_home_config
        self._start = SimuHomeState(load.start_home(episode, strict))
        self._toolset = {name: tools.TOOLS[name] for name in tools.TOOLSETS[toolset]}
        self._ticks = ticks_per_step
        self.state = self._start.fork()
        self._progress = self._measure_progress()
        self.observation_space = AnyText()
        self.action_space = ToolCalls(self.tools)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools of the agent's toolset, as OpenAI function schemas."""
        return [tool.function_schema() for tool in self._toolset.values()]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Go back to the start. The observation is the user's request."""
        super().reset(seed=seed)
        self.state = self._start.fork()
        self._progress = self._measure_progress()
        return self.episode.query if self.episode else "", self._step_info()

    def step(self, action: Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a tool call. If it is accepted, `ticks_per_step` ticks pass. The reward is the gain in progress."""
        state, earlier = self.state, self._progress
        before, met, answer = state.home.make_savepoint(), state.met, state.answer
        name = action.get("name") if isinstance(action, Mapping) else None
        arguments = {key: value for key, value in action.items() if key != "name"} if name else {}
        if isinstance(name, str) and name in self._toolset:
            result = tools.call_tool(state.home, name, arguments)
        else:
            shown = name[:80] if isinstance(name, str) else type(name).__name__
            result = {"error": f"Unknown tool '{shown}'"}
        # An agent's text may hold half of a surrogate pair, which no file and no other process takes.
        text = ENCODER.encode(result).encode(errors="replace").decode()
        if tools.is_refused(result):
            reason = result["error"]
            if isinstance(reason, Mapping):
                blocked = {"rule": reason["type"], "message": reason["detail"]}
            else:
                rule = "unknown_tool" if reason.startswith("Unknown tool") else "invalid_call"
                blocked = {"rule": rule, "message": reason}
            return text, 0.0, False, False, self._step_info(blocked=blocked)
        for number, required in enumerate(self.episode.eval.required_actions if self.episode else ()):
            if evaluate.is_required_action_met(required, [AgentCall(str(name), arguments)]):
                state.met |= {number}
        passage.advance_home(state.home, state.home.tick + self._ticks)
        if name == "finish":
            given = action["answer"]
            given = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
            state.answer = given.encode(errors="replace").decode()
        changed = state.home.changes_since(before) + tuple(f"required.{number}" for number in sorted(state.met - met))
        changed += ("answer",) if state.answer != answer else ()
        if changed:
            self._progress = self._measure_progress()
        fails = name == "finish" and self._broken
        error = "the evaluation fails: time cannot go on over a malformed workflow" if fails else None
        return text, self._progress - earlier, name == "finish", False, self._step_info(changed=changed, error=error)

    def _measure_progress(self) -> float:
        """The share of goals and required actions that would hold if the agent stopped now."""
        self.goals: tuple[bool, ...] = ()
        self._broken = False
        if self.episode is None or not self.episode.is_decided_by_rule:
            return 0.0
        verdict = evaluate.evaluate_episode(self.episode, evaluate.final_state(self.state.home), ())
        actions = self.episode.eval.required_actions
        self.goals, self._broken = verdict.goals, verdict.score == evaluate.NOT_EVALUATED
        total = len(self.episode.eval.goals) + len(actions)
        return (sum(verdict.goals) + len(self.state.met)) / total if total else 0.0

    def _step_info(self, **more: Any) -> dict[str, Any]:
        return {"progress": self._progress, "blocked": None, "error": None, "changed": ()} | more

    def wait_ticks(self, ticks: int) -> None:
        """Let `ticks` ticks of virtual time pass without a call."""
        passage.advance_home(self.state.home, self.state.home.tick + ticks)
        self._progress = self._measure_progress()

    def fork(self) -> Self:
        """An independent copy."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.state = self.state.fork()
        return twin

    def state_key(self) -> str:
        """An exact hash of the home, of the required actions that were made, and of the final answer."""
        rest = state_text(sorted(self.state.met))
        if self.state.answer is not None:
            rest += f" {state_text(self.state.answer)}"
        return f"{text_hash(f'{self.state.home.state_key()} {rest}'):032x}"
