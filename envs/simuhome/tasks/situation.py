"""SimuHome as an episode sees it: Φ, the calls that count, and the protocol that the agent must keep.

Φ consists of every goal, every required action, and the agent's finish.
- Goals that a rule decides are evaluated in a fork half a second later, in which scheduled workflows run.
- Goals that a judge would decide are evaluated from the final answer (`answer_checks.py`).

So all of Φ is met exactly if the episode's own evaluation passes.

Invariants, which are the protocol of the released program:
- Three failed messages in a row end the episode. A message fails if its format is invalid, if its tool does not exist,
  or if it finishes without an answer.
- More than eight status queries (polls) of one workflow end the episode. From the second poll on, 1, 2, 4 and then 8
  virtual seconds pass before each answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from homerl.envs.core.messages import Message
from homerl.envs.core.world import Action, StepFacts, action_arguments
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.sim.episode_file import EpisodeFile
from homerl.envs.simuhome.sim.evaluation import AgentCall
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.tasks.answer_checks import goals_answered, stray_changes
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint, SimuHomeIntent
from homerl.envs.simuhome.tasks.sentences import system_message
from homerl.play.episode import Episode
from homerl.play.situation import Reading, Reply, Situation, WishStanding, standing_by_progress


def goal_texts(
    task: Mapping[str, Any],
    say_goal: Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], str],
    say_value: Callable[[Any], str] = str,
    say_minutes: Callable[[float], str] = "{:.1f}".format,
) -> Iterator[str]:
    """Φ in words, one text for each goal, each required action and the finish.

    `say_goal` is called with a goal and the targets whose asserts it has. `say_value` says a parameter of a required action.
    """
    for goal in task["eval"]["goals"]:
        text = say_goal(goal, goal.get("targets") or ([goal] if goal.get("asserts") else []))
        if when := goal.get("when"):
            text += f" ({say_minutes(when['at_tick'] / 600)} minutes in, ± {when['tolerance_ticks'] // 10} s)"
        yield text if task["meta"]["case"] == "feasible" else f"says why not: {text}"
    for action in task["eval"]["required_actions"]:
        yield f"{action['tool']}({', '.join(map(say_value, action['params'].values()))}) was called"
    yield "the agent has finished"


def exact_goal_texts(blueprint: Mapping[str, Any]) -> list[str]:
    """Φ of a blueprint (plain data) in exact words, with ids and flat keys."""

    def say_goal(goal: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]) -> str:
        what = ", ".join(
            f"{target.get('device_id')}: " + " and ".join(f"{a['attribute']} == {a['value']}" for a in target["asserts"])
            for target in targets
        )
        what = what or " ".join(filter(None, (goal.get("device_id") or goal.get("room_id"), goal.get("attribute"))))
        return what + "".join(f" {goal[key]}" for key in ("room_state", "direction") if goal.get(key))

    return list(goal_texts(blueprint["task"], say_goal))


TICKS_PER_SECOND = 10
# The released program's limits: messages, failed messages in a row, status queries (polls) of one workflow.
MAX_TURNS, MAX_FAILURES, MAX_POLLS = 20, 3, 8
LONGEST_POLL = 8  # seconds


def poll_seconds(number: int) -> int:
    """The seconds that pass before a status query of a workflow is answered, by its number: 0, 1, 2, 4, 8, 8..."""
    return 0 if number < 2 else min(2 ** (number - 2), LONGEST_POLL)


def simuhome_situation(episode: Episode) -> SimuHomeSituation:
    """The situation of an episode of this world."""
    return cast(SimuHomeSituation, episode.situation)


def standing_in_simuhome(
    task: Mapping[str, Any], facts: StepFacts, earlier: Sequence[StepFacts], claims: str
) -> WishStanding:
    """How the request of a task stands after the agent's final answer.

    A request to do something is open while a goal is unmet. A question, and a request that cannot be met, want an answer,
    which is right if it meets the goals. Reads that the task requires do not count: the home shows what was done without
    them.
    """
    plain = standing_by_progress(facts, earlier, claims)
    if not plain.is_known:
        return plain
    met, asks = {*range(len(task["eval"]["goals"]))} <= {*facts.met}, task["meta"]["query_type"] == "qt1"
    reading: Reading | None = None if task["meta"]["case"] == "feasible" and not asks else "right" if met else "undecided"
    acted = any({*one.changed} - {"answer"} for one in (*earlier, facts))
    return replace(plain, is_open=not (met or asks), has_acted=acted, reading=reading)


@dataclass
class SimuHomeSituation(Situation):
    """A blueprint's world during an episode, and how the agent has kept the protocol so far.

    `required` holds the indices of the required actions that were made, `failures` counts failed messages in a row, and
    `polls` counts the status queries of each workflow.
    """

    code_tools: ClassVar[frozenset[str]] = frozenset({"pyexec"})
    blueprint: SimuHomeBlueprint
    file: EpisodeFile
    world: SimuHome
    start: MatterHome
    required: frozenset[int] = frozenset()
    failures: int = 0
    polls: Counter[str] = field(default_factory=Counter)
    broken_rule: str = ""  # the rule of the protocol that ended the episode: `format`, `tools` or `polls`
    _answered: tuple[str, tuple[bool, ...]] = ("", ())  # a cache: state key, and the goals that the answer meets
    _side_effects: tuple[str, int] = ("", 0)

    @classmethod
    def from_blueprint(cls, blueprint: SimuHomeBlueprint) -> SimuHomeSituation:
        """The situation of a blueprint before the first call."""
        file = blueprint.episode_file
        world = SimuHome(file, blueprint.strict, blueprint.toolset)
        return cls(blueprint, file, world, world.state.home.fork())

    def opening(self) -> list[Message]:
        """The system message."""
        prompt, language = self.blueprint.prompt, self.blueprint.language
        text = system_message(prompt, language, self.file.user_location, self.start.clock_text)
        return [{"role": "system", "content": text}]

    def fork(self) -> SimuHomeSituation:
        """An independent copy."""
        return replace(self, world=self.world.fork(), polls=self.polls.copy())

    @property
    def home(self) -> MatterHome:
        """The home in its present state."""
        return self.world.state.home

    @property
    def final_answer(self) -> str | None:
        """The agent's final answer, or None before it has finished."""
        return self.world.state.answer

    def met(self) -> tuple[bool, ...]:
        """For each part of Φ, in the order of `goals_in_words`, whether it is met now."""
        goals = (False,) * len(self.file.eval.goals)
        if self.file.is_decided_by_rule:
            goals = self.world.goals or goals
        elif self.final_answer is not None:
            if self._answered[0] != (key := self.world.state_key()):
                final = evaluate.final_state(self.home)
                self._answered = key, goals_answered(self.file, self.start, final, self.final_answer)
            goals = self._answered[1]
        required = (number in self.required for number in range(len(self.file.eval.required_actions)))
        return (*goals, *required, self.final_answer is not None)

    def open_intents(self) -> list[SimuHomeIntent]:
        """The one intent, unless all of Φ is met."""
        return [] if all(self.met()) else list(self.blueprint.intents)

    def side_effects(self) -> int:
        """The number of devices that were changed and that the request does not concern."""
        if self._side_effects[0] != (key := self.home.state_key()):
            is_changed = key != self.start.state_key()
            self._side_effects = key, len(stray_changes(self.file, self.home)) if is_changed else 0
        return self._side_effects[1]

    @property
    def protocol(self) -> Mapping[str, bool]:
        """`strict`: whether a ReAct text is parsed as the released program parses it."""
        return {"strict": self.blueprint.strict}

    @property
    def ended(self) -> bool:
        """Whether the agent has finished or has broken the protocol."""
        return self.final_answer is not None or bool(self.broken_rule)

    def stands_for(self, reply: Reply) -> Action | str | None:
        """`finish`, if the message has no call: then its words are the final answer."""
        if reply.malformed or reply.message.get("tool_calls"):
            return None
        return {"name": "finish", "answer": reply.message.get("content") or ""}

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call in the world. The result is the observation and the world's info."""
        if action["name"] == "get_workflow_status":  # time passes before a repeated query is answered
            flow = str(action.get("workflow_id"))
            self.polls[flow] += 1
            if self.polls[flow] > MAX_POLLS:
                self.broken_rule = "polls"
            else:
                self.wait(poll_seconds(self.polls[flow]))
        text, _, _, _, info = self.world.step(action)
        blocked = info["blocked"]
        call = AgentCall(action["name"], action_arguments(action), bool(blocked))
        for number, required in enumerate(self.file.eval.required_actions):
            if evaluate.is_required_action_met(required, [call], self.blueprint.strict):
                self.required |= {number}
        self._count_failure(blocked and (blocked["rule"] == "unknown_tool" or action["name"] == "finish"), "tools")
        return text, info

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """Count a message of invalid format as a failure."""
        if "syntax" in refusals:
            self._count_failure(True, "format")

    def closing_message(self, message: Message) -> Message | None:
        """The final answer, however it was given."""
        return None if self.final_answer is None else {"role": "assistant", "content": self.final_answer}

    def standing_of_wish(self, facts: StepFacts, earlier: Sequence[StepFacts], claims: str) -> WishStanding:
        """How the request stands (`standing_in_simuhome`)."""
        return standing_in_simuhome(self.blueprint.task, facts, earlier, claims)

    def _count_failure(self, failed: bool, rule: str) -> None:
        self.failures = self.failures + 1 if failed else 0
        if self.failures >= MAX_FAILURES:
            self.broken_rule = rule

    def mark(self) -> tuple[MatterHome, str | None]:
        """The present home and answer, to compare with later."""
        return self.home.fork(), self.final_answer

    def changed_since(self, mark: tuple[MatterHome, str | None]) -> tuple[str, ...]:
        """The names of all values that differ from a mark."""
        return self.home.changes_since(mark[0]) + (("answer",) if mark[1] != self.final_answer else ())

    def wait(self, seconds: int) -> None:
        """Let virtual seconds pass."""
        if seconds:
            self.world.wait_ticks(TICKS_PER_SECOND * seconds)

    def state_key(self) -> str:
        """An exact hash of the world's state."""
        return self.world.state_key()
