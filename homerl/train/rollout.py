"""Rollouts: the policy plays many blueprints concurrently, with rewards at every step.

Invariants:
- The same blueprints, weights and seeds give the same rollouts.
- An episode that ends by a fault that is not the agent's is retried in a fresh world (a forked one from its fork). After
  the last retry it is marked, and does not count.
- A rollout always has a prompt and a completion; the completion may be masked.
- A blueprint's world is made once; its episodes are forks of it, since to fork is hundreds of times faster than to make.
- No episode waits for another, except that a forked one waits for its root.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import fsum
from typing import Any

from homerl.agents.policy import Engine, PolicyAgent, Sample, TokenLedger
from homerl.play.course import AT_ONCE, Behaviours
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import User, play, replies_from
from homerl.play.situation import Blueprint, Reply
from homerl.play.trajectory import Outcome, Trajectory
from homerl.play.utterance import Utterance
from homerl.train.credit.contract import CreditInput, Fork, ForkPlan
from homerl.train.waiting import EpisodeTimer, WaitTimes
from homerl.users.make import Users
from homerl.worlds.registry import begin, make_blueprint, told
from homerl.worlds.sources import AnyBlueprintSource
from rewards.composite import RewardWeights, step_rewards

RETRIES = 2
MakeUser = Callable[[int], User]
Start = Callable[[Episode], Awaitable[Episode]]  # where the rollouts of a blueprint begin
ForkPoint = tuple[Episode, PolicyAgent]


@dataclass(frozen=True)
class Rollout:
    """A played blueprint with its tokens, and its fork if it was forked. `trajectory.rewards` has each step's parts by
    name. The first `made` steps are the expert's (`prefixes`), which the policy only read. `cut` is the state in which it
    was left before its end.
    """

    trajectory: Trajectory
    ledger: TokenLedger
    fork: Fork | None = None
    made: int = 0
    cut: str | None = None

    @property
    def rewards(self) -> list[float]:
        """The reward r_t of every step."""
        return [sum(parts.values()) for parts in self.trajectory.rewards]

    @property
    def lengths(self) -> list[int]:
        """The number of tokens sampled in each step; 0 for steps of a prefix shared with another rollout."""
        return [0 if i < self.ledger.shared else end - start for i, (start, end) in enumerate(self.ledger.spans)]

    @property
    def credit_input(self) -> CreditInput:
        """What a credit mode needs to know of the rollout."""
        own = slice(self.made, None)
        decisions = [step.decision for step in self.trajectory.steps[own]]
        counts = self.trajectory.outcome.counts
        tokens = self.lengths[: len(self.trajectory.steps)][own]
        return CreditInput(self.rewards[own], counts, decisions, self.fork, self.cut, self.surprise[own], tokens)

    @property
    def surprise(self) -> list[float]:
        """The mean -log p of the tokens sampled in each step, in nats; 0 for steps that were not sampled here.

        Tokens whose log-probability the sampler could not tell (NaN) count as 0.
        """
        ledger, steps = self.ledger, len(self.trajectory.steps)
        spans = [(0, 0) if i < ledger.shared else span for i, span in enumerate(ledger.spans[:steps])]
        known = [[p for p in ledger.logprobs[start:end] if p == p] for start, end in spans]
        return [-fsum(logprobs) / max(1, len(logprobs)) for logprobs in known]


@dataclass(frozen=True)
class Player:
    """Plays blueprints with everything that a rollout needs. With `forks`, each `group` of blueprints is one forked
    blueprint.
    """

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
        """Play every blueprint once, all concurrently, each at its own pace."""
        return asyncio.run(self.play_all(blueprints, seeds))

    async def play_all(
        self, blueprints: Sequence[Blueprint], seeds: Sequence[int], start: Start | None = None
    ) -> list[Rollout]:
        """The same as `play`, inside an event loop. With `start`, the blueprints are one, and all begin where it says."""
        begun = self._openings(blueprints)
        if start is not None:
            begun = [await start(begun[0])] * len(begun)
        if self.forks is None:
            return list(await asyncio.gather(*map(self._one, begun, seeds)))
        starts = range(0, len(begun), self.group)
        groups = await asyncio.gather(*(self._tree(begun[i], seeds[i : i + self.group], self.forks) for i in starts))
        return [rollout for group in groups for rollout in group]

    def _openings(self, blueprints: Sequence[Blueprint]) -> list[Episode]:
        """An episode of each blueprint to fork; one and the same for blueprints that are one object."""
        turns, openings = EpisodeTimer(self.waiting), dict[int, Episode]()
        for blueprint in blueprints:
            if id(blueprint) not in openings:
                openings[id(blueprint)] = begin(blueprint, self.limits)
        turns.worked()
        return [openings[id(blueprint)] for blueprint in blueprints]

    def metrics(self) -> dict[str, float]:
        """What this process's users and engine report: requests and errors of users without a script so far (`user/...`),
        and the engine's own figures since the last call.
        """
        users = self.make_user.metrics() if isinstance(self.make_user, Users) else {}
        return {**users, **(self.engine.metrics() if hasattr(self.engine, "metrics") else {})}

    async def _tree(self, opening: Episode, seeds: Sequence[int], plan: ForkPlan) -> list[Rollout]:
        """Play the roots from the start and the siblings from their forks, which the plan draws before or chooses after. A
        sibling whose root took no step at the fork becomes a root.
        """
        rng = random.Random(f"forks {seeds[0]}")
        forks = list(plan.draw(len(seeds), rng))
        count = sum(fork is None for fork in forks)
        at = [None if plan.choose else {fork.step for fork in forks if fork and fork.parent == i} for i in range(count)]
        recorders = [*map(ForkRecorder, at)]
        roots = await asyncio.gather(*(self._one(opening, seeds[i], recorder=w) for i, w in enumerate(recorders)))
        if plan.choose:
            forks += plan.choose([root.credit_input for root in roots], len(seeds) - len(forks), rng)

        async def sibling(fork: Fork, seed: int) -> Rollout:
            if fork.steps == 0:
                return await self._empty(fork, opening, recorders) or roots[0]
            point = recorders[fork.parent].points.get(fork.step)
            if point is None or fork.step >= len(roots[fork.parent].trajectory.steps):  # a root may end as it is asked
                return await self._one(opening, seed)
            return replace(await self._one(opening, seeds[fork.parent], point, steps=fork.steps), fork=fork)

        rest = zip(forks[count:], seeds[count:], strict=True)
        return [*roots, *await asyncio.gather(*(sibling(fork, seed) for fork, seed in rest if fork))]

    async def _empty(self, fork: Fork, opening: Episode, recorders: Sequence[ForkRecorder]) -> Rollout | None:
        """A rollout that samples nothing, and asks no user; None if no root took a step, so that none counts."""
        point = next((recorder.points[0] for recorder in recorders if 0 in recorder.points), None)
        return None if point is None else replace(await self._one(opening, 0, point, steps=0), fork=fork)

    async def _one(
        self, opening: Episode, seed: int, point: ForkPoint | None = None, recorder: ForkRecorder | None = None,
        steps: int | None = None,
    ) -> Rollout:  # fmt: skip
        for attempt in range(RETRIES + 1):
            turns = EpisodeTimer(self.waiting)
            episode, agent = self._begin(opening, point, turns)
            if recorder:
                recorder.points.clear()
            user = TimedUser(self.make_user(seed + attempt), turns)
            trajectory = await play(episode, RecordedAgent(agent, recorder) if recorder else agent, user, seed, steps)
            turns.worked()
            if trajectory.outcome.counts:
                break
        agent.ledger.settle(self.tokenizer.eos_token_id)
        begin = time.perf_counter()
        made = len(opening.steps) if point is None else 0
        cut = episode.decision() if trajectory.outcome is Outcome.CUT else None
        rollout = Rollout(rewarded(trajectory, self.weights), agent.ledger, made=made, cut=cut)
        self.waiting.rewarding += time.perf_counter() - begin
        return rollout

    def _begin(self, opening: Episode, point: ForkPoint | None, turns: EpisodeTimer) -> ForkPoint:
        engine = TimedEngine(self.engine, turns)
        if point is not None:
            episode, agent = point
            return episode.fork(), agent.fork(engine)
        return opening.fork(), PolicyAgent(engine, self.tokenizer, self.max_tokens, len(opening.steps))


class ForkRecorder:
    """Records copies of a root's episode and agent before the given steps, or before every step (None)."""

    def __init__(self, at: Collection[int] | None) -> None:
        self.at, self.points = at, dict[int, ForkPoint]()

    def record(self, episode: Episode, agent: PolicyAgent) -> None:
        """Copy the episode and the agent, if the episode is at one of the steps."""
        if self.at is None or len(episode.steps) in self.at:
            self.points[len(episode.steps)] = episode.fork(), agent.fork(agent.engine)


