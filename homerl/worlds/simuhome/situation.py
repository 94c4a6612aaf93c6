"""SimuHome as an episode sees it: the goals and required actions of a file, and an agent that must finish.

Φ is: each goal, each required action, and that the agent has finished. Goals that a rule decides hold of the home half a
second later, on a fork in which scheduled workflows go on; goals that judges decide hold of the final answer
(`answers.py`). So all of Φ is met exactly where the episode's own evaluation passes.

Invariants: the reference's protocol: three calls in a row that are none (no format, no such tool, a finish without
answer) or more than eight polls of one workflow end an episode; from the second poll on the home waits 1, 2, 4, 8 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.simuhome import evaluate
from envs.simuhome.env import SimuHome
from envs.simuhome.episodes import EpisodeFile
from envs.simuhome.evaluate import AgentCall
from envs.simuhome.home import Home
from envs.simuhome.react import MAX_FAILURES, MAX_POLLS
from envs.world import Action
from homerl.play.messages import Message
from homerl.play.situation import Reply
from homerl.worlds.simuhome.answers import goals_answered, stray_changes
from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint, SimuHomeIntent
from homerl.worlds.simuhome.prompt import system_message


def goals_in_words(task: Mapping[str, Any]) -> list[str]:
    """Φ, goal by goal, for people."""
    found = [_in_words(goal, task["meta"]["case"]) for goal in task["eval"]["goals"]]
    looks = [
        f"{a['tool']}({', '.join(map(str, a['params'].values()))}) was called" for a in task["eval"]["required_actions"]
    ]
    return [*found, *looks, "the agent has finished"]


def _in_words(goal: Mapping[str, Any], case: str) -> str:
    what = ", ".join(
        f"{target.get('device_id')}: " + " and ".join(f"{one['attribute']} == {one['value']}" for one in target["asserts"])
        for target in goal.get("targets") or ([goal] if goal.get("asserts") else [])
    )
    what = what or " ".join(filter(None, (goal.get("room_id"), goal.get("device_id"), goal.get("attribute"))))
    what += "".join(f" {goal[key]}" for key in ("room_state", "direction") if goal.get(key))
    when = goal.get("when")
    when = f" ({when['at_tick'] / 600:.1f} minutes in, ± {when['tolerance_ticks'] // 10} s)" if when else ""
    return f"{what}{when}" if case == "feasible" else f"says why not: {what}{when}"


TICKS = 10  # a second
LONGEST_POLL = 8  # seconds


@dataclass
class SimuHomeSituation:
    """A file's home, the calls that were made in it, and how the agent kept to the protocol."""

    blueprint: SimuHomeBlueprint
    file: EpisodeFile
    world: SimuHome
    start: Home
    required: frozenset[int] = frozenset()
    failures: int = 0
    polls: Counter[str] = field(default_factory=Counter)
    broken_rule: str = ""  # the rule of the protocol that ended the episode
    _answered: tuple[str, tuple[bool, ...]] = ("", ())  # by state key: judged goals are read once
    _strayed: tuple[str, int] = ("", 0)

    @classmethod
    def begin(cls, blueprint: SimuHomeBlueprint) -> SimuHomeSituation:
        file = blueprint.episode
        world = SimuHome(file, blueprint.strict, blueprint.toolset)
        return cls(blueprint, file, world, world.state.home.fork())

    def opening(self) -> list[Message]:
        b = self.blueprint
        return [{"role": "system", "content": system_message(b.prompt, b.language, self.file.user_location, self.start.now)}]

    def fork(self) -> SimuHomeSituation:
        return SimuHomeSituation(
            self.blueprint, self.file, self.world.fork(), self.start, self.required, self.failures, self.polls.copy(),
            self.broken_rule, self._answered, self._strayed,
        )  # fmt: skip

    @property
    def home(self) -> Home:
        return self.world.state.home

    @property
    def answer(self) -> str | None:
        """What the agent finished with."""
        return self.world.state.answer

    def met(self) -> tuple[bool, ...]:
        wanted = self.file.eval.required_actions
        required = tuple(number in self.required for number in range(len(wanted)))
        return (*self._goals(), *required, self.answer is not None)

    def _goals(self) -> tuple[bool, ...]:
        if self.file.decided_by_rule:
            return self.world.goals or (False,) * len(self.file.eval.goals)
        if self.answer is None:
            return (False,) * len(self.file.eval.goals)
        if self._answered[0] != (key := self.world.state_key()):
            final = evaluate.final_state(self.home)
            self._answered = key, goals_answered(self.file, self.start, final, self.answer)
        return self._answered[1]

    def open_intents(self) -> list[SimuHomeIntent]:
        return [] if all(self.met()) else list(self.blueprint.intents)

    def strayed(self) -> int:
        if self._strayed[0] != (key := self.home.state_key()):
            self._strayed = (
                key,
                len(stray_changes(self.file, self.home)) if self.home.state_key() != self.start.state_key() else 0,
            )
        return self._strayed[1]

    @property
    def ended(self) -> bool:
        return self.answer is not None or bool(self.broken_rule)

    def stands_for(self, reply: Reply) -> Action | str | None:
        """Words alone are the final answer."""
        if reply.malformed or reply.message.get("tool_calls"):
            return None
        return {"name": "finish", "answer": reply.message.get("content") or ""}

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        self._poll(action)
        text, _, _, _, info = self.world.step(action)
        self._note(action, info["blocked"])
        return text, info

    def _poll(self, action: Action) -> None:
        """Whoever asks again and again how far a workflow has come waits for it."""
        if action["name"] != "get_workflow_status":
            return
        flow = str(action.get("workflow_id"))
        self.polls[flow] += 1
        if self.polls[flow] > MAX_POLLS:
            self.broken_rule = "polls"
        elif self.polls[flow] > 1:
            self.wait(min(2 ** (self.polls[flow] - 2), LONGEST_POLL))

    def _note(self, action: Action, blocked: Mapping[str, str] | None) -> None:
        call = AgentCall(action["name"], {key: value for key, value in action.items() if key != "name"}, bool(blocked))
        wanted = enumerate(self.file.eval.required_actions)
        self.required |= {
            number for number, one in wanted if evaluate.required_action_met(one, [call], self.blueprint.strict)
        }
        self._count(blocked is not None and (blocked["rule"] == "unknown_tool" or action["name"] == "finish"), "tools")

    def heed(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        if "syntax" in refusals:
            self._count(True, "format")

    def _count(self, failed: bool, why: str) -> None:
        self.failures = self.failures + 1 if failed else 0
        if self.failures >= MAX_FAILURES:
            self.broken_rule = why

    def mark(self) -> tuple[Home, str | None]:
        return self.home.fork(), self.answer

    def changed_since(self, mark: tuple[Home, str | None]) -> tuple[str, ...]:
        return self.home.changes(mark[0]) + (("answer",) if mark[1] != self.answer else ())

    def wait(self, seconds: int) -> None:
        if seconds:
            self.world.wait(TICKS * seconds)

    def state_key(self) -> str:
        return self.world.state_key()
