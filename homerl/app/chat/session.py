"""A person's talk with an agent in a home: with whom, on which terms, what is said and done, and how the talk is stored.

Invariants:
- What is not there is refused before anything is loaded.
- What was taken back leaves no trace: home, dialogue and all that comes later are as if it had not been said. So each
  sentence has an agent of its own, whose seed depends on the session's seed and the number of sentences before it.
- A sentence that was stopped, or whose answer failed, keeps what was done until then. If nothing was, it counts as unsaid.
- The agent reads the last turns only, as many as it knows from training.
- A talk is stored as a trajectory. A file that is there is never replaced.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from homerl.app.play_suite import OF_SERVER
from homerl.app.served.model_agents import (
    LoadedModel,
    find_served_model,
    is_model_url,
    load_local_model,
    refuse_missing_model,
)
from homerl.envs.core.documents import InputError, suggest_near_path
from homerl.envs.core.documents.validation import did_you_mean
from homerl.host.recipe_files import STAGES, find_stage_of_model
from homerl.host.terminal import count_with_noun
from homerl.models.endpoint.endpoint import Endpoint, Patience, derive_seed
from homerl.models.endpoint.endpoint_settings import refuse_secret
from homerl.models.endpoint.vllm_server import describe_server_trouble
from homerl.play.episode import SAME_REFUSALS, Episode, EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import Agent, Policy
from homerl.play.situation import Reply, Situation
from homerl.play.trajectory import Outcome, ShownStep, Trajectory, show_step, trajectory_to_row, write_rows
from homerl.report.cards.model_lineage import find_trained_stage, mixture_parts, read_talk_terms
from homerl.train.model_sources import is_local_model_name, is_model_folder, refuse_changed_export, resolve_model_source
from homerl.worlds.registry import begin_episode, known_worlds, world_of
from homerl.worlds.visit_contract import HomeChange, Visits

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
    the most messages of the agent for a sentence, `turns` the number of turns that it reads, and `same_refusals` how often
    the same call may be refused for a sentence: the last of them ends the agent's turn.
    """

    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": GUEST})
    temperature: float = 0.0
    max_tokens: int = 512
    steps: int = EpisodeLimits().steps_per_turn
    turns: int = EpisodeLimits().turns or 1
    same_refusals: int = SAME_REFUSALS


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

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """A few sentences for a person who does not know what to say, of the home as it is before anything was said."""
        first = self.turns[0].before if self.turns else self.episode
        return tuple(self.visits.suggestions(first.situation))

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
                ended = SessionNote(f"it stopped here: {self._describe_limit()}")
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
            if self.episode.steps[-1].facts.closes or self._was_refused_too_often():
                return

    def _was_refused_too_often(self) -> bool:
        return self.episode.most_refusals >= self.terms.same_refusals

    def _describe_limit(self) -> str:
        if self._was_refused_too_often():
            return f"the same call was refused {count_with_noun(self.terms.same_refusals, 'time')}"
        return f"{self.terms.steps} messages are the most for one sentence (--steps)"

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
        cut.outcome, cut.fault = Outcome.CUT, None
        return cut.to_trajectory(self.agent_name, "person", self.seed)


def save_chat(session: ChatSession, file: Path) -> str:
    """Write the talk to a file of trajectories, and say so. Raises `InputError` if the file exists, or nothing was said."""
    if not session.turns:
        raise InputError("nothing was said yet")
    if file.exists():
        raise InputError("the file is there already", str(file), "name another one")
    write_rows(file, [trajectory_to_row(session.to_trajectory())])
    return f"{file}: {count_with_noun(len(session.turns), 'sentence')}; homerl reverify {file} replays them"


# With whom a person talks


