"""Forked rollouts: some begin within another of their group, with its world, its dialogue and its tokens so far.

Invariants: where a group forks is drawn before play, from its first seed; a forked rollout waits for its root and for nobody
else; what it shares with the root is in its prompt, and is trained on with the root alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from homerl.models.policy.policy import PolicyAgent
from homerl.play.episode import Episode
from homerl.play.loop import replies_from
from homerl.play.situation import Blueprint, Reply
from homerl.train.credit.contract import Fork, ForkPlan
from homerl.train.data.rollout import Opening, Player, Rollout


async def play_forked(player: Player, blueprint: Blueprint, seeds: Sequence[int], plan: ForkPlan) -> list[Rollout]:
    """A group of rollouts, one for each seed: the roots from the start, and the siblings from their forks of the roots.

    A sibling whose root took no step at the fork becomes a root.
    """
    (opening,) = player.openings([blueprint])
    forks = plan(len(seeds), random.Random(f"forks {seeds[0]}"))
    count = sum(fork is None for fork in forks)
    recorders = [Recorder({fork.step for fork in forks if fork and fork.parent == root}) for root in range(count)]
    roots = await asyncio.gather(*(player.play_one(opening, *pair) for pair in zip(seeds, recorders, strict=False)))

    async def sibling(fork: Fork, seed: int) -> Rollout:
        point = recorders[fork.parent].points.get(fork.step)
        if point is None or fork.step >= len(roots[fork.parent].trajectory.steps):  # a root may end as it is asked
            return await player.play_one(opening, seed)
        return replace(await player.play_one(point, seeds[fork.parent]), fork=fork)

    rest = zip(forks[count:], seeds[count:], strict=True)
    return [*roots, *await asyncio.gather(*(sibling(fork, seed) for fork, seed in rest if fork))]


@dataclass
class Recorder:
    """Keeps copies of a root's episode and agent before each of `steps`, as `points`. An attempt begins with a call, which
    forgets the copies of the attempt before.
    """

    steps: Collection[int]
    points: dict[int, Opening] = field(default_factory=dict)

    def __call__(self, agent: PolicyAgent) -> RecordedAgent:
        """The agent, recorded as it plays."""
        self.points.clear()
        return RecordedAgent(agent, self)


@dataclass(frozen=True)
class RecordedAgent:
    """A policy agent whose episode is recorded. The recorder gets the episode; the policy gets its observation only."""

    agent: PolicyAgent
    recorder: Recorder
    name: str = PolicyAgent.name

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """Record the episode if it is at one of the steps, then ask the policy."""
        if (step := len(episode.steps)) in self.recorder.steps:
            self.recorder.points[step] = Opening(episode.fork(), self.agent.fork(self.agent.engine))
        return await replies_from(self.agent, episode, n)
