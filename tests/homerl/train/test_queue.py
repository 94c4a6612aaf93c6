"""Rollouts ahead of the trainer: which groups an update takes, for whom it waits, and that none is too old or lost."""

import asyncio
import json
import threading
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_rollouts import Episodes, Exchange

from homerl.train.data.curriculum import Curriculum, GroupDraw
from homerl.train.data.rollout_batches import (
    GroupQueue,
    PlayedGroup,
    RankContext,
    RolloutPrefetcher,
    RolloutSupply,
    count_groups_ahead,
)
from homerl.train.recipe import BlueprintSource, CurriculumSettings, RLVESettings

SOURCE = BlueprintSource(count=10, first_seed=100)


def begin_all(queue: GroupQueue, numbers: Iterable[int], version: int) -> None:
    for number in numbers:
        queue.mark_begun(number, version)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.data())
def test_no_group_is_trained_on_too_late_and_none_is_lost(share, k, most, data):
    """Groups end in any order, at any time, and may be replaced. When all have ended, no update waits."""
    queue, ahead = GroupQueue(share, k), k * share if most else count_groups_ahead(share, k)
    running, drawn = set(range(share + ahead)), share + ahead
    begin_all(queue, running, 0)
    taken: list[int] = []
    for update in range(12):
        version = max(0, update - 1)
        while (chosen := queue.choose_groups(update)) is None:
            number = data.draw(st.sampled_from(sorted(running)))
            if data.draw(st.booleans()):
                queue.mark_begun(number, version)  # replaced
            queue.mark_ended(PlayedGroup(GroupDraw(number, (0,)), []))
            running.remove(number)
        ages = [update - queue.begun[number] for number in chosen]
        passed_over = [update - queue.begun[number] for number in queue.ended if number not in chosen]
        assert len(chosen) == share and max(ages) <= k and max(passed_over, default=0) <= min(ages)
        taken += [group.draw.number for group in queue.take_groups(update)]
        if update:
            begin_all(queue, range(drawn, drawn + share), update)
            running |= set(range(drawn, drawn + share))
            drawn += share
    assert len(taken) == len(set(taken)) and set(taken) | queue.begun.keys() == set(range(drawn))


def test_a_slow_group_is_waited_for_only_when_it_is_due():
    """k = 3: four groups ahead, two an update. Group 0 began with weights 0, so update 3 is its last."""
    queue = GroupQueue(share=2, k=3)
    begin_all(queue, range(6), 0)
    taken = []
    for update in range(3):
        for number in {0: (1, 2), 1: (3, 4), 2: (5, 6)}[update]:
            queue.mark_ended(PlayedGroup(GroupDraw(number, (0,)), []))
        taken += [group.draw.number for group in queue.take_groups(update)]
        begin_all(queue, {0: (), 1: (6, 7), 2: (8, 9)}[update], update)
    assert taken == [1, 2, 3, 4, 5, 6]
    for number in (7, 8, 9):
        queue.mark_ended(PlayedGroup(GroupDraw(number, (0,)), []))
    assert queue.choose_groups(3) is None, "three have ended, and yet"
    queue.mark_ended(PlayedGroup(GroupDraw(0, (0,)), []))
    assert queue.choose_groups(3) == [0, 7]


class Held(Episodes):
    """Whose groups of the blueprints in `held` end only after `let`."""

    def __init__(self, *held: int) -> None:
        super().__init__(lambda seed, member: float(member))
        self.held, self.let, self.ends = held, threading.Event(), []

    async def play_concurrently(self, blueprints, seeds, start=None):
        rollouts = await super().play_concurrently(blueprints, seeds, start)
        while blueprints[0] in self.held and not self.let.is_set():
            await asyncio.sleep(0.001)
        self.ends.append(blueprints[0])
        return rollouts


def supply_of(player, ranks: RankContext = RankContext(), refill: int = 0, blueprints: int = 2) -> RolloutSupply:
    curriculum = CurriculumSettings(refill=refill)
    options = {"group": 2, "blueprints_per_update": blueprints, "credit": "trajectory", "curriculum": curriculum}
    known = Curriculum(curriculum, SOURCE, 1)
    return RolloutSupply(RLVESettings(**options), 0, player, lambda seed: seed, known, ranks)


