"""Supplies the trainer with rollouts: for every update a batch of groups, played by all ranks together.

`RolloutSupply` plays groups and makes batches of them. `RolloutPrefetcher` decides when: in their own update, or ahead of it
beside the trainer. `GroupQueue` decides which groups an update takes, if some were begun ahead. Below, k is
`async_rollouts`, and `share` the number of groups that a rank trains on in an update.

Invariants:
- What is played, in which slot and with which seed, depends neither on the number of ranks nor on which group ends first.
- A group is played by one rank, from its first episode to its last. The ranks play as many groups each as divide, in the
  order of slots. A rollout whose slot another rank trains on is handed over when all have ended.
- A group of zero variance (the returns of those that count are equal) is replaced as soon as its last episode ends, by the
  next of the blueprints that it was drawn with, unless there is a teacher. A group that still has zero variance has
  advantage 0, so only a KL term or an entropy bonus trains on it.
- Every rank computes the same credit from gathered data, and the curriculum learns from all groups, the replaced ones too.
- With k = 0 a batch is played when it is asked for, in the calling thread. It is exactly on-policy.
- With k > 0 groups are played in one thread beside the trainer. A group is as old as the weights with which it began; groups
  that are running when the sampler receives new weights continue with these.
- A group that began with weights v is trained on in update v + k at the latest. Nothing is dropped, so long episodes are
  as frequent in training as in play.
- An update takes the oldest of the groups that have ended. It waits for a running group only if fewer than `share` have
  ended, or if the groups left could otherwise not all be trained on in time. It then begins as many others, with its own
  weights. This works out whenever at most k * `share` groups are left after an update: each of the next k updates takes
  `share` of them. With k = 1 nothing is left to choose.
- While an update is trained on, (k + 1) / 2 batches are played. k batches could be; fewer are younger on average, and
  leave the queue a choice (tests/benchmarks/stragglers.py has the figures).
- Collective operations stay in the trainer's thread: each rank plays, and takes, as many groups in every update.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from homerl.play.closings import FALSE_CLAIM, NOT_JUDGED
from homerl.play.ordered_async_work import begin_task_group
from homerl.play.situation import BlueprintProtocol
from homerl.rewards.composite import PARTS
from homerl.train.credit.contract import TOLERANCE, Group, list_credit_modes
from homerl.train.data.curriculum import Curriculum, GroupDraw, read_difficulties
from homerl.train.data.prefixes import VerifiedTrajectories, draw_group_prefix, index_verified_trajectories
from homerl.train.data.rollout import Rollout, RolloutPlayer, make_blueprint_cache
from homerl.train.data.stored_rollouts import read_group, write_group
from homerl.train.recipe import RLVERecipe, RLVESettings


@dataclass(frozen=True)
class RankContext:
    """The number of this rank, the number of ranks, and how they exchange data.

    `gather` takes this rank's list and returns the lists of all ranks as one list, in the order of ranks.
    """

    rank: int = 0
    world_size: int = 1
    gather: Callable[[list[Any]], list[Any]] = list

    def rank_share(self, count: int) -> range:
        """The part of this rank, out of `count` slots or groups in all. Where it does not divide, parts differ by one."""
        return range(self.rank * count // self.world_size, (self.rank + 1) * count // self.world_size)


@dataclass(frozen=True)
class PlayedGroup:
    """The rollouts of a group that has ended. `replaced` tells how often it was replaced, and `results` has the blueprint
    seed and the success of every rollout that counts, those of the replaced groups included.
    """

    draw: GroupDraw
    rollouts: list[Rollout]
    replaced: int = 0
    results: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class GroupReport:
    """What other ranks need of a played group: summaries of its rollouts, and the rollouts, by slot, that they train on."""

    number: int
    replaced: int
    results: tuple[tuple[int, bool], ...]
    rows: list[dict[str, Any]]
    moved: dict[int, Rollout]


@dataclass
class RolloutBatch:
    """The rollouts of an update: `rollouts` are this rank's, by slot; `rows` (summaries) and `advantages` are of all."""

    rollouts: dict[int, Rollout]
    rows: list[dict[str, Any]]
    advantages: list[list[float]] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    def own_rollouts(self) -> list[tuple[Rollout, Sequence[float]]]:
        """This rank's rollouts with their credit."""
        return [(rollout, self.advantages[slot]) for slot, rollout in sorted(self.rollouts.items())]


