"""Rollouts: the policy plays blueprints, many at a time, with rewards by step.

Invariants: the same blueprints, weights and seeds give the same rollouts; a fault that is not the agent's is
retried in a fresh world (a sibling's, in a fresh fork), then marked; a rollout always has a prompt and a completion,
if a masked one; no episode waits for another one, but for the root that it is forked from.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from homerl.agents.policy import Engine, PolicyAgent, Sample, TokenLedger
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import User, play, replies_from
from homerl.play.situation import Blueprint, Reply
from homerl.play.trajectory import Trajectory
from homerl.play.utterance import Utterance
from homerl.train.credit.contract import CreditInput, Fork, ForkPlan
from homerl.train.waiting import EpisodeTimer, WaitTimes
from homerl.users.make import Users
from homerl.worlds.registry import begin, make_blueprint
from homerl.worlds.sources import AnyBlueprintSource
from rewards.composite import RewardWeights, step_rewards

RETRIES = 2
MakeUser = Callable[[int], User]
ForkPoint = tuple[Episode, PolicyAgent]


@dataclass(frozen=True)
class Rollout:
    """A played blueprint with its tokens, and where it was forked from, if it was; `trajectory.rewards` holds each
    step's parts by name."""

    trajectory: Trajectory
    ledger: TokenLedger
    fork: Fork | None = None

    @property
    def rewards(self) -> list[float]:
        """r_t for every step."""
        return [sum(parts.values()) for parts in self.trajectory.rewards]

    @property
    def lengths(self) -> list[int]:
        """Sampled tokens by step; none where a prefix is another rollout's."""
        return [0 if i < self.ledger.shared else end - start for i, (start, end) in enumerate(self.ledger.spans)]

    @property
    def credit_input(self) -> CreditInput:
        """What credit has to know."""
        decisions = [step.decision for step in self.trajectory.steps]
        return CreditInput(self.rewards, self.trajectory.outcome.counts, decisions, self.fork)


@dataclass(frozen=True)
class Player:
    """All that a rollout needs besides its blueprint. With `forks`, every `group` blueprints are one, and forked."""

    engine: Engine
    tokenizer: Any
    make_user: MakeUser
    limits: EpisodeLimits
    weights: RewardWeights
    max_tokens: int
    forks: ForkPlan | None = None
    group: int = 1
    waiting: WaitTimes = field(default_factory=WaitTimes)

    def play(self, blueprints: Sequence[Blueprint], seeds: Sequence[int]) -> list[Rollout]:
        """Play every blueprint once, all at the same time, each at its own pace."""
        return asyncio.run(self.play_all(blueprints, seeds))

    async def play_all(self, blueprints: Sequence[Blueprint], seeds: Sequence[int]) -> list[Rollout]:
        """The same inside an event loop."""
        if self.forks is None:
            return list(await asyncio.gather(*map(self._one, blueprints, seeds)))
        starts = range(0, len(blueprints), self.group)
        groups = await asyncio.gather(*(self._tree(blueprints[i], seeds[i : i + self.group], self.forks) for i in starts))
        return [rollout for group in groups for rollout in group]

    def user_metrics(self) -> dict[str, float]:
        """What this process's users have asked of their endpoint so far, and how they erred."""
        return self.make_user.metrics() if isinstance(self.make_user, Users) else {}

    async def _tree(self, blueprint: Blueprint, seeds: Sequence[int], plan: ForkPlan) -> list[Rollout]:
        """Roots from the start and siblings from their forks; a fork that its root never reached becomes a root."""
        forks = plan(len(seeds), random.Random(f"forks {seeds[0]}"))
        count = sum(fork is None for fork in forks)
        recorders = [ForkRecorder({fork.step for fork in forks if fork and fork.parent == i}) for i in range(count)]
        roots = await asyncio.gather(*(self._one(blueprint, seeds[i], recorder=w) for i, w in enumerate(recorders)))

        async def sibling(fork: Fork, seed: int) -> Rollout:
            point = recorders[fork.parent].points.get(fork.step)
            if point is None:
                return await self._one(blueprint, seed)
            return replace(await self._one(blueprint, seeds[fork.parent], point), fork=fork)

        rest = zip(forks[count:], seeds[count:], strict=True)
        return [*roots, *await asyncio.gather(*(sibling(fork, seed) for fork, seed in rest if fork))]

    async def _one(
        self, blueprint: Blueprint, seed: int, point: ForkPoint | None = None, recorder: ForkRecorder | None = None
    ) -> Rollout:
        for attempt in range(RETRIES + 1):
            turns = EpisodeTimer(self.waiting)
            episode, agent = self._begin(blueprint, point, turns)
            if recorder:
                recorder.points.clear()
            user = TimedUser(self.make_user(seed + attempt), turns)
            trajectory = await play(episode, RecordedAgent(agent, recorder) if recorder else agent, user, seed)
            turns.worked()
            if trajectory.outcome.counts:
                break
        agent.ledger.settle(self.tokenizer.eos_token_id)
        begin = time.perf_counter()
        rollout = Rollout(rewarded(trajectory, self.weights), agent.ledger)
        self.waiting.rewarding += time.perf_counter() - begin
        return rollout

    def _begin(self, blueprint: Blueprint, point: ForkPoint | None, turns: EpisodeTimer) -> ForkPoint:
        engine = TimedEngine(self.engine, turns)
        if point is not None:
            episode, agent = point
            return episode.fork(), agent.fork(engine)
        return begin(blueprint, self.limits), PolicyAgent(engine, self.tokenizer, self.max_tokens)


class ForkRecorder:
    """Keeps a root's state before the steps named: the episode, and the agent that plays it."""

    def __init__(self, at: Collection[int]) -> None:
        self.at, self.points = at, dict[int, ForkPoint]()

    def record(self, episode: Episode, agent: PolicyAgent) -> None:
        if len(episode.steps) in self.at:
            self.points[len(episode.steps)] = episode.fork(), agent.fork(agent.engine)


@dataclass(frozen=True)
class RecordedAgent:
    """A policy agent that is witnessed: the episode is the recorder's to fork, the policy has its observation."""

    agent: PolicyAgent
    recorder: ForkRecorder
    name: str = PolicyAgent.name

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        self.recorder.record(episode, self.agent)
        return await replies_from(self.agent, episode, n)


@dataclass(frozen=True)
class TimedEngine:
    """An engine as one episode waits for it."""

    engine: Engine
    turns: EpisodeTimer

    async def sample(self, prompt: Sequence[int]) -> Sample:
        with self.turns.on("policy"):
            return await self.engine.sample(prompt)


@dataclass(frozen=True)
class TimedUser:
    """A user as one episode waits for it."""

    user: User
    turns: EpisodeTimer

    @property
    def name(self) -> str:
        return self.user.name

    async def speak(self, episode: Episode) -> Utterance:
        with self.turns.on("user"):
            return await self.user.speak(episode)


def rewarded(trajectory: Trajectory, weights: RewardWeights) -> Trajectory:
    """The trajectory with the rewards of every step, and the weights that gave them."""
    rewards = tuple(step_rewards(step.facts, weights) for step in trajectory.steps)
    return replace(trajectory, rewards=rewards, weights=weights.model_dump(mode="json"))


def blueprint_of(recipe: AnyBlueprintSource) -> Callable[[int], Blueprint]:
    """seed -> its training blueprint, remembered, since a group's members share one."""
    return lru_cache(maxsize=1024)(lambda seed: make_blueprint(recipe, "train", seed))
