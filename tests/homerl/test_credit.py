"""Credit: golden figures by hand, TRL's own formula, and what must hold of any group."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from trl.trainer.utils import nanstd

from homerl.train.credit import EPSILON, assign, last_step_only, returns_to_go, step_credit, trajectory_credit

REWARDS = st.integers(-8, 8).map(lambda n: n / 4)
ROLLOUTS = st.lists(REWARDS, min_size=1, max_size=5)
GROUPS = st.lists(ROLLOUTS, min_size=2, max_size=6)


def flat(credit) -> np.ndarray:
    return np.array([value for row in credit for value in row])


def varied(group) -> bool:
    return len({value for row in group for value in returns_to_go(row)}) > 1


def test_returns_to_go():
    assert returns_to_go([1.0, 0.0, 2.0]) == [3.0, 2.0, 2.0]
    assert returns_to_go([1.0, 0.0, 2.0], gamma=0.5) == [1.5, 1.0, 2.0]
    assert returns_to_go([]) == []


def test_trajectory_credit_by_hand():
    # returns 2, 0, 1, 1: mean 1, sample deviation sqrt(2/3)
    credit = trajectory_credit([[1.0, 1.0], [0.0], [0.5, 0.25, 0.25], [1.0]])
    unit = 1 / ((2 / 3) ** 0.5 + EPSILON)
    assert credit == [pytest.approx([unit] * 2), pytest.approx([-unit]), [0.0] * 3, [0.0]]


@given(GROUPS.filter(lambda group: len({sum(row) for row in group}) > 1))
def test_trajectory_credit_is_trls_advantage_of_the_returns(group):
    rewards = torch.tensor([sum(row) for row in group], dtype=torch.float64).view(1, -1)
    theirs = (rewards - torch.nanmean(rewards, dim=1)) / (nanstd(rewards, dim=1) + 1e-4)
    ours = trajectory_credit(group)
    assert [row[0] for row in ours] == pytest.approx(theirs[0].tolist(), abs=1e-6)
    assert all(len(set(row)) == 1 and len(row) == len(rewards) for row, rewards in zip(ours, group, strict=True))


def test_pooled_step_credit_by_hand():
    # returns-to-go 1, 1 | 0 | 2, 1, 1: pool mean 1, deviation sqrt(2/5)
    credit = step_credit([[0.0, 1.0], [0.0], [1.0, 0.0, 1.0]])
    unit = 1 / (0.4**0.5 + EPSILON)
    assert flat(credit) == pytest.approx([0, 0, -unit, unit, 0, 0], abs=1e-12)


def test_index_step_credit_by_hand():
    # by step index: (1, 0, 2), (1, 1), (1): means 1, 1, 1; deviation of what is left sqrt(2/5)
    credit = step_credit([[0.0, 1.0], [0.0], [1.0, 0.0, 1.0]], baseline="index")
    unit = 1 / (0.4**0.5 + EPSILON)
    assert flat(credit) == pytest.approx([0, 0, -unit, unit, 0, 0], abs=1e-12)
    # index 0: 3 and 1, index 1: 3 alone. Pooled, the step that one member reached gets a signal; by index, none
    group = [[0.0, 3.0], [1.0]]
    assert step_credit(group, baseline="index")[0][1] == pytest.approx(0.0, abs=1e-12)
    assert step_credit(group)[0][1] == pytest.approx((3 - 7 / 3) / ((4 / 3) ** 0.5 + EPSILON))


def test_gamma_discounts_what_comes_later():
    (late, early), (none,) = step_credit([[0.0, 1.0], [0.0]], gamma=0.5)
    pool = np.array([0.5, 1.0, 0.0])
    assert [late, early, none] == pytest.approx(((pool - 0.5) / (0.5 + EPSILON)).tolist())


def test_one_good_step_is_told_from_the_bad_one_beside_it():
    """What trajectory credit cannot do: the return is shared, the step's credit is not."""
    group = [[-0.2, 1.0], [0.0, 0.0]]
    (bad, good), _ = step_credit(group)
    assert good > bad
    assert len(set(trajectory_credit(group)[0])) == 1


