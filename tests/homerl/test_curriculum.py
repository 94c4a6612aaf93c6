"""Which blueprint comes when: nothing lost, nothing twice, whatever was broken off; groups without signal are refilled."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.documents import InputError
from homerl.train.credit.contract import CreditInput
from homerl.train.curriculum import Curriculum, difficulties
from homerl.train.recipe import BlueprintSource, CurriculumSettings, RLVESettings
from homerl.train.supply import Batch, RankContext, Supply

SOURCE = BlueprintSource(count=10, first_seed=100)


def curriculum(by: str = "none", seed: int = 1, **more) -> Curriculum:
    synthesis = "x" if by == "difficulty" else None
    return Curriculum(CurriculumSettings(by=by, synthesis=synthesis), SOURCE, seed, **more)


def test_every_pass_takes_every_blueprint_once_in_another_order():
    order = curriculum().more(25)
    passes = [order[:10], order[10:20], order[20:]]
    assert [sorted(one) for one in passes[:2]] == [list(range(100, 110))] * 2 and len(set(passes[2])) == 5
    assert passes[0] != passes[1] != sorted(passes[1])
    assert curriculum().more(12) == order[:12] != curriculum(seed=2).more(12)


def test_by_difficulty_each_pass_goes_from_easy_to_hard():
    hard = {100 + i: (i % 3) / 3 for i in range(10)}
    order = curriculum("difficulty", difficulty=hard).more(20)
    for lap in (order[:10], order[10:]):
        assert [hard[seed] for seed in lap] == sorted(hard.values()) and sorted(lap) == sorted(hard)
    assert order[:10] != order[10:], "equals are shuffled"


def test_difficulties_are_read_from_a_synthesis_of_the_same_blueprints(tmp_path):
    rows = [{"id": f"train-{seed}", "difficulty": seed / 1000} for seed in range(100, 110)]
    (tmp_path / "blueprints.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = CurriculumSettings(by="difficulty", synthesis=str(tmp_path))
    assert difficulties(settings, SOURCE) == {seed: seed / 1000 for seed in range(100, 110)}
    with pytest.raises(InputError, match="difficulty of 10 of the 11 blueprints"):
        difficulties(settings, SOURCE.model_copy(update={"count": 11}))
    assert difficulties(CurriculumSettings(), SOURCE) == {}


def test_by_success_what_is_always_or_never_solved_comes_seldom():
    known = curriculum("success")
    known.learn([(100, True)] * 8 + [(101, False)] * 8 + [(102, True)] * 4 + [(102, False)] * 4)
    order = known.more(700)
    times = {seed: order.count(seed) for seed in range(100, 110)}
    assert min(times[seed] for seed in range(102, 110)) > 70 and 0 < times[100] < 25 and 0 < times[101] < 25
    assert known.metrics()["curriculum/passed_over"] == pytest.approx(1 - 700 / known.position)


def test_running_success_fades():
    known = curriculum("success")
    for success in (False, True, True):
        known.learn([(100, success), (100, success)])
    assert known.tally == {100: (0.75, 3)}


@settings(deadline=None)
@given(
    st.sampled_from(["none", "success"]), st.lists(st.integers(1, 7), min_size=1, max_size=12), st.data(), st.integers(0, 2)
)
def test_a_run_that_is_broken_off_anywhere_draws_what_an_unbroken_one_draws(by, sizes, data, ahead):
    """`ahead` batches are drawn before their turn; a kill loses all that was done since the last state was saved."""

    def go_on(known: Curriculum, begin: int, upto: int, save_at: int | None = None) -> tuple[list, dict]:
        drawn, state, taken = [], {}, begin
        for turn in range(begin, upto):
            while taken <= min(turn + ahead, len(sizes) - 1):
                drawn.append(known.draw(sizes[taken]))
                taken += 1
            known.train()
            if not ahead:  # what is learned between two draws changes the second
                known.learn([(seed, seed % 3 == 0) for seed in drawn[turn - begin]])
            if turn == save_at:
                state = json.loads(json.dumps(known.state()))
        return drawn, state

    whole, _ = go_on(curriculum(by), 0, len(sizes))
    saved = data.draw(st.integers(0, len(sizes) - 1))
    _, state = go_on(curriculum(by), 0, data.draw(st.integers(saved + 1, len(sizes))), saved)
    resumed = curriculum(by)
    resumed.load(state)
    rest, _ = go_on(resumed, saved + 1, len(sizes))
    assert rest == whole[saved + 1 :]


# Refills


class Scripted(Supply):
    """Whose groups earn what a table says of their blueprint."""

    def __init__(self, rewards, refill: int, ranks: RankContext = RankContext(), blueprints: int = 3, source=SOURCE) -> None:
        settings = RLVESettings(
            group=2, blueprints_per_update=blueprints, credit="trajectory", curriculum=CurriculumSettings(refill=refill)
        )
        known = Curriculum(settings.curriculum, source, 1)
        super().__init__(settings, 0, None, lambda seed: seed, known, ranks)
        self.rewards, self.asked = rewards, []

    async def _play(self, update, drawn, slots, lap):
        self.asked.append((lap, list(slots)))
        return {slot: (drawn[slot // 2], slot % 2) for slot in slots}

    def _gathered(self, rollouts):
        from homerl.train.credit.registry import assign, rule_of

        mine = [{"slot": slot, "seed": seed, "member": member} for slot, (seed, member) in sorted(rollouts.items())]
        rows = self.ranks.gather(mine)
        for row in rows:
            row |= {"played": CreditInput([self.rewards(row["seed"], row["member"])]), "success": True}
        return Batch(rollouts, rows, assign([row["played"] for row in rows], 2, rule_of(self.settings)))


def batch_of(supply: Scripted) -> Batch:
    import asyncio

    drawn = supply.draw()
    return supply.finish(0, drawn, asyncio.run(supply.play(0, drawn)), asyncio.run)


def test_a_group_without_variance_is_replaced_until_it_has_some():
    order = curriculum().more(6)
    supply = Scripted(lambda seed, member: float(member) if seed in order[2:5] else 1.0, refill=3)
    batch = batch_of(supply)
    assert [row["seed"] for row in batch.rows[::2]] == [order[3], order[4], order[2]]
    assert supply.asked == [(0, [0, 1, 2, 3, 4, 5]), (1, [0, 1, 2, 3])]
    assert batch.shares["curriculum/flat"] == pytest.approx(2 / 3) and batch.shares["curriculum/left_flat"] == 0.0
    assert supply.curriculum.position == 5 and not supply.curriculum.state()["unfinished"]


def test_refills_are_bounded_and_what_is_left_has_no_advantage():
    supply = Scripted(lambda seed, member: 1.0, refill=2)
    batch = batch_of(supply)
    assert len(supply.asked) == 3 and supply.curriculum.position == 9
    assert batch.shares["curriculum/left_flat"] == 1.0 and not any(a for row in batch.credit for a in row)


def test_without_refill_nothing_is_replaced():
    supply = Scripted(lambda seed, member: 1.0, refill=0)
    assert batch_of(supply).shares["curriculum/flat"] == 1.0 and supply.curriculum.position == 3


def test_ranks_agree_on_what_is_refilled_even_where_groups_straddle_them():
    """Three groups of two on two ranks of three: the middle group has a member on each, and is flat."""
    import threading

    order = curriculum().more(3)
    barrier, parts = threading.Barrier(2), {}

    def gather(rank: int):
        def exchange(rows):
            parts[rank] = rows
            barrier.wait(5)
            found = [dict(row) for part in (parts[0], parts[1]) for row in part]
            barrier.wait(5)
            return found

        return exchange

    supplies = [
        Scripted(lambda seed, member: 1.0 if seed == order[1] else float(member), 2, RankContext(rank, 2, gather(rank)))
        for rank in (0, 1)
    ]
    found: dict[int, Batch] = {}
    threads = [threading.Thread(target=lambda r=r: found.update({r: batch_of(supplies[r])})) for r in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    alone = batch_of(Scripted(lambda seed, member: 1.0 if seed == order[1] else float(member), 2))
    assert found[0].credit == found[1].credit == alone.credit
    assert [row["seed"] for row in found[0].rows] == [row["seed"] for row in alone.rows]
    assert supplies[0].asked[1] == (1, [2]) and supplies[1].asked[1] == (1, [3])
