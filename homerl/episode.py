"""An episode: one blueprint being played, which can be forked at any message.

Invariants: it is over when all of Φ is met, or a limit is reached, never because a speaker says so;
`fork` is independent; an agent sees `dialogue` alone, never Φ, the plan or the open intents.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from envs.homeenv.conditions import Condition
from envs.homeenv.env import HomeEnv, changes
from envs.homeenv.home import Home
from envs.homeenv.home_file import home_from_json
from envs.world import StepFacts
from homerl.blueprints.blueprint import Blueprint, Intent
from homerl.blueprints.goals import Goal, Heard, goals, keeps
from homerl.blueprints.rules import serving
from homerl.chat import briefing, direct_answer, tool_call, words_of
from homerl.trajectory import Message, Outcome, Step, Trajectory

Result = tuple[str, Mapping[str, Any], str | None]  # observation, the world's info, code that ran


@dataclass(frozen=True)
class EpisodeLimits:
    """How long an episode may go on: user turns, agent steps in all, agent steps in a turn; what a step takes; tool
    calls in all (None: any number)."""

    turns: int = 5
    steps: int = 12
    steps_per_turn: int = 6
    seconds_per_step: int = 0
    calls: int | None = None


@dataclass(frozen=True)
class Reply:
    """An agent's message. `malformed` says why it could not be read as a tool call, if so; `tokens` its length, and
    `prompt_tokens` that of what it was made from."""

    message: Message
    malformed: str | None = None
    tokens: int = 0
    code_tokens: Callable[[str], int] | None = None
    prompt_tokens: int = 0


@dataclass(frozen=True)
class Dialogue:
    """All that an agent sees."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]


