"""A task as an environment: for a trainer, a search or an agent that is not homerl's. `import homerl` is enough to use it.

    suite = homerl.load_suite(NAME)   # as `homerl bench run NAME`
    env = suite[0].start(seed=0)
    turn = env.step('<tool_call>{"name": "get_states", "arguments": {}}</tool_call>')
    print(turn.reward, turn.done, turn.new_messages)
    other = env.fork()

Invariants:
- The same task, seed and replies give the same messages, rewards and state keys. With an LLM as the user they do as far as
  its server does.
- What an agent may see is `messages` and `tools`. Goals, plans and open wishes are in neither.
- A fork is exact, and independent of its original. It costs a copy of what can change in the home.
- The rewards of a step are those of RLVE (HomeFlow eq. 6), computed when the user has answered: a user who leaves makes the
  step the last one.
- No import of torch or transformers: the extra `env` is enough.
- What this module defines keeps its meaning within a major version of homerl (semantic versioning).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, overload

from homerl.envs.core.documents import Document, validate_document
from homerl.envs.core.messages import Message, to_strict_openai_form, tool_call
from homerl.envs.core.world import StepFacts, ToolCall
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS, fault_from_error
from homerl.play.loop import User, let_user_speak, play, waits_for_user
from homerl.play.replay import add_step_rewards
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import parse_observed_reply
from homerl.play.trajectory import Trajectory
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.worlds.contract import EXPERT
from homerl.worlds.registry import begin_episode, world_of
from homerl.worlds.users import ScriptedUser

AgentReply = str | Mapping[str, Any] | Sequence[ToolCall | Mapping[str, Any]] | Reply
T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """What a reply led to.

    Attributes:
        new_messages: The messages since the reply: the reply as it was read, the tools' results, and the user's next
            sentence if the reply ended the agent's turn. They are the last ones of `TaskEnv.messages`.
        rewards: The weighted reward of each part by name; empty if an error of a server, a user or the world ended the
            episode before the reply had an effect.
        done: Whether the episode is over.
        outcome: How it ended, such as "success"; None while it goes on.
        counts: Whether that says something about the agent. A trainer leaves out what does not count.
        changed: The names of what differs in the home.
        facts: All that the step did, for those who compute rewards of their own; None where `rewards` is empty.
    """

    new_messages: tuple[Message, ...]
    rewards: Mapping[str, float]
    done: bool
    outcome: str | None
    counts: bool
    changed: tuple[str, ...]
    facts: StepFacts | None

    @property
    def reward(self) -> float:
        """The reward of the step: the sum of its parts."""
        return sum(self.rewards.values())


class TaskEnv:
    """A task in play. `step` takes the agent's next message until `done`. Make one with `Task.start`.

    Example:
        env = homerl.load_suite(name)[0].start()
        while not env.done:
            turn = env.step(my_model(env.messages, env.tools))
    """

    def __init__(self, episode: Episode, user: User, weights: RewardWeights) -> None:
        """An episode in which it is the agent's turn, or which is over."""
        self._episode, self._user, self._weights = episode, user, weights

    @property
    def observation(self) -> Observation:
        """All that an agent may see, as homerl's own agents get it. It is a copy."""
        return self._episode.observation

    @property
    def messages(self) -> list[Message]:
        """The dialogue so far, in OpenAI's form: a copy. A strict endpoint takes it, whatever form the replies had.

        So each call has an id, which the tool's message names, and what could not be read as a call is answered by a message
        of the role `user`. `observation` and `trajectory` have the messages as homerl stores them.
        """
        return [*to_strict_openai_form(self._episode.messages)]

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The schemas of the tools that the agent may call now, in OpenAI's form: a copy."""
        return [*self.observation.tools]

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self._episode.outcome is not None

    @property
    def outcome(self) -> str | None:
        """How the episode ended, such as "success"; None while it goes on."""
        return str(self._episode.outcome) if self._episode.outcome else None

    @property
    def counts(self) -> bool:
        """Whether the outcome says something about the agent. A trainer leaves out what does not count."""
        return self._episode.outcome is None or self._episode.outcome.is_counted

    @property
    def progress(self) -> float:
        """The share of the goals Φ that are met now, 0 to 1. Do not show it to an agent."""
        return self._episode.progress

    @property
    def seed(self) -> int:
        """The seed of the episode, which is stored in its trajectory."""
        return self._episode.blueprint.seed

    def step(self, reply: AgentReply) -> Turn:
        """Apply the agent's next message, and let the user answer if it is the user's turn.

        Args:
            reply: A model's text, whose calls are read in the marks of any family of models; a message in OpenAI's form
                (`{"role": "assistant", "content": ..., "tool_calls": [...]}`); or a list of calls, each a mapping with
                `name` and `arguments`. A `Reply` of homerl's own agents is taken as it is.

        Returns:
            What it led to.

        Raises:
            ValueError: The episode is over, or the reply has none of these forms.
        """
        return _run_to_end(self.step_async(reply))

    async def step_async(self, reply: AgentReply) -> Turn:
        """The same as `step`, for many episodes at once: neither an agent's code nor a user's server blocks the loop."""
        if self.done:
            raise ValueError(f"the episode is over ({self.outcome}): start the task again, or step a fork")
        episode, said, played = self._episode, len(self._episode.messages), len(self._episode.steps)
        parsed = read_agent_reply(reply, episode.observation)
        try:
            await episode.apply_reply_async(parsed)
            await advance_to_agent(episode, self._user)
        except EPISODE_ERRORS as error:
            episode.end_with_fault(fault_from_error(error))
        facts = episode.steps[-1].facts if len(episode.steps) > played else None
        rewards = step_rewards(facts, self._weights) if facts else {}
        return Turn(
            new_messages=tuple(self.messages[said:]),
            rewards={name: value + 0.0 for name, value in rewards.items()},  # never -0.0
            done=self.done,
            outcome=self.outcome,
            counts=self.counts,
            changed=facts.changed if facts else (),
            facts=facts,
        )

    def fork(self) -> TaskEnv:
        """An exact and independent copy, which is stepped on its own."""
        return TaskEnv(self._episode.fork(), self._user, self._weights)

    def restore(self, saved: TaskEnv) -> None:
        """Go back, or over, to the state of another one of the same task, such as a fork that was kept. It stays usable."""
        if saved._episode.blueprint != self._episode.blueprint:
            raise ValueError(f"that is a state of another task: {saved._episode.blueprint.id}, seed {saved.seed}")
        self._episode = saved._episode.fork()

    def state_key(self) -> str:
        """A hash of the world's state: of the home, and of what the agent has looked up, called for and answered, where the
        world's goals ask for that. Equal states have equal keys, whatever led to them. Dialogue and limits are not in it.
        """
        return self._episode.situation.state_key()

    def trajectory(self, agent: str = "agent") -> Trajectory:
        """The finished episode as a record with its rewards, as homerl's files have it. `agent` names who played.

        Raises `ValueError` if it is not over.
        """
        return add_step_rewards(self._episode.to_trajectory(agent, self._user.name, self.seed), self._weights)


