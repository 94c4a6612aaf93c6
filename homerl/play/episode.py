"""An episode: one blueprint in play. It can be forked at any message.

Invariants:
- It succeeds when all goals Φ are met and the agent has said so: a call that meets the last goal is followed by the
  agent's last word in the same turn, for which one step beyond the limits is granted. What the word says does not matter,
  since Φ is checked on the state. Otherwise it ends at a limit, never because a speaker says so. Worlds with a finish
  action end by it, as their benchmarks do.
- A fork is independent of its original.
- A policy sees `observation` only: never Φ, the plan or the open intents.
- An outcome that does not count has a fault, which says who failed. No error of a world's code leaves `apply_reply` but as
  an `AgentFault` or a `WorldError` (`blame_call_error`), so it ends this episode alone.
- Nothing here depends on which world it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from homerl.envs.core.messages import Message, copy_plain_message
from homerl.envs.core.world import Action, StepFacts, ToolCall, World, WorldError, tool_call_to_action
from homerl.play.closings import find_closing_flaw
from homerl.play.faults import (
    EPISODE_ERRORS,
    EXHAUSTED,
    AgentFault,
    Fault,
    InfraError,
    UserError,
    blame_call_error,
    describe_escaped_error,
    fault_from_error,
)
from homerl.play.ordered_async_work import run_beside_loop
from homerl.play.situation import JSON_ANSWERS, BlueprintProtocol, Observation, Reply, Situation
from homerl.play.spoken_words import SpokenWords, spoken_words_of
from homerl.play.tool_call_parser import action_to_tool_call, calls_to_record, read_tool_calls
from homerl.play.trajectory import FAULT_OUTCOMES, Outcome, Step, Trajectory, are_steps_valid

Result = tuple[str, Mapping[str, Any], str | None]  # the observation, the world's info, and the code in the call
SAME_REFUSALS = 2  # of one call for one sentence, with which the agent's turn ends where a person talks


@dataclass(frozen=True)
class EpisodeLimits:
    """How long an episode may go on."""

    turns: Annotated[int, Field(ge=1)] | None = field(
        default=5, metadata={"description": "Most turns; null is what the wishes and questions need."}
    )
    steps: Annotated[int, Field(ge=1)] = field(
        default=12, metadata={"description": "Most messages of the agent in an episode."}
    )
    steps_per_turn: Annotated[int, Field(ge=1)] = field(
        default=6, metadata={"description": "Most steps of the agent in one turn."}
    )
    seconds_per_step: Annotated[int, Field(ge=0)] = field(
        default=0, metadata={"description": "Seconds of the world's time that a step takes."}
    )
    calls: Annotated[int, Field(ge=1)] | None = field(
        default=None, metadata={"description": "Most tool calls in an episode; null is any number."}
    )
    same_refusals: Annotated[int, Field(ge=1)] | None = field(
        default=None,
        metadata={
            "description": "How often the same call may be refused in one turn: the last of them ends the episode, as the "
            "served agent's turn ends with the second. null is any number."
        },
    )

    def to_record(self) -> dict[str, int | None]:
        """The limits as files hold them. `same_refusals`, which is newer, is there only where it is set."""
        return {name: value for name, value in asdict(self).items() if name != "same_refusals" or value is not None}


@dataclass
class Episode:
    """The state of an episode: the situation, the dialogue, and the steps so far.

    `speaking_of` is the intent of the last utterance, and `turn` the number of utterances. `refused` counts the calls of the
    turn that were refused, or whose code failed.
    """

    situation: Situation
    limits: EpisodeLimits
    messages: list[Message]
    steps: list[Step] = field(default_factory=list)
    outcome: Outcome | None = None
    speaking_of: int | None = None
    turn: int = 0
    fault: Fault | None = None
    refused: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_situation(cls, situation: Situation, limits: EpisodeLimits = EpisodeLimits()) -> Episode:
        """An episode in a fresh situation, before the user first speaks."""
        return cls(situation, limits, situation.opening())

    def fork(self) -> Episode:
        """An independent copy. Messages and steps are shared, since they never change."""
        messages, steps, refused = self.messages.copy(), self.steps.copy(), self.refused.copy()
        return replace(self, situation=self.situation.fork(), messages=messages, steps=steps, refused=refused)

    @property
    def blueprint(self) -> BlueprintProtocol:
        """The blueprint in play."""
        blueprint: BlueprintProtocol = self.situation.blueprint
        return blueprint

    @property
    def observation(self) -> Observation:
        """All that a policy may see."""
        of, protocol = self.blueprint, dict(self.situation.protocol)
        return Observation(of.id, tuple(self.messages), tuple(self.world.tools), of.one_answer, protocol, of.seed)

    @property
    def world(self) -> World:
        """The world that calls act on."""
        return self.situation.world

    @property
    def most_turns(self) -> int:
        """The number of turns that the limits allow."""
        turns = self.situation.turns_needed if self.limits.turns is None else self.limits.turns
        return turns + self.situation.added.turns

    @property
    def most_steps(self) -> int:
        """The number of steps that the limits allow; a turn that the user's behaviours add may take a whole turn's."""
        return self.limits.steps + self.situation.added.turns * self.limits.steps_per_turn

    @property
    def most_calls(self) -> int | None:
        """The number of tool calls that the limits allow; None is any number."""
        return None if self.limits.calls is None else self.limits.calls + self.situation.added.calls

    @property
    def refused_too_often(self) -> bool:
        """Whether one call was refused in this turn as often as the limits allow."""
        return self.limits.same_refusals is not None and self.most_refusals >= self.limits.same_refusals

    @property
    def most_refusals(self) -> int:
        """How often the most refused call was refused in this turn."""
        return max(self.refused.values(), default=0)

    @property
    def progress(self) -> float:
        """m: the share of the goals Φ that are met, in [0, 1]."""
        return share_of_goals_met(self.situation.met())

    @property
    def is_valid(self) -> bool:
        """valid(h_v) of HomeFlow eq. 4, so far; see `trajectory.are_steps_valid`."""
        return are_steps_valid(self.steps)

    def spoken_words_of(self, message: Message) -> SpokenWords:
        """The words of an agent's message, in the form in which this episode's agents answer."""
        json_answers = bool(self.situation.protocol.get(JSON_ANSWERS))
        return spoken_words_of(message, one_answer=self.blueprint.one_answer, json_answers=json_answers)

    def open_intents(self) -> list[Any]:
        """The intents with a goal that is not met now, in the blueprint's order."""
        return self.situation.open_intents()

    def course_position(self, intent: int, turn: int) -> int | None:
        """Where the user stands in the course of an intent with its utterance of a turn, which speaks of that intent.

        The number of parts said before; None if the utterance is the answer beside the point.
        """
        earlier = {s.facts.turn: s.message for s in self.steps if s.facts.intent == intent and s.facts.turn < turn}
        questions = (at for at, message in earlier.items() if self.spoken_words_of(message).question)
        first = next(questions, None) if self.situation.course_of(intent).aside is not None else None
        if first is None:
            return len(earlier)
        return None if first + 1 == turn else len(earlier) - (first + 1 in earlier)

    def side_effects(self) -> int:
        """The number of things that differ from the start though no intent asked for it."""
        return self.situation.side_effects()

    def add_utterance(self, utterance: str, intent_id: int | None = None) -> None:
        """Begin a new turn with the user's utterance."""
        self.turn += 1
        self.refused = Counter()
        self.speaking_of = intent_id
        self.messages.append({"role": "user", "content": utterance})

    def apply_reply(self, reply: Reply) -> Step:
        """Apply the agent's message, and return its step. The episode ends if the world ends it or a limit is reached.

        If a call fails the world and the agent is to blame, the step is one refused call, which changes nothing and ends
        the episode. What else the world raises becomes a `WorldError`, and the episode is as it was before the message.
        """
        try:
            return self._apply_or_restore(reply)
        except AgentFault as fault:
            return self._apply_or_restore(reply, fault)

    async def apply_reply_async(self, reply: Reply) -> Step:
        """The same as `apply_reply`, beside the event loop if the message may hold code, which may be slow.

        If this is cancelled, the episode may go on to change: use it no more.
        """
        try:
            text = str(reply.message)
        except RecursionError:
            text = "code"
        # A call may have an argument `code`, whose letters JSON may write as escapes.
        if "code" in text or "\\u" in text:
            return await run_beside_loop(partial(self.apply_reply, reply))
        return self.apply_reply(reply)

    def _apply_or_restore(self, reply: Reply, failed: AgentFault | None = None) -> Step:
        """Apply a message. If that fails, the episode is as it was before. `failed` is how an earlier try ended."""
        before, said, ended = self.situation.fork(), len(self.messages), (self.outcome, self.fault)
        try:
            plain = replace(reply, message=copy_plain_message(reply.message))  # the agent may go on to change its own
            return self._take_step(plain, failed)
        except Exception as error:
            self.situation, (self.outcome, self.fault) = before, ended
            del self.messages[said:]
            if isinstance(error, EPISODE_ERRORS):
                raise
            raise (AgentFault if isinstance(error, EXHAUSTED) else WorldError)(describe_escaped_error(error)) from error

    def _take_step(self, reply: Reply, failed: AgentFault | None) -> Step:
        decision, situation = self.decision_key(), self.situation
        before, side_effects, mark = self.progress, self.side_effects(), situation.mark()
        opens = self.messages[-1]["role"] == "user"
        meant = situation.stands_for(reply)
        calls = () if meant is not None else read_tool_calls(reply.message) if reply.calls is None else reply.calls
        if failed is not None:
            results = [_refuse("wrong_type", "no tool takes such a call")]
        else:
            self.world.begin_message()
            results = self._run_calls(reply, calls) if meant is None else [self._run_action(meant, spoken=True)]
        spoke = meant is not None or not results
        self.messages.append(reply.message)
        for at, (text, _, _) in enumerate(results if meant is None else ()):
            call_id = calls[at].id if at < len(calls) else ""
            self.messages.append({"role": "tool", "content": text} | ({"tool_call_id": call_id} if call_id else {}))
        if meant is not None and not isinstance(meant, str):
            calls = (action_to_tool_call(meant),)
        blocked = tuple(info["blocked"]["rule"] for _, info, _ in results if info["blocked"])
        situation.note_reply(self.speaking_of, reply.message, blocked, spoke)
        situation.wait(self.limits.seconds_per_step)
        met = situation.met()
        closes = (spoke or situation.ended) and failed is None
        if not spoke and failed is None:
            self.refused.update(_refused_calls(reply, calls, results))
        self.outcome = self._outcome_after_message(share_of_goals_met(met) == 1.0, closes)
        if failed is not None:
            self.outcome, self.fault = Outcome.AGENT_FAILURE, fault_from_error(failed)
        code = "\n".join(code for _, _, code in results if code) or None
        facts = StepFacts(
            turn=self.turn,
            opens_turn=opens,
            progress_before=before,
            progress_after=share_of_goals_met(met),
            code=code,
            code_tokens=(reply.code_tokens or count_code_tokens)(code) if code else 0,
            blocked=blocked,
            error=next((info["error"] for _, info, _ in results if info["error"]), None),
            changed=situation.changed_since(mark),
            side_effects_before=side_effects,
            side_effects_after=self.side_effects(),
            last=self.outcome is not None,
            intent=self.speaking_of,
            met=tuple(i for i, holds in enumerate(met) if holds),
            calls=calls_to_record(calls),
            closes=closes,
        )
        if closes and (heard := situation.closing_message(reply.message)) is not None:
            said = self.spoken_words_of(heard)
            wish = situation.standing_of_wish(facts, [step.facts for step in self.steps], said.claims)
            facts = replace(facts, closing_flaw=find_closing_flaw(said, wish))
        step = Step(reply.message, tuple(text for text, _, _ in results), facts, situation.state_key(), decision)
        self.steps.append(step)
        return step

    def _run_calls(self, reply: Reply, calls: Sequence[ToolCall]) -> list[Result]:
        """Apply a message's tool calls, as many as the limits allow."""
        if reply.malformed:
            return [_refuse_syntax(reply.malformed)]
        left = len(calls) if self.most_calls is None else max(0, self.most_calls - self._count_calls())
        results = list[Result]()
        for call in calls[:left]:
            if call.malformed:
                results.append(_refuse_syntax(call.malformed))
            else:
                takes_name = "name" in call.arguments and self.situation.takes_name(call.name)
                results.append(self._run_action(tool_call_to_action(call.name, call.arguments, takes_name)))
        return results + [_refuse("call_limit", f"only {self.most_calls} tool calls are allowed") for _ in calls[left:]]

    def _count_calls(self) -> int:
        """The number of tool calls so far."""
        return sum(len(message.get("tool_calls") or ()) for message in self.messages)

    def _run_action(self, action: Action | str, spoken: bool = False) -> Result:
        """Apply a call, or the one that words stand for. A text instead of a call says why there is none."""
        if isinstance(action, str):
            return _refuse_syntax(action)
        try:
            text, info = self.situation.take(action)
        except (InfraError, AgentFault, UserError):
            raise
        except Exception as error:
            raise blame_call_error(error, action, self.world.tools, spoken) from error
        return text, info, self.situation.code_of(action)

    def _outcome_after_message(self, met: bool, closes: bool) -> Outcome | None:
        """How the episode ends with a message, if it does. `closes`: the message ends the agent's turn."""
        if met and closes:
            clean = not self.blueprint.preserve or self.side_effects() == 0
            return Outcome.SUCCESS if clean else Outcome.AGENT_FAILURE
        if self.situation.ended:
            return Outcome.AGENT_FAILURE
        if closes and self.turn >= self.most_turns:
            return Outcome.TURN_LIMIT
        if not closes and self.refused_too_often:
            return Outcome.STEP_LIMIT
        spare = int(met)  # one more message, for the last word
        in_turn = 1 + sum(step.facts.turn == self.turn for step in self.steps)
        if self.most_calls is not None and not closes and self._count_calls() >= self.most_calls + spare:
            return Outcome.STEP_LIMIT
        if len(self.steps) + 1 >= self.most_steps + spare:
            return Outcome.STEP_LIMIT
        return Outcome.STEP_LIMIT if not closes and in_turn >= self.limits.steps_per_turn + spare else None

    def end_with_fault(self, fault: Fault | None) -> None:
        """End the episode with a fault, or with the agent's failure if `fault` is None. The last step is marked as last."""
        self.fault, self.outcome = fault, FAULT_OUTCOMES[fault.boundary] if fault else Outcome.AGENT_FAILURE
        if self.steps:
            last = self.steps[-1]
            self.steps[-1] = replace(last, facts=replace(last.facts, last=True))

    def decision_key(self) -> str:
        """A hash of what matters for the rest: which goals are met, the state of what the open wishes concern, and whose
        turn it is (`homerl/train/credit`). Words do not matter, nor devices that are settled or that nobody asked about.
        """
        last_turn = self.turn >= self.most_turns
        heard = [self.messages[-1]["role"], self.speaking_of, last_turn]
        told = [self.turn] if self.situation.added.turns else []  # what the user has still to say depends on it
        parts = [self.situation.met(), self.situation.concerns(), heard + told]
        return hashlib.blake2b(json.dumps(parts, default=str).encode(), digest_size=12).hexdigest()

    def to_trajectory(self, agent: str, user: str, seed: int = 0) -> Trajectory:
        """The finished episode as a record. Raises `ValueError` if the episode is not over."""
        if self.outcome is None:
            raise ValueError("the episode is not over")
        return Trajectory(
            blueprint=self.blueprint.model_dump(mode="json"),
            messages=tuple(self.messages),
            tools=tuple(self.world.tools),
            steps=tuple(self.steps),
            outcome=self.outcome,
            progress=self.progress,
            clean=self.side_effects() == 0,
            agent=agent,
            user=user,
            seed=seed,
            limits=self.limits.to_record(),
            fault=self.fault,
        )


def share_of_goals_met(met: Sequence[bool]) -> float:
    """The share of the goals that are met. Without goals it is 0: nobody knows what is wanted, and nothing succeeds."""
    return sum(met) / len(met) if met else 0.0


def _refused_calls(reply: Reply, calls: Sequence[ToolCall], results: Sequence[Result]) -> Iterator[str]:
    """The calls of a message that were refused or failed, each as a text that is the same for the same call."""
    if reply.malformed or len(calls) != len(results):
        yield str(reply.message.get("content"))
        return
    for call, (_, info, _) in zip(calls, results):
        if info["blocked"] or info["error"]:
            yield json.dumps([call.name, call.malformed, call.arguments], sort_keys=True, default=str)


def _refuse_syntax(what: str) -> Result:
    return f"refused: syntax: {what}", {"blocked": {"rule": "syntax"}, "error": None}, None


def _refuse(rule: str, message: str) -> Result:
    return f"refused: {rule}: {message}", {"blocked": {"rule": rule, "message": message}, "error": None}, None


def count_code_tokens(code: str) -> int:
    """The number of words, numbers and punctuation marks: the length of code if there is no tokenizer."""
    return len(re.findall(r"\w+|[^\w\s]", code))