class RolloutSupply:
    """Plays the groups of a run, and makes batches of them."""

    def __init__(
        self,
        settings: RLVESettings,
        seed: int,
        player: RolloutPlayer,
        blueprint: Callable[[int], BlueprintProtocol],
        curriculum: Curriculum,
        ranks: RankContext,
        verified: VerifiedTrajectories | None = None,
        stored: Path | None = None,
    ) -> None:
        """`stored` is the folder of the run to which the rollouts are written with their tokens; None is nowhere."""
        self.settings, self.seed, self.player, self.blueprint = settings, seed, player, blueprint
        self.curriculum, self.ranks, self.verified, self.stored = curriculum, ranks, verified, stored
        self.digests: dict[int, str] = {}  # of this run's weights, by version, where rollouts are stored or were
        self.groups = settings.blueprints_per_update
        self.slots = self.groups * settings.group

    def draw_groups(self, count: Callable[[int], int] = int) -> list[GroupDraw]:
        """Draw groups for all ranks; return those that this rank plays.

        `count` tells how many a rank gets that trains on so many groups in an update. All ranks call it together.
        """
        shares = [
            len(RankContext(rank, self.ranks.world_size).rank_share(self.groups)) for rank in range(self.ranks.world_size)
        ]
        counts = [count(share) for share in shares]
        begin = sum(counts[: self.ranks.rank])  # all ranks draw the same groups, and each keeps its own part
        return self.curriculum.draw_groups(sum(counts))[begin : begin + counts[self.ranks.rank]]

    async def play_groups(self, draws: Iterable[GroupDraw], ended: Callable[[], None] = lambda: None) -> list[PlayedGroup]:
        """Play groups, all concurrently. `ended` is called after each."""

        async def play(draw: GroupDraw) -> PlayedGroup:
            group = await self.play_group(draw)
            ended()
            return group

        return list(await asyncio.gather(*map(play, draws)))

    async def play_group(self, draw: GroupDraw, begins: Callable[[], None] = lambda: None) -> PlayedGroup:
        """Play a group, and replace it while it has zero variance. `begins` is called before each."""
        results: list[tuple[int, bool]] = []
        begin_task_group()
        for replaced, seed in enumerate(draw.seeds):
            begins()
            rollouts = await self._play_blueprint(draw.number, seed, replaced)
            from_start = [played for played in rollouts if not played.prefix_steps]
            results += [(seed, r.trajectory.success) for r in from_start if r.credit_input.counts]
            # a teacher judges each token, so that rollouts of equal returns teach too
            if self.settings.distill or has_return_variance([rollout.credit_input for rollout in rollouts]):
                break
        return PlayedGroup(draw, rollouts, replaced, tuple(results))

    async def _play_blueprint(self, number: int, seed: int, replaced: int) -> list[Rollout]:
        """The rollouts of one blueprint, by its seed. Their own seeds follow from number and replacements."""
        update, first = number // self.groups, number % self.groups * self.settings.group
        slots, lap = range(first, first + self.settings.group), [replaced] if replaced else []
        seeds = [hash_seed(self.seed, update, slot, *lap) for slot in slots]
        of, groups = self.settings.curriculum.prefix, self.groups * self.settings.updates
        start = draw_group_prefix(of, self.seed, number, groups, self.verified)
        blueprint = self.blueprint(seed)
        if self.settings.from_rollouts:
            run, weights = Path(self.settings.from_rollouts), self.player.weights
            return read_group(run, number, replaced, blueprint, seeds, weights, self.digests)
        rollouts = await self.player.play_concurrently([blueprint] * self.settings.group, seeds, start)
        if self.stored is not None:
            write_group(self.stored, number, replaced, rollouts, self.digests)
        return rollouts

    def finish_batch(self, played: Sequence[PlayedGroup]) -> RolloutBatch:
        """Exchange the groups that all ranks have played for an update, and assign credit. All ranks call it together."""
        size, mine = self.settings.group, self.ranks.rank_share(self.slots)
        own: dict[int, Rollout] = {}  # by slot; a slot is a place among the rollouts of all ranks
        reports = []
        for place, group in zip(self.ranks.rank_share(self.groups), played, strict=True):
            by_slot = dict(enumerate(group.rollouts, place * size))  # slots follow the order of ranks and groups
            own |= {slot: rollout for slot, rollout in by_slot.items() if slot in mine}
            moved = {slot: rollout for slot, rollout in by_slot.items() if slot not in mine}
            seed = group.draw.seeds[group.replaced]  # that was asked for; a blueprint's own may be another
            rows = [summarise_rollout(rollout, seed) for rollout in group.rollouts]
            reports.append(GroupReport(group.draw.number, group.replaced, group.results, rows, moved))
        # the one exchange: summaries of all rollouts, and the rollouts themselves where another rank trains on them
        reports = self.ranks.gather(reports)
        for report in reports:
            own |= {slot: rollout for slot, rollout in report.moved.items() if slot in mine}

        self.curriculum.mark_trained({report.number: report.replaced for report in reports})
        self.curriculum.update_success_rates(result for report in reports for result in report.results)

        batch = RolloutBatch(own, [row for report in reports for row in report.rows])
        played_rows = [row["played"] for row in batch.rows]
        groups = [played_rows[first : first + size] for first in range(0, self.slots, size)]
        credit = [steps for group in groups for steps in credit_group(group, self.settings)]
        batch.advantages = [[0.0] * row["prefix_steps"] + steps for row, steps in zip(batch.rows, credit, strict=True)]
        left = [not has_return_variance(group) for group in groups]  # of zero variance, after the last replacement
        first = [report.replaced > 0 or still for report, still in zip(reports, left, strict=True)]
        batch.metrics = {
            "curriculum/zero_variance": sum(first) / self.groups,
            "curriculum/left_zero_variance": sum(left) / self.groups,
            "curriculum/prefixed": sum(row["prefix_steps"] > 0 for row in batch.rows) / self.slots,
            **self.curriculum.curriculum_metrics(),
            **list_credit_modes()[self.settings.credit].metrics(groups, self.settings),
        }
        return batch


