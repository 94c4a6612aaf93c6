"""Stand-ins for a player and for ranks: rollouts whose rewards a table gives, and threads that gather."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from homerl.envs.core.world import StepFacts
from homerl.models.policy.policy_agent import TokenLedger
from homerl.play.trajectory import Outcome, Step, Trajectory
from homerl.train.data.rollout import Rollout
from homerl.train.data.rollout_batches import RankContext


def rollout(seed: int, reward: float, counts: bool = True) -> Rollout:
    """A rollout of one step of the blueprint that was asked for by `seed`, which has another seed, as SimuHome's have."""
    facts = StepFacts(turn=1, opens_turn=True, progress_before=0.0, progress_after=reward, last=True)
    step = Step({"role": "assistant", "content": "."}, (), facts, "state", "decision")
    outcome = Outcome.AGENT_FAILURE if counts else Outcome.USER_ERROR
    trajectory = Trajectory(
        {"seed": -1 - seed}, (), (), (step,), outcome, reward, True, "policy", "user", ({"progress": reward},)
    )
    return Rollout(trajectory, TokenLedger([1, 2], [0.0, -1.0], [0, 1], [-1, 0], [(1, 2)], 1))


class Episodes:
    """Stands for a player: rollouts earn what a table says of their blueprint and member.

    `slow` names blueprints whose groups end only when another has begun.
    """

    def __init__(self, rewards: Callable[[int, int], float], slow: Mapping[int, int] = {}) -> None:
        self.rewards, self.slow = rewards, slow
        self.asked: list[int] = []
        self.seeds: dict[int, list[int]] = {}
        self.played: list[tuple[int, ...]] = []  # blueprint and seeds of each group
        self.engine = SimpleNamespace(version=0)

    async def play_concurrently(self, blueprints: Sequence[int], seeds: Sequence[int], start: Any = None) -> list[Rollout]:
        seed = blueprints[0]
        self.asked.append(seed)
        self.seeds[seed] = list(seeds)
        self.played.append((seed, *seeds))
        while self.slow.get(seed, seed) not in self.asked:
            await asyncio.sleep(0)
        return [rollout(seed, self.rewards(seed, member)) for member in range(len(seeds))]


class Exchange:
    """Ranks as threads, and the gather between them."""

    def __init__(self, world: int) -> None:
        self.world, self.parts, self.barrier = world, {}, threading.Barrier(world)

    def rank(self, rank: int) -> RankContext:
        def gather(rows: list) -> list:
            self.parts[rank] = pickle.dumps(rows)
            self.barrier.wait(200)
            found = [row for i in range(self.world) for row in pickle.loads(self.parts[i])]
            self.barrier.wait(200)
            return found

        return RankContext(rank, self.world, gather)

    def all(self, work: Callable[[int], Any]) -> list:
        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(work, range(self.world)))