def find_model_and_terms(folder: Path) -> tuple[Path, ChatTerms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    folder = Path(os.path.normpath(Path.cwd() / folder))  # what lies around `.` or `checkpoint-50` tells of it
    model = folder if is_model_folder(folder) else find_trained_stage(folder) / "model"
    told = read_talk_terms(model)
    keys = ("temperature", "max_tokens", "steps", "turns", "same_refusals")
    known = {key: told[key] for key in keys if told.get(key) is not None}
    return model, ChatTerms(mixture_parts(told.get("recipe") or GUEST), **known)


PATIENCE = Patience(timeout=600, deadline=600, tries=2)  # a model on a processor may take minutes, and ^C stops it


@dataclass(frozen=True)
class ChatRequest:
    """What a person asked for on the command line. None leaves it to the run."""

    what: str
    like: Path | None = None
    home: Path | None = None
    seed: int = 0
    world: str | None = None
    served: str | None = None
    cpu: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    steps: int | None = None


def open_chat_session(wanted: ChatRequest) -> ChatSession:
    """The session that a person wants. Raises `InputError` for whatever is not there or cannot be visited."""
    # Agents without a model. Those that play tasks whose solution they hold understand no words.
    visits = [world.visits for world in known_worlds().values() if world.visits]
    hearing = {name: agent for visit in visits for name, agent in visit.agents.items()}
    if any(wanted.what in world.baselines for world in known_worlds().values()) and wanted.what not in hearing:
        what = f"'{wanted.what}' plays tasks whose solution it holds, and understands no words"
        raise InputError(what, remedy=f"talk with {', '.join(hearing)}, or with a model")
    model, terms = _choose_partner(wanted, hearing)
    given: dict[str, Any] = {"temperature": wanted.temperature, "max_tokens": wanted.max_tokens, "steps": wanted.steps}
    terms = replace(terms, **{name: value for name, value in given.items() if value is not None})
    visited, recipe = _choose_world(terms, wanted.world)
    blueprint = visited.blueprint(recipe, wanted.home, wanted.seed)
    return ChatSession(visited, blueprint, model(terms), terms, wanted.seed)


def _choose_partner(
    wanted: ChatRequest, made: Mapping[str, Callable[[], Agent]]
) -> tuple[Callable[[ChatTerms], ChatPartner], ChatTerms]:
    """How the partner is made once the terms are settled, and the terms that come with it, or those of `--like`."""
    like = find_model_and_terms(wanted.like)[1] if wanted.like else None
    if wanted.what in made:
        return lambda _: ChatPartner(wanted.what, lambda seed: made[wanted.what]()), like or ChatTerms()
    if is_model_url(wanted.what):
        refuse_secret("", wanted.what)
        urls = wanted.what.split(",")
        if wanted.served and (found := describe_server_trouble(urls[0], "OPENAI_API_KEY")):
            raise InputError(f"the server {found}", urls[0], "is it running? the address ends in /v1")
        name = wanted.served or find_served_model(wanted.what)
        return lambda terms: make_endpoint_partner(wanted.what, name, terms), like or ChatTerms(max_tokens=OF_SERVER)
    folder, terms = _find_model_folder(wanted.what, made)
    return lambda terms: make_local_partner(load_local_model(folder, wanted.cpu, _name_model(folder)), terms), like or terms


def load_named_model(what: str, cpu: bool) -> LoadedModel:
    """The model of a run, of a folder or of the hub, loaded. Raises `InputError` if there is none."""
    folder, _ = _find_model_folder(what)
    return load_local_model(folder, cpu, _name_model(folder))


def _find_model_folder(what: str, known: Iterable[str] = ()) -> tuple[str, ChatTerms]:
    """The folder or hub id of a model, and what is known of it."""
    path = Path(resolve_model_source(what))
    if path.exists():
        refuse_changed_export(path)
        folder, terms = find_model_and_terms(path)
        return str(folder), terms
    if is_local_model_name(what) and what not in known:
        near = get_close_matches(what, known, n=1)
        remedy = f"did you mean {near[0]}?" if near else suggest_near_path(path)
        raise InputError("there is no such run or model", what, remedy)
    refuse_missing_model(what, known, where="")
    return what, ChatTerms()


def _name_model(model: str) -> str:
    """What a model is called: like its run, its stage where a run has several, and its checkpoint, or `best`, of these."""
    path = Path(model).resolve() if Path(model).exists() else Path(model)
    stage = find_stage_of_model(path) or path
    name = f"{stage.parent.name}-{stage.name}" if stage.name in STAGES else stage.name
    if path in (stage, stage / "model"):
        return name
    return f"{name}-{'best' if path.name == 'model' else path.name}"


def make_endpoint_partner(url: str, name: str, terms: ChatTerms) -> ChatPartner:
    """A model behind an endpoint."""
    from homerl.models.endpoint.llm_agent import LLMAgent

    endpoint = Endpoint(url.split(","), name, PATIENCE)
    drawn = terms.temperature > 0  # at 0 nothing is drawn, and some servers take no seed
    return ChatPartner(name, lambda seed: LLMAgent(endpoint, terms.temperature, terms.max_tokens, seed if drawn else None))


def make_local_partner(model: LoadedModel, terms: ChatTerms) -> ChatPartner:
    """A model that this process has loaded."""
    return ChatPartner(model.name, lambda seed: model.make_agents(terms.max_tokens, terms.temperature, seed)())


def _choose_world(terms: ChatTerms, wanted: str | None) -> tuple[Visits, Mapping[str, Any]]:
    """The world to visit and the recipe of its homes: the first that can be visited, or the wanted one of them.

    A part of a mixture is wanted by its own name or by its world's.
    """
    parts = {name: (world_of(recipe), recipe) for name, recipe in terms.recipes.items()}
    if wanted is not None:
        known = {**{world.name: (world, recipe) for world, recipe in parts.values()}, **parts}
        known.pop("", None)
        if wanted not in known and wanted in known_worlds():
            known[wanted] = (known_worlds()[wanted], {})
        if wanted not in known:
            raise InputError(f"there are no homes of '{wanted}'", "--world", did_you_mean(wanted, [*known]))
        parts = {wanted: known[wanted]}
    for world, recipe in parts.values():
        if world.visits is not None:
            return world.visits, recipe
    names = ", ".join(f"'{name}'" for name in dict.fromkeys(world.name for world, _ in parts.values()))
    what = f"nobody can visit the world {names}: each of its episodes ends with its one request"
    open_worlds = (f"'{world.name}'" for world in known_worlds().values() if world.visits)
    raise InputError(what, "--world", f"visit {', '.join(open_worlds)}")
