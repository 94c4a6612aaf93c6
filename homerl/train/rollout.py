"""Rollouts: the policy plays blueprints, many at a time, with rewards by step.

Invariants: the same blueprints, weights and seeds give the same rollouts; a fault that is not the agent's is
retried in a fresh world, then marked; a rollout always has a prompt and a completion, if a masked one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from homerl.agents.policy import Engine, PolicyAgent, TokenLedger
from homerl.episode import Episode, EpisodeLimits
from homerl.play import User, play
from homerl.trajectory import Trajectory
from homerl.users.make import Users
from homerl.worlds import AnyBlueprint, AnyBlueprintRecipe, make_blueprint
from rewards.composite import RewardWeights, step_rewards

RETRIES = 2
MakeUser = Callable[[int], User]


@dataclass(frozen=True)
class Rollout:
    """A played blueprint with its tokens; `rewards` holds each step's parts by name."""

    trajectory: Trajectory
    ledger: TokenLedger

    @property
    def rewards(self) -> list[float]:
        """r_t for every step."""
        return [sum(parts.values()) for parts in self.trajectory.rewards]


@dataclass(frozen=True)
class Player:
    """All that a rollout needs besides its blueprint."""

    engine: Engine
    tokenizer: Any
    make_user: MakeUser
    limits: EpisodeLimits
    weights: RewardWeights
    max_tokens: int

    def play(self, blueprints: Sequence[AnyBlueprint], seeds: Sequence[int]) -> list[Rollout]:
        """Play every blueprint once, all at the same time, each at its own pace."""

        async def all_of_them() -> list[Rollout]:
            return list(await asyncio.gather(*map(self._one, blueprints, seeds)))

        return asyncio.run(all_of_them())

    def user_metrics(self) -> dict[str, float]:
        """What this process's users have asked of their endpoint so far, and how they erred."""
        return self.make_user.metrics() if isinstance(self.make_user, Users) else {}

    async def _one(self, blueprint: AnyBlueprint, seed: int) -> Rollout:
        for attempt in range(RETRIES + 1):
            agent = PolicyAgent(self.engine, self.tokenizer, self.max_tokens)
            user = self.make_user(seed + attempt)
            trajectory = await play(Episode.begin(blueprint, self.limits), agent, user, seed)
            if trajectory.outcome.counts:
                break
        agent.ledger.settle(self.tokenizer.eos_token_id)
        return Rollout(rewarded(trajectory, self.weights), agent.ledger)


def rewarded(trajectory: Trajectory, weights: RewardWeights) -> Trajectory:
    """The trajectory with the rewards of every step, and the weights that gave them."""
    rewards = tuple(step_rewards(step.facts, weights) for step in trajectory.steps)
    return replace(trajectory, rewards=rewards, weights=vars(weights))


def blueprint_of(recipe: AnyBlueprintRecipe) -> Callable[[int], AnyBlueprint]:
    """seed -> its training blueprint, remembered, since a group's members share one."""
    return lru_cache(maxsize=1024)(lambda seed: make_blueprint(recipe, "train", seed))