@given(GROUPS)
def test_pooled_credit_is_standardised_over_the_steps_of_the_group(group):
    credit = flat(step_credit(group))
    assert abs(credit.mean()) < 1e-9
    assert np.all(credit == 0) or credit.std(ddof=1) == pytest.approx(1, rel=0.01)


@given(GROUPS)
def test_index_credit_has_mean_zero_at_every_step_index(group):
    credit = step_credit(group, baseline="index")
    for index in range(max(map(len, group))):
        reached = [row[index] for row in credit if len(row) > index]
        assert abs(np.mean(reached)) < 1e-9


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(REWARDS, min_size=n, max_size=n), min_size=2, max_size=6)),
    REWARDS,
    st.sampled_from(["pooled", "index"]),
)
def test_what_every_member_gets_at_its_last_step_changes_nothing(group, bonus, baseline):
    more = [[*row[:-1], row[-1] + bonus] for row in group]
    assert flat(step_credit(more, baseline=baseline)) == pytest.approx(flat(step_credit(group, baseline=baseline)), abs=1e-9)
    assert flat(trajectory_credit(more)) == pytest.approx(flat(trajectory_credit(group)), abs=1e-9)


@given(GROUPS, st.floats(0.5, 4))
def test_scale_matters_only_through_epsilon(group, factor):
    assume(varied(group))
    scaled = [[value * factor for value in row] for row in group]
    assert flat(step_credit(scaled)) == pytest.approx(flat(step_credit(group)), rel=2e-2, abs=1e-6)


@given(st.lists(st.lists(REWARDS, min_size=1, max_size=1), min_size=2, max_size=8))
def test_episodes_of_one_step_get_the_same_from_every_mode(group):
    expected = flat(trajectory_credit(group))
    assert flat(step_credit(group)) == pytest.approx(expected, abs=1e-9)
    assert flat(step_credit(group, baseline="index")) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rule", [trajectory_credit, step_credit, lambda g: step_credit(g, baseline="index")])
@pytest.mark.parametrize("group", [[[0.1]] * 3, [[0.0, 0.3]] * 3, [[]] * 3, [[0.1 + 0.2], [0.3], [0.3]]])
def test_constant_groups_get_exact_zeros(rule, group):
    assert rule(group) == [[0.0] * len(row) for row in group]


def test_last_step_only():
    assert last_step_only([[1.0, 2.0, 3.0], [4.0], []]) == [[0.0, 0.0, 3.0], [4.0], []]


def test_groups_are_apart_and_one_that_does_not_count_is_dropped_whole():
    good, other = [[1.0], [0.0]], [[5.0, 0.0], [1.0]]
    rewards, counts = good + other + good, [True, True, True, False, True, True]
    credit = assign(rewards, 2, counts, step_credit)
    assert credit == [*step_credit(good), [0.0, 0.0], [0.0], *step_credit(good)]
    assert flat(credit).any()


def test_groups_may_straddle_ranks():
    """Rank-major order is the sampler's order: two ranks of three rollouts hold three groups of two."""
    rewards = [[1.0], [0.0], [0.5], [0.25], [2.0], [0.0]]
    first, second = rewards[:3], rewards[3:]
    credit = assign(first + second, 2, [True] * 6, trajectory_credit)
    assert credit == [row for i in (0, 2, 4) for row in trajectory_credit(rewards[i : i + 2])]


def test_what_makes_no_groups_is_refused():
    with pytest.raises(ValueError, match="3 rollouts do not make groups of 2"):
        assign([[1.0]] * 3, 2, [True] * 3, step_credit)


def test_a_dropped_rollout_may_be_without_steps():
    credit = assign([[], [1.0]], 2, [False, True], step_credit)
    assert last_step_only(credit) == [[], [0.0]]
