"""Supplies the trainer with rollouts: for every update a batch of groups, played by all ranks together.

Invariants:
- What is played, in which slot and with which seed, does not depend on the number of ranks. Groups are formed over all
  ranks.
- Every rank computes the same credit and takes the same decisions, from gathered data.
- A group without signal (returns do not vary, or a rollout does not count) is replaced by a group of another blueprint,
  at most `refill` times. A group that is still without signal has advantage 0, so it is not trained on.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from homerl.play.situation import Blueprint
from homerl.train.credit.registry import assign, last_step_only, mode_of, rule_of
from homerl.train.curriculum import Curriculum
from homerl.train.recipe import RLVESettings
from homerl.train.rollout import Player, Rollout
from homerl.train.sentinel import NOTHING


@dataclass(frozen=True)
class RankContext:
    """The number of this rank, the number of ranks, and how they exchange data.

    `gather` takes this rank's list and returns the lists of all ranks as one list, in the order of ranks.
    """

    rank: int = 0
    world: int = 1
    gather: Callable[[list[Any]], list[Any]] = list

    def mine(self, slots: int) -> range:
        """The slots of this rank, out of `slots` in all."""
        size = slots // self.world
        return range(self.rank * size, (self.rank + 1) * size)


@dataclass
class Batch:
    """The rollouts of an update: `rollouts` are this rank's, by slot; `rows` (summaries) and `credit` are of all slots."""

    rollouts: dict[int, Rollout]
    rows: list[dict[str, Any]]
    credit: list[list[float]] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)

    def mine(self) -> list[tuple[Rollout, Sequence[float]]]:
        """This rank's rollouts with their credit."""
        return [(rollout, self.credit[slot]) for slot, rollout in sorted(self.rollouts.items())]


class Supply:
    """Plays the batches of a run and assigns their credit."""

    def __init__(
        self, settings: RLVESettings, seed: int, player: Player, blueprint: Callable[[int], Blueprint],
        curriculum: Curriculum, ranks: RankContext,
    ) -> None:  # fmt: skip
        self.settings, self.seed, self.player, self.blueprint = settings, seed, player, blueprint
        self.curriculum, self.ranks = curriculum, ranks
        self.slots = settings.blueprints_per_update * settings.group

    def draw(self) -> list[int]:
        """The blueprint seed of each group of the next batch."""
        return self.curriculum.draw(self.settings.blueprints_per_update)

    async def play(self, update: int, drawn: Sequence[int]) -> dict[int, Rollout]:
        """Play this rank's part of a batch; return rollouts by slot."""
        return await self._play(update, drawn, self.ranks.mine(self.slots), 0)

    async def _play(self, update: int, drawn: Sequence[int], slots: Sequence[int], lap: int) -> dict[int, Rollout]:
        blueprints = [self.blueprint(drawn[slot // self.settings.group]) for slot in slots]
        seeds = [hash_seed(self.seed, update, slot, *([lap] if lap else [])) for slot in slots]
        return dict(zip(slots, await self.player.play_all(blueprints, seeds), strict=True))

    def finish(self, update: int, drawn: list[int], rollouts: dict[int, Rollout], run: Callable[[Any], Any]) -> Batch:
        """Gather a played batch, refill groups without signal, and assign credit. `run` runs a coroutine."""
        drawn = drawn.copy()
        batch = self._gathered(rollouts)
        first = flat = self._flat(batch)
        self.curriculum.train()
        for lap in range(1, self.settings.curriculum.refill + 1):
            if not flat:
                break
            for group, seed in zip(flat, self.curriculum.more(len(flat)), strict=True):
                drawn[group] = seed
            again = [slot for slot in self.ranks.mine(self.slots) if slot // self.settings.group in flat]
            batch = self._gathered(rollouts | run(self._play(update, drawn, again, lap)))
            rollouts, flat = batch.rollouts, self._flat(batch)
        self.curriculum.learn((row["seed"], row["success"]) for row in batch.rows if row["played"].counts)
        groups = self.settings.blueprints_per_update
        batch.shares = {
            "curriculum/flat": len(first) / groups, "curriculum/left_flat": len(flat) / groups,
            **self.curriculum.metrics(), **self._of_mode(batch),
        }  # fmt: skip
        return batch

    def _gathered(self, rollouts: dict[int, Rollout]) -> Batch:
        rows = self.ranks.gather([rollout_summary(rollout) for _, rollout in sorted(rollouts.items())])
        credit = assign([row["played"] for row in rows], self.settings.group, rule_of(self.settings))
        return Batch(rollouts, rows, last_step_only(credit) if self.settings.last_step_only else credit)

    def _flat(self, batch: Batch) -> list[int]:
        """The groups in which every step has advantage 0."""
        size = self.settings.group
        starts = range(0, self.slots, size)
        return [i // size for i in starts if not any(abs(a) > NOTHING for row in batch.credit[i : i + size] for a in row)]

    def _of_mode(self, batch: Batch) -> Mapping[str, float]:
        """The metrics of the recipe's credit mode."""
        played, size = [row["played"] for row in batch.rows], self.settings.group
        groups = [played[i : i + size] for i in range(0, self.slots, size)]
        return mode_of(self.settings).metrics(groups, self.settings)


def hash_seed(*parts: int) -> int:
    """A 63-bit seed from integers. It is the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big") >> 1


def rollout_summary(rollout: Rollout) -> dict[str, Any]:
    """What other ranks need to know of a rollout, as plain data."""
    trajectory = rollout.trajectory
    return {
        "played": rollout.credit_input,
        "seed": trajectory.blueprint["seed"],
        "success": trajectory.success,
        "parts": [dict(parts) for parts in trajectory.rewards],
        "lengths": rollout.lengths[: len(trajectory.steps)],
        "outcome": str(trajectory.outcome),
        "fault": str(trajectory.fault.boundary) if trajectory.fault else None,
        "turns": trajectory.steps[-1].facts.turn if trajectory.steps else 0,
        "tool_calls": trajectory.tool_calls,
    }


def episode_metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Success, outcomes, faults by boundary, lengths, and each reward part by step index, from rollout summaries."""
    n = len(rows)
    outcomes: dict[str, int] = defaultdict(int)
    faults = Counter(row["fault"] for row in rows if row["fault"])
    by_step: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        outcomes[row["outcome"]] += 1
        for index, parts in enumerate(row["parts"]):
            for name, value in parts.items():
                by_step[name, index].append(value)
    return {
        "success": outcomes["success"] / n,
        "episode/turns": sum(row["turns"] for row in rows) / n,
        "episode/steps": sum(len(row["parts"]) for row in rows) / n,
        "episode/tool_calls": sum(row["tool_calls"] for row in rows) / n,
        "episode/sampled_tokens": sum(sum(row["lengths"]) for row in rows) / n,
        **{f"outcome/{name}": count / n for name, count in sorted(outcomes.items())},
        **{f"fault/{name}": count / n for name, count in sorted(faults.items())},
        **{f"reward_by_step/{name}/{i}": sum(v) / len(v) for (name, i), v in sorted(by_step.items())},
    }