@dataclass(frozen=True)
class Task:
    """One task: a home, a person with wishes, tools and limits.

    Attributes:
        id: The id of the task, equal in every version that does not change the task.
        blueprint: The script of the episode, with goals and plan. Do not show it to an agent.
        limits: How long an episode may go on.
        weights: Weights and settings of the rewards; by default those of the rewards' files, which are the paper's.
        labels: By what a suite groups its results, such as the category.
    """

    id: str
    blueprint: Any = field(repr=False)
    limits: EpisodeLimits = field(default=EpisodeLimits(), repr=False)
    weights: RewardWeights = field(default=RewardWeights(), repr=False)
    labels: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _first(self) -> TaskEnv:
        return self.start()

    @property
    def messages(self) -> list[Message]:
        """The prompt as messages, up to and with the user's first sentence, with seed 0."""
        return self._first.messages

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The schemas of the agent's tools at the start, in OpenAI's form."""
        return self._first.tools

    @property
    def sentence(self) -> str:
        """What the user says first, with seed 0."""
        return str(self.messages[-1]["content"])

    def start(
        self, seed: int = 0, user: User | None = None, weights: RewardWeights | Mapping[str, Any] | None = None
    ) -> TaskEnv:
        """Begin an episode; the user has spoken.

        Args:
            seed: Several plays of a task differ in it alone: in the user's choice of words, and in what happens by chance.
                Seed k is what `homerl bench run --runs` plays as run k.
            user: Who speaks; None is the scripted user.
            weights: Weights and settings of the rewards, also as a recipe has them under `rewards`: `{"turn_cost": 0.02}`;
                None is the task's.

        Returns:
            The environment, in which it is the agent's turn.

        Raises:
            InputError: There is no such reward or setting, or its value does not fit.
        """
        return _run_to_end(self.start_async(seed, user, weights))

    async def start_async(
        self, seed: int = 0, user: User | None = None, weights: RewardWeights | Mapping[str, Any] | None = None
    ) -> TaskEnv:
        """The same as `start`, for a user whose server is asked."""
        if not (weights is None or isinstance(weights, RewardWeights)):
            weights = read_reward_weights(weights)
        seed = self.blueprint.seed + seed
        episode = begin_episode(self.blueprint.model_copy(update={"seed": seed}), self.limits)
        speaker = user or ScriptedUser(seed)
        try:
            await advance_to_agent(episode, speaker)
        except EPISODE_ERRORS as error:
            episode.end_with_fault(fault_from_error(error))
        return TaskEnv(episode, speaker, weights or self.weights)

    def play_expert(self, seed: int = 0) -> TaskEnv:
        """The finished episode of the scripted expert, who knows the goals: dialogues to begin a training with.

        Its `messages` and `tools` are what a model would have seen and said, `trajectory("expert")` has them with rewards.

        Example:
            done = task.play_expert()
            replies = [message for message in done.messages if message["role"] == "assistant"]  # `step` takes each
        """
        env = self.start(seed)
        _run_to_end(play(env._episode, world_of(self.blueprint).baselines[EXPERT](), env._user, env.seed))
        return env


class TaskList(Sequence[Task]):
    """Tasks by index, each made when it is first asked for. A slice is a list of tasks, too."""

    def __init__(self, length: int, make: Callable[[int], Task]) -> None:
        self._range, self._make = range(length), make

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskList: ...
    def __getitem__(self, index: int | slice) -> Task | TaskList:
        if isinstance(index, slice):
            part = self._range[index]
            return TaskList(len(part), lambda at: self._make(part[at]))
        try:
            return self._make(self._range[index])
        except IndexError:
            raise IndexError(f"there is no task {index}: there are {len(self)}, from 0 on") from None


def read_reward_weights(rewards: Mapping[str, Any]) -> RewardWeights:
    """What a recipe has under `rewards`. Raises `InputError` for a key or a value that no reward has."""
    return validate_document(RewardWeights, Document("rewards", {}, {}, {}), rewards)


async def advance_to_agent(episode: Episode, user: User) -> None:
    """Let the user speak if it is the user's turn and the episode is not over."""
    if episode.outcome is None and waits_for_user(episode):
        await let_user_speak(episode, user)