def make_rollout_supply(recipe: RLVERecipe, player: RolloutPlayer, ranks: RankContext) -> RolloutSupply:
    """The supply of a run. It stores rollouts with their tokens if the recipe says so."""
    settings, source, order = recipe.rlve, recipe.blueprints, recipe.rlve.curriculum
    blueprint = make_blueprint_cache(source.recipe, recipe.user.behaviours)
    curriculum = Curriculum(order, source, recipe.seed, read_difficulties(order, source))
    verified = index_verified_trajectories(order.prefix, source, blueprint)
    stored = recipe.out if settings.store_tokens or settings.play_only else None
    return RolloutSupply(settings, recipe.seed, player, blueprint, curriculum, ranks, verified, stored)


def credit_group(group: Group, settings: RLVESettings) -> list[list[float]]:
    """The advantage of every step, by the rule of the recipe's credit mode.

    A rollout that does not count (a fault of the user or a server) gets zeros, and the others are compared without it. A
    group of zero variance gets zeros from every mode.
    """
    if not has_return_variance(group):
        return [[0.0] * len(played.rewards) for played in group]
    counted = [played for played in group if played.counts]
    credit = iter(list_credit_modes()[settings.credit].rule(counted, settings))
    return [next(credit) if played.counts else [0.0] * len(played.rewards) for played in group]


def has_return_variance(group: Group) -> bool:
    """Whether the returns of a group's rollouts that count vary, so that there is something to compare.

    Equal rollouts whose later steps have smaller returns-to-go differ in nothing, whatever the mode compares.
    """
    returns = [sum(played.rewards) for played in group if played.counts]
    return any(abs(value - returns[0]) > TOLERANCE for value in returns)


def hash_seed(*parts: int) -> int:
    """A 63-bit seed from integers. It is the same in every process."""
    # Python's own `hash` may change with its version, and a resumed run must sample the same
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big") >> 1


