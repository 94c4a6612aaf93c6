"""HomeEnv as an episode sees it: Φ over homes and words, and what strayed from it.

Invariant: whether a goal is met is a function of the home and of what was said; nothing here is random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.homeenv.conditions import Condition
from envs.homeenv.env import HomeEnv, changes
from envs.homeenv.home import Home
from envs.homeenv.home_file import home_from_json
from envs.homeenv.toolsets import TOOLSETS
from envs.messages import Message
from envs.world import Action
from homerl.play.messages import direct_answer, words_of
from homerl.play.situation import Reply, Situation
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint, Intent
from homerl.worlds.homeenv.blueprints.goals import Goal, Heard, goals, keeps
from homerl.worlds.homeenv.blueprints.rules import serving
from homerl.worlds.homeenv.messages import briefing


@dataclass
class HomeSituation(Situation):
    """A blueprint's home, and what agents have said in it."""

    blueprint: Blueprint
    world: HomeEnv
    start: Home
    goals: tuple[Goal, ...]
    keeps: tuple[Condition, ...] = ()
    heard: Heard = field(default_factory=Heard)

    @classmethod
    def begin(cls, blueprint: Blueprint) -> HomeSituation:
        home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
        world = HomeEnv(home, blueprint.conditions, blueprint.toolset)
        return cls(blueprint, world, home, goals(blueprint, home), keeps(blueprint, home))

    def opening(self) -> list[Message]:
        b = self.blueprint
        told = briefing(self.start, b.prompt, b.toolset, b.memory, b.language)
        past = [{"role": message.role, "content": message.content} for message in b.history]
        return [{"role": "system", "content": told}, *past]

    def fork(self) -> HomeSituation:
        return HomeSituation(self.blueprint, self.world.fork(), self.start, self.goals, self.keeps, self.heard)

    @property
    def home(self) -> Home:
        return self.world.engine.home

    def met(self) -> tuple[bool, ...]:
        return tuple(goal.met(self.home, self.heard) for goal in self.goals)

    def open_intents(self) -> list[Intent]:
        unmet = {goal.intent for goal, met in zip(self.goals, self.met()) if not met}
        return [intent for intent in self.blueprint.intents if intent.id in unmet]

    def side_effects(self) -> int:
        """Devices, what was to be kept, automations."""
        slots = (self.home.plan.slots[change.slot] for change in self.start.diff(self.home))
        moved = {slot.owner for slot in slots if not getattr(slot.type, "read_only", True)}  # what devices measure may move
        broken = sum(not keep.holds(self.home) for keep in self.keeps)
        return len(moved - self.blueprint.devices - self._moved_by_rules()) + broken + self._stray_rules()

    def _moved_by_rules(self) -> set[str]:
        """Devices on which a rule has acted by itself: nobody strayed who let the home do what it was told to."""
        since = self.start.clock
        acted = (rule for rule in self.home.rules if rule.fired is not None and rule.fired >= since)
        return {action.did for rule in acted for action in rule.actions}

    def _stray_rules(self) -> int:
        """Automations that were changed, removed, or made beyond those wanted (of which several may do one)."""
        if not self.home.rules and not self.start.rules:
            return 0
        before = {rule.id: rule.describe() for rule in self.start.rules}
        now = {rule.id: rule.describe() for rule in self.home.rules}
        wanted = [intent.automation for intent in self.blueprint.intents if intent.automation]
        serving_each = [serving(self.home, self.start, automation) for automation in wanted]
        touched = sum(now.get(id) != rule for id, rule in before.items())
        idle = now.keys() - before.keys() - frozenset().union(*serving_each)
        return touched + max(0, len(idle) - sum(not serving for serving in serving_each))

    def stands_for(self, reply: Reply) -> Action | str | None:
        """An agent's one answer is replayed by the one tool that takes it; the agent sees nothing of what came of it."""
        if not self.blueprint.one_answer:
            return None
        answer, malformed = direct_answer(reply.message.get("content") or "")
        (tool,) = TOOLSETS[self.blueprint.toolset].tools
        return malformed if malformed else {**answer, "name": tool.name}

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        text, _, _, _, info = self.world.step(action)
        return text, info

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """What the agent said may answer a question, or be one that it had to ask."""
        found = next((i for i in self.blueprint.intents if i.id == intent), None)
        if spoke and found is not None:
            said = words_of(message, one_answer=self.blueprint.one_answer)
            self.heard = self.heard.after(found, said.claims, said.question, self._untouched(found))

    def _untouched(self, intent: Intent) -> bool:
        """Whether nothing was done yet of what an intent asks; other intents may have been seen to."""
        changed = {self.home.plan.slots[change.slot].owner for change in self.start.diff(self.home)}
        return changed.isdisjoint(intent.devices) and (intent.automation is None or self.home.rules == self.start.rules)

    def mark(self) -> Home:
        return self.home.fork()

    def changed_since(self, mark: Home) -> tuple[str, ...]:
        return changes(mark, self.home)

    def wait(self, seconds: int) -> None:
        self.home.advance(seconds)

    def state_key(self) -> str:
        return self.home.state_key()