def read_agent_reply(reply: AgentReply, observation: Observation) -> Reply:
    """A reply in any form that `TaskEnv.step` takes, as it is read where the agent has observed this."""
    if isinstance(reply, Reply):
        return reply
    if isinstance(reply, str):
        return parse_observed_reply(reply, observation)
    if isinstance(reply, Mapping):
        if reply.get("role", "assistant") != "assistant":
            raise ValueError(f"the reply has the role {reply['role']!r}: give the agent's own message")
        if not reply.keys() & {"role", "content", "tool_calls"}:
            raise ValueError("this is no message of an agent: it has `content` or `tool_calls`; give calls in a list")
        words, calls = reply.get("content") or "", reply.get("tool_calls") or ()
        if not isinstance(words, str):
            raise ValueError("the reply's content is no text: join its parts")
        if not isinstance(calls, list | tuple):
            raise ValueError(f"the reply's tool_calls are no list, but {type(calls).__name__}")
        parsed = parse_observed_reply(words, observation)
        if not calls:
            return parsed
        # What the server read as calls counts; marks of calls that it left in the words do not count twice.
        said = words if parsed.malformed else parsed.message["content"]
        read = [_call_in_openai_form(call, at) for at, call in enumerate(calls)]
        return Reply({"role": "assistant", "content": said, "tool_calls": read})
    if isinstance(reply, list | tuple):
        read = [_call_in_openai_form(call, at) for at, call in enumerate(reply)]
        return Reply({"role": "assistant", "content": "", "tool_calls": read})
    raise ValueError(f"a reply is a text, a message or a list of calls, not {type(reply).__name__}")


def _call_in_openai_form(call: ToolCall | Mapping[str, Any], at: int) -> dict[str, Any]:
    """A call as a stored message has it, with an id to which the tool's result refers."""
    if isinstance(call, ToolCall):
        return tool_call(call.name, call.arguments, call.id or f"call_{at}")
    function = (call.get("function") or call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        raise ValueError(f"call {at + 1} of the reply has no `name`: a call is {{'name': ..., 'arguments': {{...}}}}")
    if unknown := sorted(function.keys() - {"name", "arguments", "id", "type", "index"}):
        raise ValueError(f"call {at + 1} of the reply has `{unknown[0]}`: what a tool is given stands in `arguments`")
    arguments = function.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call.get("id") or f"call_{at}", "type": "function", "function": {"name": name, "arguments": text}}


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Within a running event loop, as a notebook has one, it runs in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, work).result()