@dataclass(frozen=True)
class RecordedAgent:
    """A policy agent whose episode is recorded for forks. The recorder gets the episode; the policy gets its observation
    only.
    """

    agent: PolicyAgent
    recorder: ForkRecorder
    name: str = PolicyAgent.name

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """Record the episode, then ask the policy."""
        self.recorder.record(episode, self.agent)
        return await replies_from(self.agent, episode, n)


@dataclass(frozen=True)
class TimedEngine:
    """An engine that counts the time for which one episode waits for it."""

    engine: Engine
    turns: EpisodeTimer

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample, and count the wait."""
        with self.turns.on("policy"):
            return await self.engine.sample(prompt)


@dataclass(frozen=True)
class TimedUser:
    """A user that counts the time for which one episode waits for it."""

    user: User
    turns: EpisodeTimer

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.user.name

    async def speak(self, episode: Episode) -> Utterance:
        """Let the user speak, and count the wait."""
        with self.turns.on("user"):
            return await self.user.speak(episode)


def rewarded(trajectory: Trajectory, weights: RewardWeights) -> Trajectory:
    """The trajectory with the rewards of every step, and with the weights that they were computed with."""
    rewards = tuple(step_rewards(step.facts, weights) for step in trajectory.steps)
    return replace(trajectory, rewards=rewards, weights=weights.model_dump(mode="json"))


def blueprint_of(recipe: AnyBlueprintSource, behaviours: Behaviours = AT_ONCE) -> Callable[[int], Blueprint]:
    """A cached function from a seed to its training blueprint. The rollouts of a group share one."""
    return lru_cache(maxsize=1024)(lambda seed: told(make_blueprint(recipe, "train", seed), behaviours, recipe))
