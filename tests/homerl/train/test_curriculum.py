"""Which blueprint comes when: nothing lost, nothing twice, whatever was broken off; groups without signal are refilled."""

import asyncio
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_rollouts import Episodes, Exchange

from homerl.envs.core.documents import InputError
from homerl.train.data.curriculum import Curriculum, read_difficulties
from homerl.train.data.rollout_batches import RankContext, RolloutBatch, RolloutSupply
from homerl.train.recipe import BlueprintSource, CurriculumSettings, RLVESettings

SOURCE = BlueprintSource(count=10, first_seed=100)


def curriculum(by: str = "none", seed: int = 1, **more) -> Curriculum:
    synthesis = "x" if by == "difficulty" else None
    return Curriculum(CurriculumSettings(by=by, synthesis=synthesis), SOURCE, seed, **more)


def seeds_of(known: Curriculum, count: int) -> list[int]:
    return [draw.seeds[0] for draw in known.draw_groups(count)]


def test_every_pass_takes_every_blueprint_once_in_another_order():
    order = seeds_of(curriculum(), 25)
    passes = [order[:10], order[10:20], order[20:]]
    assert [sorted(one) for one in passes[:2]] == [list(range(100, 110))] * 2 and len(set(passes[2])) == 5
    assert passes[0] != passes[1] != sorted(passes[1])
    assert seeds_of(curriculum(), 12) == order[:12] != seeds_of(curriculum(seed=2), 12)


def test_by_difficulty_each_pass_goes_from_easy_to_hard():
    hard = {100 + i: (i % 3) / 3 for i in range(10)}
    order = seeds_of(curriculum("difficulty", difficulty=hard), 20)
    for lap in (order[:10], order[10:]):
        assert [hard[seed] for seed in lap] == sorted(hard.values()) and sorted(lap) == sorted(hard)
    assert order[:10] != order[10:], "equals are shuffled"