@dataclass
class Episode:
    """The state of play."""

    blueprint: Blueprint
    world: HomeEnv
    start: Home
    limits: EpisodeLimits
    messages: list[Message]
    goals: tuple[Goal, ...]
    keeps: tuple[Condition, ...] = ()
    heard: Heard = field(default_factory=Heard)
    steps: list[Step] = field(default_factory=list)
    outcome: Outcome | None = None
    speaking_of: int | None = None
    turn: int = 0

    @classmethod
    def begin(cls, blueprint: Blueprint, limits: EpisodeLimits = EpisodeLimits()) -> Episode:
        """A fresh world and an empty dialogue."""
        home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
        world = HomeEnv(home, blueprint.conditions, blueprint.toolset)
        told = briefing(home, blueprint.prompt, blueprint.toolset, blueprint.memory, blueprint.language)
        past = [{"role": message.role, "content": message.content} for message in blueprint.history]
        messages = [{"role": "system", "content": told}, *past]
        return cls(blueprint, world, home, limits, messages, goals(blueprint, home), keeps(blueprint, home))

    def fork(self) -> Episode:
        """An independent copy; messages and steps are shared, since they never change."""
        return Episode(
            self.blueprint, self.world.fork(), self.start, self.limits, self.messages.copy(), self.goals,
            self.keeps, self.heard, self.steps.copy(), self.outcome, self.speaking_of, self.turn,
        )  # fmt: skip

    @property
    def dialogue(self) -> Dialogue:
        return Dialogue(tuple(self.messages), tuple(self.world.tools))

    @property
    def home(self) -> Home:
        return self.world.engine.home

    @property
    def progress(self) -> float:
        """m: the share of Φ that is met."""
        return sum(goal.met(self.home, self.heard) for goal in self.goals) / len(self.goals)

    def open_intents(self) -> list[Intent]:
        """Intents of which some goal is not met now, in the blueprint's order."""
        unmet = {goal.intent for goal in self.goals if not goal.met(self.home, self.heard)}
        return [intent for intent in self.blueprint.intents if intent.id in unmet]

    def strayed(self) -> int:
        """How much differs from the start that no intent asked for: devices, what was to be kept, automations."""
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

    def hear(self, utterance: str, intent_id: int | None = None) -> None:
        """The user speaks: a new turn begins."""
        self.turn += 1
        self.speaking_of = intent_id
        self.messages.append({"role": "user", "content": utterance})

    def act(self, reply: Reply) -> Step:
        """The agent's message takes effect; the episode ends if the home says so or a limit is reached."""
        decision = self._decision()
        before, strayed, home = self.progress, self.strayed(), self.home.fork()
        opens = self.messages[-1]["role"] == "user"
        direct = self.blueprint.toolset == "direct"
        results = self._answer(reply) if direct else self._calls(reply)
        self.messages.append(reply.message)
        if not direct:
            self.messages += [_tool_message(i, reply, text) for i, (text, _, _) in enumerate(results)]
        self._listen(reply.message, spoke=direct or not results)
        self.home.advance(self.limits.seconds_per_step)
        self.outcome = self._verdict(spoke=direct or not results)
        codes = [code for _, _, code in results if code]
        code = "\n".join(codes) or None
        facts = StepFacts(
            turn=self.turn,
            opens_turn=opens,
            progress_before=before,
            progress_after=self.progress,
            code=code,
            code_tokens=(reply.code_tokens or count_tokens)(code) if code else 0,
            blocked=tuple(info["blocked"]["rule"] for _, info, _ in results if info["blocked"]),
            error=next((info["error"] for _, info, _ in results if info["error"]), None),
            changed=changes(home, self.home),
            strayed_before=strayed,
            strayed_after=self.strayed(),
            last=self.outcome is not None,
            intent=self.speaking_of,
            met=tuple(i for i, goal in enumerate(self.goals) if goal.met(self.home, self.heard)),
        )
        step = Step(reply.message, tuple(text for text, _, _ in results), facts, self.home.state_key(), decision)
        self.steps.append(step)
        return step

    def _listen(self, message: Message, spoke: bool) -> None:
        """What the agent said may answer a question, or be one that it had to ask."""
        intent = next((i for i in self.blueprint.intents if i.id == self.speaking_of), None)
        if spoke and intent is not None:
            said = words_of(message, self.blueprint.toolset)
            self.heard = self.heard.after(intent, said.claims, said.question, self._untouched(intent))

    def _untouched(self, intent: Intent) -> bool:
        """Whether nothing was done yet of what an intent asks; other intents may have been seen to."""
        changed = {self.home.plan.slots[change.slot].owner for change in self.start.diff(self.home)}
        return changed.isdisjoint(intent.devices) and (intent.automation is None or self.home.rules == self.start.rules)

    def _calls(self, reply: Reply) -> list[Result]:
        """The message's tool calls take effect."""
        if reply.malformed:
            return [_malformed(reply.malformed)]
        calls = reply.message.get("tool_calls") or []
        left = len(calls) if self.limits.calls is None else max(0, self.limits.calls - self._called())
        return [self._call(call) for call in calls[:left]] + [_over_budget(self.limits.calls) for _ in calls[left:]]

    def _called(self) -> int:
        """Tool calls so far."""
        return sum(len(message.get("tool_calls") or ()) for message in self.messages)

    def _answer(self, reply: Reply) -> list[Result]:
        """A `direct` agent's one answer is replayed; it sees nothing of what came of it."""
        answer, malformed = direct_answer(reply.message.get("content") or "")
        return [_malformed(malformed)] if malformed else [self._call(tool_call("answer", answer))]

    def _call(self, call: Mapping[str, Any]) -> Result:
        name = call["function"]["name"]
        try:
            arguments = json.loads(call["function"]["arguments"] or "{}")
        except (ValueError, TypeError, RecursionError):  # no JSON, numbers without end, endless nesting
            arguments = None
        if not isinstance(arguments, dict):
            return _malformed("the arguments are not a JSON object")
        text, _, _, _, info = self.world.step(arguments | {"name": name})
        code = arguments.get("code")
        return text, info, code if name == "pyexec" and isinstance(code, str) else None

    def _verdict(self, spoke: bool) -> Outcome | None:
        if self.progress == 1.0:
            clean = not self.blueprint.preserve or self.strayed() == 0
            return Outcome.SUCCESS if clean else Outcome.AGENT_FAILURE
        if spoke and self.turn >= self.limits.turns:
            return Outcome.TURN_LIMIT
        in_turn = 1 + sum(step.facts.turn == self.turn for step in self.steps)
        if self.limits.calls is not None and not spoke and self._called() >= self.limits.calls:
            return Outcome.STEP_LIMIT
        if len(self.steps) + 1 >= self.limits.steps or (not spoke and in_turn >= self.limits.steps_per_turn):
            return Outcome.STEP_LIMIT
        return None

    def end(self, outcome: Outcome) -> None:
        """A speaker or a machine ends the episode: what was done so far stands, its last step being the last."""
        self.outcome = outcome
        if self.steps:
            last = self.steps[-1]
            self.steps[-1] = replace(last, facts=replace(last.facts, last=True))

    def _decision(self) -> str:
        """What the agent decides from: physical state, open intents, what it last saw (design, `anchor`)."""
        seen = self.messages[-1]
        text = json.dumps([self.home.state_key(), [i.id for i in self.open_intents()], seen["role"], seen["content"]])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def trajectory(self, agent: str, user: str, seed: int = 0) -> Trajectory:
        """The finished episode as a record."""
        if self.outcome is None:
            raise ValueError("the episode is not over")
        return Trajectory(
            blueprint=self.blueprint.model_dump(mode="json"),
            messages=tuple(self.messages),
            tools=tuple(self.world.tools),
            steps=tuple(self.steps),
            outcome=self.outcome,
            progress=self.progress,
            clean=self.strayed() == 0,
            agent=agent,
            user=user,
            seed=seed,
            limits=asdict(self.limits),
        )


def _malformed(what: str) -> Result:
    return f"refused: syntax: {what}", {"blocked": {"rule": "syntax"}, "error": None}, None


def _over_budget(calls: int | None) -> Result:
    rule = {"rule": "call_limit", "message": f"only {calls} tool calls are allowed"}
    return f"refused: call_limit: {rule['message']}", {"blocked": rule, "error": None}, None


def _tool_message(index: int, reply: Reply, text: str) -> Message:
    calls = reply.message.get("tool_calls") or []
    call_id = calls[index].get("id", "") if index < len(calls) else ""
    return {"role": "tool", "content": text} | ({"tool_call_id": call_id} if call_id else {})


def count_tokens(code: str) -> int:
    """Words, numbers and punctuation marks: the length of code where no tokenizer is at hand."""
    return len(re.findall(r"\w+|[^\w\s]", code))
