"""HomeEnv as a `Situation`: the goals Φ over the home and over what was said, and the side effects of an agent.

The writer of an episode turns a plan into messages with the tools of the episode's toolset.

Invariant: whether a goal is met is a function of the home and of what was said; nothing here is random.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from homerl.envs.core.messages import Message
from homerl.envs.core.world import Action, StepFacts
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.sim.conditions import Condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.home_world import HomeWorld, name_state_changes
from homerl.envs.homeenv.sim.toolset import ToolsetWriter
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent, turns_needed
from homerl.envs.homeenv.tasks.goals import (
    Goal,
    HeardReplies,
    compile_goals,
    compile_keeps,
    rules_serving_wish,
    standing_in_home,
)
from homerl.envs.homeenv.tasks.prompts import device_label, episode_system_prompt
from homerl.play.episode import Episode
from homerl.play.situation import AddedLimits, Course, Reply, Situation, WishStanding
from homerl.play.spoken_words import spoken_words_of
from homerl.play.tool_call_parser import parse_json_answer


@dataclass
class HomeSituation(Situation):
    """A blueprint's home, and what agents have said in it.

    `start` is the home before the first step, `keeps` are the conditions that must still hold at the end, and `heard` is
    what the agent has answered and asked so far.
    """

    code_tools: ClassVar[frozenset[str]] = frozenset({"pyexec"})
    blueprint: Blueprint
    world: HomeWorld
    start: Home
    goals: tuple[Goal, ...]
    keeps: tuple[Condition, ...] = ()
    heard: HeardReplies = field(default_factory=HeardReplies)

    @classmethod
    def from_blueprint(cls, blueprint: Blueprint) -> HomeSituation:
        """The situation at the start of a blueprint."""
        home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
        # The world gets no tasks: goals are judged by `met` alone, once a step, with what was heard.
        return _compile_situation(blueprint, HomeWorld(home, toolset=blueprint.toolset), home)

    def __reduce__(self) -> tuple[Any, ...]:
        # Goals hold functions, which cannot be pickled; they are compiled again from the blueprint.
        return _compile_situation, (self.blueprint, self.world, self.start, self.heard)

    def opening(self) -> list[Message]:
        """The system prompt, and the blueprint's history of earlier messages."""
        b = self.blueprint
        told = episode_system_prompt(self.start, b.prompt, b.toolset, b.memory, b.language)
        past = [{"role": message.role, "content": message.content} for message in b.history]
        return [{"role": "system", "content": told}, *past]

    def fork(self) -> HomeSituation:
        """A copy with its own home; the start, the goals and `heard` are immutable and shared."""
        return HomeSituation(self.blueprint, self.world.fork(), self.start, self.goals, self.keeps, self.heard)

    @property
    def home(self) -> Home:
        """The home as it is now."""
        return self.world.engine.home

    def met(self) -> tuple[bool, ...]:
        """Whether each goal is met by the home and by what was heard."""
        return tuple(goal.met(self.home, self.heard) for goal in self.goals)

    def open_intents(self) -> list[Intent]:
        """The intents with an unmet goal, in the blueprint's order."""
        unmet = {goal.intent for goal, met in zip(self.goals, self.met()) if not met}
        return [intent for intent in self.blueprint.intents if intent.id in unmet]

    def side_effects(self) -> int:
        """The number of unrequested changes: devices, broken `keeps` conditions and automations.

        Read-only attributes are measurements and may change. A device that an automation has moved does not count. In a
        visit nobody knows what was requested.
        """
        if self.blueprint.visit:
            return 0
        slots = (self.home.plan.slots[change.slot] for change in self.start.diff(self.home))
        # Slots of rooms have no `read_only`: their air is a measurement too.
        changed = {slot.owner for slot in slots if not getattr(slot.type, "read_only", True)}
        acted = (
            rule for rule in self.home.rules if rule.progress.fired is not None and rule.progress.fired >= self.start.clock
        )
        changed -= {action.did for rule in acted for action in rule.definition.actions} | self.blueprint.changeable_devices
        broken = sum(not keep.holds_in(self.home) for keep in self.keeps)
        return len(changed) + broken + self._count_changed_automations()

    def _count_changed_automations(self) -> int:
        """The number of automations that were changed, removed, or made without being wanted.

        Several automations together may serve one that is wanted.
        """
        if not self.home.rules and not self.start.rules:
            return 0
        before = {rule.id: rule.describe_rule() for rule in self.start.rules}
        now = {rule.id: rule.describe_rule() for rule in self.home.rules}
        wanted = [intent.automation for intent in self.blueprint.intents if intent.automation]
        serving_each = [rules_serving_wish(self.home, self.start, automation) for automation in wanted]
        touched = sum(now.get(id) != rule for id, rule in before.items())
        idle = now.keys() - before.keys() - frozenset().union(*serving_each)
        return touched + max(0, len(idle) - sum(not serving for serving in serving_each))

    def stands_for(self, reply: Reply) -> Action | str | None:
        """The tool call for an agent's one JSON answer, or why the answer is malformed; None for other toolsets.

        The toolset's only tool runs the answer. The agent does not see the result.
        """
        if not self.blueprint.one_answer:
            return None
        answer, malformed = parse_json_answer(reply.message.get("content") or "")
        (tool,) = TOOLSETS[self.blueprint.toolset].tools
        return reply.malformed or malformed or {**(answer or {}), "name": tool.name}

    def takes_name(self, tool: str) -> bool:
        """Whether a tool of the toolset has an argument `name`, such as those of `assist`."""
        return tool in self.world.tools_with_name

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """Record whether the agent's words answer the intent's question, or ask a needed clarifying question."""
        spoken_of = next((i for i in self.blueprint.intents if i.id == intent), None)
        if spoke and spoken_of is not None:
            said = spoken_words_of(message, one_answer=self.blueprint.one_answer)
            changed = {self.home.plan.slots[change.slot].owner for change in self.start.diff(self.home)}
            untouched = changed.isdisjoint(spoken_of.devices)
            untouched &= spoken_of.automation is None or self.home.rules == self.start.rules
            self.heard = self.heard.after_message(spoken_of, said, untouched)

    def standing_of_wish(self, facts: StepFacts, earlier: Sequence[StepFacts], claims: str) -> WishStanding:
        """How the wish stands in the home (`goals.standing_in_home`)."""
        return standing_in_home(self.blueprint.intents, facts, earlier, claims)

    @property
    def turns_needed(self) -> int:
        """One turn for each intent, and a second one if a clarifying question is needed or allowed."""
        return turns_needed(self.blueprint)

    @property
    def added(self) -> AddedLimits:
        """What the courses of all wishes add: a turn for each part after the first and for each aside; the parts' calls."""
        intents = self.blueprint.intents
        turns = sum(max(0, len(intent.course) - 1) + (intent.aside is not None) for intent in intents)
        return AddedLimits(turns, sum(len(part.plan) for intent in intents for part in intent.course))

    def course_of(self, intent: int) -> Course:
        """The course of the intent."""
        told = next((i for i in self.blueprint.intents if i.id == intent), None)
        return Course(told.course, told.aside) if told else Course()

    def mark(self) -> Home:
        """A copy of the home."""
        return self.home.fork()

    def changed_since(self, mark: Home) -> tuple[str, ...]:
        """The names of the slots that differ from a marked home."""
        return name_state_changes(mark, self.home)

    def wait(self, seconds: int) -> None:
        """Advance the home's clock, and everything that depends on it."""
        self.home.advance(seconds)

    def state_key(self) -> str:
        """An exact hash of the home's state."""
        return self.home.state_key()

    def concerns(self) -> list[Any]:
        """The state of the devices that the open intents may change, and the automations if one of these asks for one."""
        wishes = self.open_intents()
        devices = sorted({did for intent in wishes for did in intent.devices})
        rules = [rule.describe_rule() for rule in self.home.rules] if any(intent.automation for intent in wishes) else []
        return [[did, self.home.state_of(did)] for did in devices] + rules


def home_situation_of(episode: Episode) -> HomeSituation:
    """The situation of an episode of this world."""
    return cast(HomeSituation, episode.situation)


def _compile_situation(
    blueprint: Blueprint, world: HomeWorld, start: Home, heard: HeardReplies = HeardReplies()
) -> HomeSituation:
    """The situation of these parts, with the goals of its blueprint."""
    return HomeSituation(blueprint, world, start, compile_goals(blueprint, start), compile_keeps(blueprint, start), heard)


def writer_of(episode: Episode) -> ToolsetWriter:
    """The writer for an episode's toolset and language."""
    done, situation = home_grammar(episode.blueprint.language).plain_sentence("done"), home_situation_of(episode)
    return TOOLSETS[situation.blueprint.toolset].writer(situation.home, done, device_label)


def answer_message(text: str, one_answer: bool = False) -> Message:
    """A message of words alone. With `one_answer`, the words are the `response` of the agent's one JSON object."""
    if not one_answer:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": json.dumps({"mode": "execute", "response": text}, ensure_ascii=False)}