def updates(supply: RolloutSupply, k: int, upto: range, last: int, sync=lambda update: None):
    """The blueprints of the updates, in turn."""
    ahead = RolloutPrefetcher(supply, k, last)

    def take(update: int) -> list[int]:
        def synced() -> None:
            supply.player.engine.version = update
            sync(update)

        return [row["seed"] for row in ahead.take_batch(update, synced).rows[::2]]

    return (take(update) for update in upto)


def joined(batches: Iterable[list[int]]) -> list[int]:
    return [seed for batch in batches for seed in batch]


def test_an_update_goes_on_without_a_slow_group_and_trains_on_it_later():
    order = [draw.seeds[0] for draw in supply_of(None).curriculum.draw_groups(10)]
    player = Held(order[0])
    batches = updates(supply_of(player), 3, range(5), 5)
    early = [next(batches) for _ in range(3)]
    assert order[0] not in player.ends and order[0] not in joined(early)
    player.let.set()
    rest = list(batches)
    assert order[0] in rest[0] and sorted(joined(early + rest)) == sorted(order), "each once, none beyond the last update"
    assert len(player.asked) == 10


def test_with_one_update_ahead_all_that_began_are_trained_on_next():
    versions: dict[int, int] = {}

    class Versions(Held):
        async def play_concurrently(self, blueprints, seeds, start=None):
            versions[blueprints[0]] = self.engine.version
            return await super().play_concurrently(blueprints, seeds, start)

    batches = list(updates(supply_of(Versions()), 1, range(5), 5))
    assert [{versions[seed] for seed in batch} for batch in batches] == [{0}, {0}, {1}, {2}, {3}]


def test_what_fails_beside_the_trainer_is_raised_in_it():
    class Fails(Held):
        async def play_concurrently(self, blueprints, seeds, start=None):
            raise RuntimeError("no weights")

    with pytest.raises(RuntimeError, match="no weights"):
        next(updates(supply_of(Fails()), 2, range(3), 3))


def test_ranks_take_as_many_groups_each_and_know_what_all_have_trained_on():
    """Three groups an update on two ranks; one rank's slow group holds up no other, and the curricula stay equal."""
    order = [draw.seeds[0] for draw in supply_of(None).curriculum.draw_groups(10)]
    exchange = Exchange(2)
    supplies = [supply_of(Held(order[0]), exchange.rank(i), blueprints=3) for i in (0, 1)]
    states: list[list] = [[], []]

    def run(rank: int) -> list[list[int]]:
        def sync(update: int) -> None:
            states[rank].append(supplies[rank].curriculum.checkpoint_state())
            if update == 2:
                supplies[rank].player.let.set()

        return list(updates(supplies[rank], 3, range(4), 4, sync))

    first, second = exchange.all(run)
    assert first == second and [len(batch) for batch in first] == [3] * 4
    assert order[0] not in first[0] + first[1] and order[0] in first[2] + first[3]
    assert states[0] == states[1] and not supplies[0].curriculum.checkpoint_state()["unfinished"]
    assert supplies[0].curriculum.checkpoint_state() == supplies[1].curriculum.checkpoint_state()


def test_a_resumed_run_plays_again_what_was_not_trained_on():
    order = [draw.seeds[0] for draw in supply_of(None).curriculum.draw_groups(10)]
    before = supply_of(Held(order[0]))
    batches = updates(before, 3, range(2), 5)
    trained = next(batches) + next(batches)
    state = json.loads(json.dumps(before.curriculum.checkpoint_state()))
    before.player.let.set()
    assert order[0] in [seed for _, _, seed in state["unfinished"]] and len(state["unfinished"]) == 4
    after = supply_of(Held())
    after.curriculum.restore_state(state)
    rest = joined(updates(after, 3, range(2, 5), 5))
    assert sorted(trained + rest) == sorted(order)
    played = before.player.seeds | after.player.seeds
    assert len(played) == 10 and all(
        after.player.seeds[s] == before.player.seeds.get(s, after.player.seeds[s]) for s in rest
    )


def test_a_replaced_group_is_as_young_as_its_replacement():
    """The first group's rollouts have zero variance, and it is replaced when the weights are newer."""
    queue = GroupQueue(1, 2)
    equal = Episodes(lambda seed, member: 1.0 if seed == 100 else float(member))
    supply, versions = supply_of(equal, refill=1), iter([0, 2])
    draw = GroupDraw(0, (100, 101))
    group = asyncio.run(supply.play_group(draw, lambda: queue.mark_begun(0, next(versions))))
    assert group.replaced == 1 and queue.begun == {0: 2} and group.results == ((100, False),) * 2 + ((101, False),) * 2
