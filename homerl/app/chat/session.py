"""A talk of a person with an agent in a home.

Invariants:
- What was taken back leaves no trace: home, dialogue and all that comes later are as if it had not been said. So each
  sentence has an agent of its own, whose seed depends on the session's seed and the number of sentences before it.
- A sentence that was stopped, or whose answer failed, keeps what was done until then. If nothing was, it counts as unsaid.
- The agent reads the last turns only, as many as it knows from training.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from homerl.app.chat.terms import Partner, Terms
from homerl.envs.core.messages import Message
from homerl.models.endpoint.endpoint import derived_seed
from homerl.play.dialogue import ShownStep, shown_step
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import Policy
from homerl.play.observation import Observation
from homerl.play.situation import Reply, Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.registry import begin
from homerl.worlds.visits import Change, Visits

MOST = 1_000_000  # turns and steps of an episode that no limit ends
OPEN_END = EpisodeLimits(turns=MOST, steps=MOST, steps_per_turn=MOST)


@dataclass(frozen=True)
class Did:
    """One message of the agent: its words, its calls with their results, and what became other in the home."""

    words: str
    step: ShownStep
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Note:
    """A remark of the session on how an answer ended, if it did not end by the agent's words."""

    text: str


Event = Did | Note


@dataclass
class Turn:
    """A sentence, the episode before it, and what came of it so far."""

    sentence: str
    before: Episode
    events: list[Event] = field(default_factory=list)

    @property
    def did_something(self) -> bool:
        """Whether the agent made a message."""
        return any(isinstance(event, Did) for event in self.events)


class Session:
    """The talk: the home as it is now (`situation`), and the turns so far."""

    def __init__(self, visits: Visits, blueprint: object, partner: Partner, terms: Terms, seed: int = 0) -> None:
        self.visits, self.blueprint, self.partner, self.terms, self.seed = visits, blueprint, partner, terms, seed
        self.turns: list[Turn] = []
        self.agent_name = partner.name
        self.episode = begin(blueprint, OPEN_END)

    @property
    def situation(self) -> Situation:
        """The home as it is now."""
        return self.episode.situation

    async def say(self, sentence: str) -> AsyncGenerator[Event]:
        """Say a sentence, and yield what the agent does, as it does it. May be cancelled at any moment."""
        turn = Turn(sentence, self.episode.fork())
        self.turns.append(turn)
        self.episode.hear(sentence)
        try:
            async for did in self._answer():
                turn.events.append(did)
                yield did
            ended = None if _spoke(turn) else Note(f"it stopped here: {self._limit()}")
        except EPISODE_ERRORS as error:
            ended = Note(f"no answer: {error}")
        except BaseException:
            turn.events.append(Note("stopped"))
            self._forget_unanswered(turn)
            raise
        if ended:
            turn.events.append(ended)
            yield ended
        self._forget_unanswered(turn)

    async def _answer(self) -> AsyncIterator[Did]:
        """The agent's messages, until it ends its turn or has made as many as it may."""
        agent = self.partner.agent(derived_seed(self.seed, len(self.turns)))
        self.agent_name, known = agent.name, self._unread()
        for _ in range(self.terms.steps):
            if isinstance(agent, Policy):
                (reply,) = await agent.propose(_without(self.episode.observation, known))
            else:
                (reply,) = await agent.consult(self.episode)
            did = await self._act(reply)
            yield did
            if self.episode.steps[-1].facts.closes:
                return

    async def _act(self, reply: Reply) -> Did:
        """Apply a message as a whole: if this is interrupted, the episode is as it was."""
        before = self.episode.fork()
        try:
            step = await self.episode.acts(reply)
        except BaseException:
            self.episode = before
            raise
        words = self.episode.words_of(step.message).text.strip()
        return Did(words, shown_step(step), tuple(self.visits.changes(before.situation, self.situation)))

    def _unread(self) -> tuple[int, int]:
        """The range of messages that the agent does not read: all turns but the last ones."""
        messages, first = self.episode.messages, len(self.situation.opening())
        spoken = [at for at, message in enumerate(messages) if message["role"] == "user" and at >= first]
        return first, spoken[-self.terms.turns :][0]

    def _limit(self) -> str:
        return f"{self.terms.steps} messages are the most for one sentence (--steps)"

    def _forget_unanswered(self, turn: Turn) -> None:
        """Count a sentence to which the agent did nothing as unsaid."""
        if not turn.did_something:
            self.turns.remove(turn)
            self.episode = turn.before

    def undo(self) -> str | None:
        """Take the last sentence back, with all that came of it. Returns the sentence, or None if there is none."""
        if not self.turns:
            return None
        last = self.turns.pop()
        self.episode = last.before
        return last.sentence

    def reset(self) -> None:
        """Take everything back."""
        while self.undo() is not None:
            pass

    def trajectory(self) -> Trajectory:
        """The talk as a record, which can be stored, shown and replayed."""
        cut = self.episode.fork()
        cut.cut()
        return cut.trajectory(self.agent_name, "person", self.seed)


def _without(observation: Observation, unread: tuple[int, int]) -> Observation:
    first, last = unread
    messages: Sequence[Message] = observation.messages
    return replace(observation, messages=(*messages[:first], *messages[last:]))


def _spoke(turn: Turn) -> bool:
    """Whether the agent's last message was words, and no call."""
    return bool(turn.events) and isinstance(last := turn.events[-1], Did) and not last.step.calls and not last.step.blocked