def summarise_rollout(rollout: Rollout, seed: int) -> dict[str, Any]:
    """What other ranks need to know of a rollout, as plain data. `seed` is that by which its blueprint was asked for."""
    trajectory = rollout.trajectory
    return {
        "played": rollout.credit_input,
        "prefix_steps": rollout.prefix_steps,
        "seed": seed,
        "success": trajectory.success,
        "progress": trajectory.progress,
        "parts": [dict(parts) for parts in trajectory.rewards],
        "lengths": rollout.sampled_lengths[: len(trajectory.steps)],
        "trained": rollout.trained_lengths[: len(trajectory.steps)],
        "samples": sum(len(ledger.spans) - ledger.shared for ledger in rollout.ledgers),
        "truncated_samples": sum(len(ledger.truncated) for ledger in rollout.ledgers),
        "thoughts": sum(ledger.thoughts for ledger in rollout.ledgers),
        "outcome": str(trajectory.outcome),
        "fault": str(trajectory.fault.boundary) if trajectory.fault else None,
        "turns": trajectory.steps[-1].facts.turn if trajectory.steps else 0,
        "tool_calls": trajectory.tool_calls,
        "closing_flaws": [step.facts.closing_flaw for step in trajectory.steps[rollout.prefix_steps :]],
    }


def world_metrics(rows: Sequence[Mapping[str, Any]], source: Any) -> dict[str, float]:
    """Success and progress by part of a mixture of worlds, named `world/PART/...`; nothing of another source."""
    if not hasattr(source, "part_of"):
        return {}
    by_part: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_part[source.part_of(row["seed"])].append(row)
    return {
        f"world/{name}/{figure}": sum(row[figure] for row in found) / len(found)
        for name, found in sorted(by_part.items())
        for figure in ("success", "progress")
    }


def reward_metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the policy's own steps earned a rollout, in all (`reward`) and by part (`rewards/PART/...`): the mean and the
    sample deviation; how many tokens it sampled; and the share of its samples that were truncated at `max_tokens`.
    """
    earned = {name: [fsum(parts[name] for parts in row["parts"][row["prefix_steps"] :]) for row in rows] for name in PARTS}
    lengths = [sum(row["lengths"]) for row in rows]
    metrics = {"completions/mean_length": fmean(lengths)}
    metrics |= {"completions/min_length": min(lengths), "completions/max_length": max(lengths)}
    samples = max(1, sum(row["samples"] for row in rows))
    metrics["completions/clipped_ratio"] = sum(row["truncated_samples"] for row in rows) / samples
    for name, values in earned.items():
        metrics |= {f"rewards/{name}/mean": fmean(values), f"rewards/{name}/std": stdev(values)}
    totals = [fsum(values) for values in zip(*earned.values(), strict=True)]
    return metrics | {"reward": fmean(totals), "reward_std": stdev(totals)}


def episode_metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Success, outcomes, faults by boundary, lengths, and each reward part by step index, from rollout summaries; and the
    shares of rollouts with a false claim, and with a closing that the rules of language do not judge.

    What an expert earned before the policy's first step does not count.
    """
    n, thoughts = len(rows), sum(row["thoughts"] for row in rows)
    sampled = sum(sum(row["lengths"]) for row in rows)  # 0 if the world fails after every first sample
    outcomes: dict[str, int] = defaultdict(int)
    faults = Counter(row["fault"] for row in rows if row["fault"])
    by_step: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        outcomes[row["outcome"]] += 1
        for index, parts in enumerate(row["parts"][row["prefix_steps"] :], row["prefix_steps"]):
            for name, value in parts.items():
                by_step[name, index].append(value)
    return {
        "success": outcomes["success"] / n,
        "episode/progress": sum(row["progress"] for row in rows) / n,
        "episode/turns": sum(row["turns"] for row in rows) / n,
        "episode/steps": sum(len(row["parts"]) for row in rows) / n,
        "episode/tool_calls": sum(row["tool_calls"] for row in rows) / n,
        "episode/sampled_tokens": sampled / n,
        **({"policy/thoughts": thoughts / sampled} if thoughts and sampled else {}),
        "closings/false_claims": sum(FALSE_CLAIM in row["closing_flaws"] for row in rows) / n,
        "closings/not_judged": sum(any(flaw in NOT_JUDGED for flaw in row["closing_flaws"]) for row in rows) / n,
        **{f"outcome/{name}": count / n for name, count in sorted(outcomes.items())},
        **{f"fault/{name}": count / n for name, count in sorted(faults.items())},
        **{f"reward_by_step/{name}/{i}": sum(v) / len(v) for (name, i), v in sorted(by_step.items())},
    }


