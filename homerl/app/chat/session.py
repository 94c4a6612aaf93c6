"""With whom a person talks, and how.

A talk of a person with an agent in a home.

Invariants:
- What was taken back leaves no trace: home, dialogue and all that comes later are as if it had not been said. So each
  sentence has an agent of its own, whose seed depends on the session's seed and the number of sentences before it.
- A sentence that was stopped, or whose answer failed, keeps what was done until then. If nothing was, it counts as unsaid.
- The agent reads the last turns only, as many as it knows from training.

Stores a talk as a trajectory.

Invariant: a file that is there is never replaced.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.host.terminal import count_with_noun
from homerl.models.endpoint.endpoint import derive_seed
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import Agent, Policy
from homerl.play.situation import Reply, Situation
from homerl.play.trajectory import ShownStep, Trajectory, show_step, trajectory_to_row, write_rows
from homerl.worlds.contract import HomeChange, Visits
from homerl.worlds.registry import begin_episode

GUEST = {"prompt": "full"}  # the recipe of a model of which nothing is known: it is told what its tools are for


@dataclass(frozen=True)
class ChatPartner:
    """The agent. `agent` makes one for a sentence; with equal seeds it answers alike."""

    name: str
    agent: Callable[[int], Agent]


@dataclass(frozen=True)
class ChatTerms:
    """The home's recipe, how replies are sampled, and what the agent knows from training.

    `recipes` are recipes of blueprints, as plain data, by the name of a mixture's part; a run has at least one. `steps` is
    the most messages of the agent for a sentence, and `turns` the number of turns that it reads.
    """

    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": GUEST})
    temperature: float = 0.0
    max_tokens: int = 512
    steps: int = EpisodeLimits().steps_per_turn
    turns: int = EpisodeLimits().turns or 1


MOST = 1_000_000  # turns and steps of an episode that no limit ends
OPEN_END = EpisodeLimits(turns=MOST, steps=MOST, steps_per_turn=MOST)


@dataclass(frozen=True)
class AgentAct:
    """One message of the agent: its words, its calls with their results, and what became other in the home."""

    words: str
    step: ShownStep
    changes: tuple[HomeChange, ...] = ()


@dataclass(frozen=True)
class SessionNote:
    """A remark of the session on how an answer ended, if it did not end by the agent's words."""

    text: str


Event = AgentAct | SessionNote


@dataclass
class ChatTurn:
    """A sentence, the episode before it, and what came of it so far."""

    sentence: str
    before: Episode
    events: list[Event] = field(default_factory=list)


class ChatSession:
    """The talk: the home as it is now (`situation`), and the turns so far."""

    def __init__(self, visits: Visits, blueprint: object, partner: ChatPartner, terms: ChatTerms, seed: int = 0) -> None:
        self.visits, self.blueprint, self.partner, self.terms, self.seed = visits, blueprint, partner, terms, seed
        self.turns: list[ChatTurn] = []
        self.agent_name = partner.name
        self.episode = begin_episode(blueprint, OPEN_END)

    @property
    def current_situation(self) -> Situation:
        """The home as it is now."""
        return self.episode.situation

    async def say_sentence(self, sentence: str) -> AsyncGenerator[Event]:
        """Say a sentence, and yield what the agent does, as it does it. May be cancelled at any moment."""
        turn = ChatTurn(sentence, self.episode.fork())
        self.turns.append(turn)
        self.episode.add_utterance(sentence)
        ended: SessionNote | None = None
        try:
            async for did in self._answer_sentence():
                turn.events.append(did)
                yield did
            # The turn is whole if the agent's last message was words, and no call.
            last = turn.events[-1] if turn.events else None
            if not isinstance(last, AgentAct) or last.step.calls or last.step.blocked:
                ended = SessionNote(f"it stopped here: {self.terms.steps} messages are the most for one sentence (--steps)")
        except EPISODE_ERRORS as error:
            ended = SessionNote(f"no answer: {error}")
        except BaseException:
            turn.events.append(SessionNote("stopped"))
            self._forget_unanswered(turn)
            raise
        if ended:
            turn.events.append(ended)
            yield ended
        self._forget_unanswered(turn)

    async def _answer_sentence(self) -> AsyncIterator[AgentAct]:
        """The agent's messages, until it ends its turn or has made as many as it may."""
        agent = self.partner.agent(derive_seed(self.seed, len(self.turns)))
        self.agent_name = agent.name
        # The agent reads the opening and the last turns. It does not read what was said between them.
        opening = len(self.current_situation.opening())
        spoken = [at for at, one in enumerate(self.episode.messages) if one["role"] == "user" and at >= opening]
        first_read = spoken[-self.terms.turns :][0]
        for _ in range(self.terms.steps):
            if isinstance(agent, Policy):
                seen = self.episode.observation
                read = *seen.messages[:opening], *seen.messages[first_read:]
                (reply,) = await agent.propose(replace(seen, messages=read))
            else:
                (reply,) = await agent.consult(self.episode)
            did = await self._apply_reply(reply)
            yield did
            if self.episode.steps[-1].facts.closes:
                return

    async def _apply_reply(self, reply: Reply) -> AgentAct:
        """Apply a message as a whole: if this is interrupted, the episode is as it was."""
        before = self.episode.fork()
        try:
            step = await self.episode.apply_reply_async(reply)
        except BaseException:
            self.episode = before
            raise
        words = self.episode.spoken_words_of(step.message).text.strip()
        return AgentAct(words, show_step(step), tuple(self.visits.changes(before.situation, self.current_situation)))

    def _forget_unanswered(self, turn: ChatTurn) -> None:
        """Count a sentence to which the agent did nothing as unsaid."""
        if not any(isinstance(event, AgentAct) for event in turn.events):
            self.turns.remove(turn)
            self.episode = turn.before

    def undo_turn(self) -> str | None:
        """Take the last sentence back, with all that came of it. Returns the sentence, or None if there is none."""
        if not self.turns:
            return None
        last = self.turns.pop()
        self.episode = last.before
        return last.sentence

    def undo_all_turns(self) -> None:
        """Take everything back."""
        while self.undo_turn() is not None:
            pass

    def to_trajectory(self) -> Trajectory:
        """The talk as a record, which can be stored, shown and replayed."""
        cut = self.episode.fork()
        cut.cut_short()
        return cut.to_trajectory(self.agent_name, "person", self.seed)


def save_chat(session: ChatSession, file: Path) -> str:
    """Write the talk to a file of trajectories, and say so. Raises `InputError` if the file exists, or nothing was said."""
    if not session.turns:
        raise InputError("nothing was said yet")
    if file.exists():
        raise InputError("the file is there already", str(file), "name another one")
    write_rows(file, [trajectory_to_row(session.to_trajectory())])
    return f"{file}: {count_with_noun(len(session.turns), 'sentence')}; homerl reverify {file} replays them"