def test_difficulties_are_read_from_a_synthesis_of_the_same_blueprints(tmp_path):
    rows = [{"id": f"train-{seed}", "difficulty": seed / 1000} for seed in range(100, 110)]
    (tmp_path / "blueprints.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = CurriculumSettings(by="difficulty", synthesis=str(tmp_path))
    assert read_difficulties(settings, SOURCE) == {seed: seed / 1000 for seed in range(100, 110)}
    with pytest.raises(InputError, match="difficulty of 10 of the 11 blueprints"):
        read_difficulties(settings, SOURCE.model_copy(update={"count": 11}))
    assert read_difficulties(CurriculumSettings(), SOURCE) == {}


def test_a_blueprint_that_servers_spoiled_is_neither_easy_nor_hard(tmp_path):
    rows = [{"id": f"train-{seed}", "difficulty": 0.2, "rollouts": 5} for seed in range(100, 109)]
    rows += [{"id": "train-109", "difficulty": 1.0, "rollouts": 0, "outcome": "infra_error"}]
    (tmp_path / "blueprints.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_difficulties(CurriculumSettings(by="difficulty", synthesis=str(tmp_path)), SOURCE)
    assert found[109] == pytest.approx(0.2) and len(found) == 10


def test_by_success_what_is_always_or_never_solved_comes_seldom():
    known = curriculum("success")
    known.update_success_rates([(100, True)] * 8 + [(101, False)] * 8 + [(102, True)] * 4 + [(102, False)] * 4)
    order = seeds_of(known, 700)
    times = {seed: order.count(seed) for seed in range(100, 110)}
    assert min(times[seed] for seed in range(102, 110)) > 70 and 0 < times[100] < 25 and 0 < times[101] < 25
    assert known.curriculum_metrics()["curriculum/passed_over"] == pytest.approx(1 - 700 / known.position)


def test_running_success_fades():
    known = curriculum("success")
    for success in (False, True, True):
        known.update_success_rates([(100, success), (100, success)])
    assert known.success_rates == {100: (0.75, 3)}


@settings(deadline=None)
@given(
    st.sampled_from(["none", "success"]),
    st.lists(st.integers(0, 2), min_size=3, max_size=36),
    st.data(),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_a_run_that_is_broken_off_anywhere_draws_what_an_unbroken_one_draws(by, replaced, data, ahead, refill):
    """`ahead` batches of three are drawn before their turn; a kill loses all that was done since the last state was saved.
    Group i is replaced `replaced[i]` times."""
    turns = len(replaced) // 3

    def fresh() -> Curriculum:
        return Curriculum(CurriculumSettings(by=by, refill=refill), SOURCE, 1)

    def go_on(known: Curriculum, begin: int, upto: int, save_at: int | None = None) -> tuple[dict, dict]:
        drawn, state, taken = {}, {}, begin
        for turn in range(begin, upto):
            while taken <= min(turn + ahead, turns - 1):
                drawn |= {draw.number: draw for draw in known.draw_groups(3)}
                taken += 1
            batch = sorted(drawn)[3 * (turn - begin) : 3 * (turn - begin) + 3]
            known.mark_trained({number: min(refill, replaced[number]) for number in batch})
            if not ahead:  # what is learned between two draws changes the second
                known.update_success_rates([(drawn[number].seeds[0], number % 3 == 0) for number in batch])
            if turn == save_at:
                state = json.loads(json.dumps(known.checkpoint_state()))
        return drawn, state

    whole, _ = go_on(fresh(), 0, turns)
    saved = data.draw(st.integers(0, turns - 1))
    _, state = go_on(fresh(), 0, data.draw(st.integers(saved + 1, turns)), saved)
    resumed = fresh()
    resumed.restore_state(state)
    rest, _ = go_on(resumed, saved + 1, turns)
    if ahead and refill:  # replacements of what is played again are drawn again
        assert {n: draw.seeds[0] for n, draw in rest.items() if n < 3 * (saved + 1 + ahead)}.items() <= {
            n: draw.seeds[0] for n, draw in whole.items()
        }.items()
        assert rest.keys() == {n for n in whole if n >= 3 * (saved + 1)}
    else:
        assert rest == {n: draw for n, draw in whole.items() if n >= 3 * (saved + 1)}


@given(st.integers(0, 3), st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=20))
def test_what_no_group_needed_is_not_lost(refill, laps):
    """Whatever was replaced, blueprints are played in turn: none twice before every other one of its pass was drawn."""
    known = Curriculum(CurriculumSettings(refill=refill), SOURCE, 1)
    played: list[int] = []
    for batch in laps:
        draws = known.draw_groups(3)
        assert all(len(draw.seeds) == 1 + refill for draw in draws)
        used = {draw.number: min(refill, times) for draw, times in zip(draws, batch, strict=True)}
        known.mark_trained(used)
        played += [seed for draw in draws for seed in draw.seeds[: 1 + used[draw.number]]]
    taken = Counter(played) + Counter(seed for _, seed in known.returned)
    assert max(taken.values()) - min(taken[seed] for seed in range(100, 110)) <= 1
    assert known.curriculum_metrics()["curriculum/passes"] == len(played) / 10
    rest = [seed for _, seed in known.returned]
    assert seeds_of(known, len(rest)) == rest, "what was put back comes first"


# Refills


def supply_of(player, refill: int, ranks: RankContext = RankContext(), blueprints: int = 3) -> RolloutSupply:
    settings = RLVESettings(
        group=2, blueprints_per_update=blueprints, credit="trajectory", curriculum=CurriculumSettings(refill=refill)
    )
    return RolloutSupply(settings, 0, player, lambda seed: seed, Curriculum(settings.curriculum, SOURCE, 1), ranks)


def batch_of(supply: RolloutSupply) -> RolloutBatch:
    return supply.finish_batch(asyncio.run(supply.play_groups(supply.draw_groups())))


def test_a_group_without_variance_is_replaced_until_it_has_some():
    order = seeds_of(curriculum(), 10)
    player = Episodes(lambda seed, member: float(member) if seed in (*order[2:4], order[7]) else 1.0)
    supply = supply_of(player, refill=3)
    batch = batch_of(supply)
    assert [row["seed"] for row in batch.rows[::2]] == [order[3], order[7], order[2]], "each has spares of its own"
    assert set(player.asked) == {*order[:5], order[7]} and len(player.asked) == 6
    assert batch.metrics["curriculum/zero_variance"] == pytest.approx(2 / 3)
    assert batch.metrics["curriculum/left_zero_variance"] == 0.0
    assert supply.curriculum.success_rates.keys() == set(player.asked), "what had no variance has a success rate too"
    assert not supply.curriculum.checkpoint_state()["unfinished"]
    assert [seed for _, seed in supply.curriculum.returned][:4] == [order[5], order[6], order[8], order[9]]


def test_a_replacement_begins_while_other_groups_still_play():
    """The first group ends only when the second one's replacement has begun: laps that wait for all would never end."""
    order = seeds_of(curriculum(), 10)
    player = Episodes(lambda seed, member: 1.0 if seed == order[1] else float(member), slow={order[0]: order[4]})
    batch = batch_of(supply_of(player, refill=1))
    assert [row["seed"] for row in batch.rows[::2]] == [order[0], order[4], order[2]]


@settings(deadline=None, max_examples=40)
@given(st.sets(st.integers(100, 109)), st.integers(0, 3), st.integers(1, 4), st.permutations(range(10)))
def test_a_batch_depends_neither_on_ranks_nor_on_who_ends_first(flat, refill, world, speeds):
    """Groups of all ranks end in any order, and straddle ranks in training."""

    class Uneven(Episodes):
        async def play_concurrently(self, blueprints, seeds, start=None):
            for _ in range(5 * speeds[blueprints[0] - 100]):
                await asyncio.sleep(0)
            return await super().play_concurrently(blueprints, seeds, start)

    def rewards(seed: int, member: int) -> float:
        return 1.0 if seed in flat else float(member)

    blueprints = 2 * world - 1
    alone = supply_of(Episodes(rewards), refill, blueprints=blueprints)
    expected = batch_of(alone)
    exchange = Exchange(world)
    supplies = [supply_of(Uneven(rewards), refill, exchange.rank(i), blueprints) for i in range(world)]
    found = exchange.all(lambda rank: batch_of(supplies[rank]))
    assert all(batch.advantages == expected.advantages and batch.metrics == expected.metrics for batch in found)
    assert all(batch.rows == expected.rows for batch in found)
    slots = [slot for batch in found for slot in batch.rollouts]
    assert (
        slots == list(range(2 * blueprints))
        and max(len(b.rollouts) for b in found) - min(len(b.rollouts) for b in found) < 2
    )
    assert [r for batch in found for r in batch.rollouts.values()] == list(expected.rollouts.values())
    assert all(supply.curriculum.checkpoint_state() == alone.curriculum.checkpoint_state() for supply in supplies)
    assert sorted(group for supply in supplies for group in supply.player.played) == sorted(alone.player.played)


def test_refills_are_bounded_and_what_is_left_has_no_advantage():
    supply = supply_of(Episodes(lambda seed, member: 1.0), refill=2)
    batch = batch_of(supply)
    assert len(supply.player.asked) == 9 and supply.curriculum.position == 9
    assert batch.metrics["curriculum/left_zero_variance"] == 1.0 and not any(a for row in batch.advantages for a in row)


def test_without_refill_nothing_is_replaced():
    supply = supply_of(Episodes(lambda seed, member: 1.0), refill=0)
    assert batch_of(supply).metrics["curriculum/zero_variance"] == 1.0 and supply.curriculum.position == 3