class GroupQueue:
    """Groups by number, which any thread may mark as begun and as ended. `take_groups` waits for those of an update."""

    def __init__(self, share: int, k: int) -> None:
        self.share, self.k = share, k
        self.begun: dict[int, int] = {}
        self.ended: dict[int, PlayedGroup] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def mark_begun(self, number: int, version: int) -> None:
        """A group begins with weights of a version. A group that is replaced begins anew."""
        with self._changed:
            self.begun[number] = version
            self._changed.notify_all()

    def mark_ended(self, group: PlayedGroup) -> None:
        """A group has ended."""
        with self._changed:
            self.ended[group.draw.number] = group
            self._changed.notify_all()

    def fail_with(self, error: BaseException) -> None:
        """Make `take_groups` raise an error."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def take_groups(self, update: int) -> list[PlayedGroup]:
        """Wait for the groups of an update; return them by number. Raises what `fail_with` was given."""
        with self._changed:
            while len(chosen := self.choose_groups(update) or []) < self.share and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            for number in chosen:
                del self.begun[number]
            return [self.ended.pop(number) for number in sorted(chosen)]

    def choose_groups(self, update: int) -> list[int] | None:
        """The groups that an update takes, if it need not wait."""
        # the oldest come first. Of the others, no more may fall due by any later update than the updates until then can take
        chosen = sorted(self.ended, key=lambda number: (self.begun[number], number))[: self.share]
        last = [version + self.k for number, version in self.begun.items() if number not in chosen]
        in_time = all(
            sum(due <= later for due in last) <= self.share * (later - update) for later in range(update, update + self.k)
        )
        return chosen if in_time and len(chosen) == self.share else None


Run = Callable[[Coroutine[Any, Any, Any]], Any]


class RolloutPrefetcher:
    """Hands out the batches of updates, whose groups it begins up to `k` updates ahead.

    `updates` is the number of updates in the run: no group is drawn that none of them would take.
    """

    def __init__(self, supply: RolloutSupply, k: int, updates: int) -> None:
        self.supply, self.k, self.updates = supply, k, updates
        self.run: Run
        if not k:
            self.run = asyncio.Runner().run  # the loop is kept, so that connections survive from call to call
        else:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="rollouts", daemon=True).start()
            self.begin = partial(asyncio.run_coroutine_threadsafe, loop=loop)
            self.run = lambda coroutine: self.begin(coroutine).result()
        self.queue = GroupQueue(len(supply.ranks.rank_share(supply.groups)), k)
        self.first: int | None = None  # the update with which this process began

    def take_batch(self, update: int, sync: Callable[[], None]) -> RolloutBatch:
        """Return the batch of an update, played and credited.

        `sync` sends this update's weights to the sampler. Groups that were begun earlier are waited for before it.
        """
        # all ranks wait before the sync, and draw after it: so a group that this update begins plays with its weights
        early = self.queue.take_groups(update) if self.k and self.first is not None else None
        sync()
        self.first = first = update if self.first is None else self.first

        def begun(updates: int, share: int) -> int:
            """The number of groups that a rank of this share has begun when so many updates have been trained on."""
            return min((self.updates - first) * share, updates * share + count_groups_ahead(share, self.k)) if updates else 0

        draws = self.supply.draw_groups(lambda share: begun(update + 1 - first, share) - begun(update - first, share))
        if not self.k:
            return self.supply.finish_batch(self.run(self.supply.play_groups(draws)))
        for draw in draws:
            self.begin(self._play_ahead(draw))
        return self.supply.finish_batch(early or self.queue.take_groups(update))

    async def _play_ahead(self, draw: GroupDraw) -> None:
        """Play a group beside the trainer, and put it into the queue."""
        engine = self.supply.player.engine
        try:
            group = await self.supply.play_group(draw, lambda: self.queue.mark_begun(draw.number, engine.version))
            self.queue.mark_ended(group)
        except BaseException as error:  # the trainer's thread, which waits for the group, raises it
            self.queue.fail_with(error)


def count_groups_ahead(share: int, k: int) -> int:
    """The number of groups that a rank plays while it trains, if it trains on `share` groups in an update."""
    return -(-share * (k + 1) // 2) if k else 0
