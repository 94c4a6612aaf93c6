"""Credit: golden figures by hand, TRL's own formula, and what must hold of any group."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trl.trainer.utils import nanstd

from homerl.train.credit.anchor import compute_anchor_credit, measure_state_recurrence
from homerl.train.credit.contract import CreditInput, list_credit_modes
from homerl.train.credit.step import (
    EPSILON,
    StateValues,
    compute_returns_to_go,
    compute_state_credit,
    compute_step_credit,
    scale_advantages,
)
from homerl.train.credit.trajectory import compute_trajectory_credit
from homerl.train.data.rollout_batches import credit_group, has_return_variance
from homerl.train.recipe import RLVESettings

REWARDS = st.integers(-8, 8).map(lambda n: n / 4)
ROLLOUTS = st.lists(REWARDS, min_size=1, max_size=5)
GROUPS = st.lists(ROLLOUTS, min_size=2, max_size=6)


def flat(credit) -> np.ndarray:
    return np.array([value for row in credit for value in row])


def varied(group) -> bool:
    return len({value for row in group for value in compute_returns_to_go(row)}) > 1


def test_returns_to_go():
    assert compute_returns_to_go([1.0, 0.0, 2.0]) == [3.0, 2.0, 2.0]
    assert compute_returns_to_go([]) == []


def test_trajectory_credit_by_hand():
    # returns 2, 0, 1, 1: mean 1, sample deviation sqrt(2/3)
    credit = compute_trajectory_credit([[1.0, 1.0], [0.0], [0.5, 0.25, 0.25], [1.0]])
    unit = 1 / ((2 / 3) ** 0.5 + EPSILON)
    assert credit == [pytest.approx([unit] * 2), pytest.approx([-unit]), [0.0] * 3, [0.0]]


@given(GROUPS.filter(lambda group: len({sum(row) for row in group}) > 1))
def test_trajectory_credit_is_trls_advantage_of_the_returns(group):
    rewards = torch.tensor([sum(row) for row in group], dtype=torch.float64).view(1, -1)
    theirs = (rewards - torch.nanmean(rewards, dim=1)) / (nanstd(rewards, dim=1) + 1e-4)
    ours = compute_trajectory_credit(group)
    assert [row[0] for row in ours] == pytest.approx(theirs[0].tolist(), abs=1e-6)
    assert all(len(set(row)) == 1 and len(row) == len(rewards) for row, rewards in zip(ours, group, strict=True))


def test_index_step_credit_by_hand():
    # by step index: (1, 0, 2), (1, 1), (1): means 1, 1, 1; deviation of what is left sqrt(2/5)
    credit = compute_step_credit([[0.0, 1.0], [0.0], [1.0, 0.0, 1.0]])
    unit = 1 / (0.4**0.5 + EPSILON)
    assert flat(credit) == pytest.approx([0, 0, -unit, unit, 0, 0], abs=1e-12)
    # index 0: 3 and 1, index 1: 3 alone
    assert compute_step_credit([[0.0, 3.0], [1.0]])[0][1] == pytest.approx(0.0, abs=1e-12)


def test_one_good_step_is_told_from_the_bad_one_beside_it():
    """What trajectory credit cannot do: the return is shared, the step's credit is not."""
    group = [[-0.2, 1.0], [0.0, 0.0]]
    (bad, good), _ = compute_step_credit(group)
    assert good > bad
    assert len(set(compute_trajectory_credit(group)[0])) == 1


@given(GROUPS)
def test_index_credit_has_mean_zero_at_every_step_index(group):
    credit = compute_step_credit(group)
    for index in range(max(map(len, group))):
        reached = [row[index] for row in credit if len(row) > index]
        assert abs(np.mean(reached)) < 1e-9


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(REWARDS, min_size=n, max_size=n), min_size=2, max_size=6)),
    REWARDS,
)
def test_what_every_member_gets_at_its_last_step_changes_nothing(group, bonus):
    more = [[*row[:-1], row[-1] + bonus] for row in group]
    assert flat(compute_step_credit(more)) == pytest.approx(flat(compute_step_credit(group)), abs=1e-9)
    assert flat(compute_trajectory_credit(more)) == pytest.approx(flat(compute_trajectory_credit(group)), abs=1e-9)


@given(GROUPS, st.floats(0.5, 4))
def test_scale_matters_only_through_epsilon(group, factor):
    assume(varied(group))
    scaled = [[value * factor for value in row] for row in group]
    assert flat(compute_step_credit(scaled)) == pytest.approx(flat(compute_step_credit(group)), rel=2e-2, abs=1e-6)


@given(st.lists(st.lists(REWARDS, min_size=1, max_size=1), min_size=2, max_size=8))
def test_episodes_of_one_step_get_the_same_from_every_mode(group):
    expected = flat(compute_trajectory_credit(group))
    assert flat(compute_step_credit(group)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rule", [compute_trajectory_credit, compute_step_credit])
@pytest.mark.parametrize("group", [[[0.1]] * 3, [[0.0, 0.3]] * 3, [[]] * 3, [[0.1 + 0.2], [0.3], [0.3]]])
def test_constant_groups_get_exact_zeros(rule, group):
    assert rule(group) == [[0.0] * len(row) for row in group]


def played(rewards, counts=None) -> list[CreditInput]:
    return [CreditInput(row, good) for row, good in zip(rewards, counts or [True] * len(rewards), strict=True)]


def credited(rollouts: list[CreditInput], size: int, mode: str) -> list[list[float]]:
    """The advantages of groups of a size, as an update assigns them."""
    settings = RLVESettings(credit=mode)
    groups = [rollouts[first : first + size] for first in range(0, len(rollouts), size)]
    return [row for group in groups for row in credit_group(group, settings)]


def test_a_rollout_that_does_not_count_takes_no_part_in_its_group():
    group, counts = [[5.0, 0.0], [1.0], [2.0]], [True, False, True]
    for mode, credit in (("step", compute_step_credit), ("trajectory", compute_trajectory_credit)):
        first, last = credit([group[0], group[2]])
        assert credited(played(group, counts), 3, mode) == [first, [0.0], last]
        assert flat([first, last]).any()
    alone = credited(played(group, [False, False, True]), 3, "step")
    assert not flat(alone).any(), "there is nothing to compare it with"


def test_groups_are_apart():
    good, other = [[1.0], [0.0]], [[5.0, 0.0], [1.0]]
    rewards, counts = good + other + good, [True, True, True, False, True, True]
    credit = credited(played(rewards, counts), 2, "step")
    assert credit == [*compute_step_credit(good), [0.0, 0.0], [0.0], *compute_step_credit(good)]
    assert flat(credit).any()


def test_steps_that_no_other_member_reached_are_counted():
    settings = RLVESettings(credit="step")
    groups = [played([[0.0], [0.0, 1.0, 0.0]]), played([[1.0], [0.0]])]
    assert list_credit_modes()["step"].metrics(groups, settings) == {"step/alone": 2 / 6}


def test_groups_may_straddle_ranks():
    """Rank-major order is the sampler's order: two ranks of three rollouts hold three groups of two."""
    rewards = [[1.0], [0.0], [0.5], [0.25], [2.0], [0.0]]
    first, second = played(rewards[:3]), played(rewards[3:])
    credit = credited(first + second, 2, "trajectory")
    assert credit == [row for i in (0, 2, 4) for row in compute_trajectory_credit(rewards[i : i + 2])]


def test_a_dropped_rollout_may_be_without_steps():
    credit = credited(played([[], [1.0]], [False, True]), 2, "step")
    assert credit == [[], [0.0]]


# anchor


def test_anchor_credit_by_hand():
    # returns-to-go 1, 1 | 0, 0 | 2; a is seen by all (1, 0, 2), b by one, c by one
    group, states = [[0.0, 1.0], [0.0, 0.0], [2.0]], [["a", "b"], ["a", "c"], ["a"]]
    unit = 1 / (1 + EPSILON)  # both pools are 1, 0, 2: mean 1, deviation 1
    assert compute_anchor_credit(group, states) == [[0.0, 0.0], [-2 * unit, -unit], [pytest.approx(2 * unit)]]


def test_anchor_tells_apart_what_the_return_does_not():
    """Both rollouts earn 1, and one of them only after a detour: from the state that both were in, it lost by it."""
    group, states = [[1.0], [-1.0, 2.0], [-1.0, 2.0]], [["a"], ["a", "b"], ["a", "b"]]
    assert not flat(compute_trajectory_credit(group)).any() and not flat(compute_anchor_credit(group, states)).any()
    group, states = [[0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0]], [["a", "b"], ["a", "c", "b"], ["a", "c"]]
    credit = compute_anchor_credit(group, states)
    assert not flat(compute_trajectory_credit(group)).any()
    assert credit[1][1] > 0 > credit[2][1] and credit[0] == [0.0, 0.0] == [credit[1][0], credit[1][2]]


def test_a_state_may_recur_in_one_rollout():
    [row] = compute_anchor_credit([[1.0, 1.0]], [["a", "a"]])
    unit = 0.5 / (0.5**0.5 + EPSILON)
    assert row == pytest.approx([unit, -unit])


@settings(deadline=None)
@given(GROUPS)
def test_states_that_never_recur_leave_the_trajectorys_credit(group):
    apart = [[f"{i} {t}" for t in range(len(row))] for i, row in enumerate(group)]
    assert compute_anchor_credit(group, apart) == compute_trajectory_credit(group)
    assert measure_state_recurrence([apart]) == {"anchor/coverage": 0.0, "anchor/singletons": 1.0}


@settings(deadline=None)
@given(GROUPS, st.randoms(use_true_random=False))
def test_anchor_credit_beyond_the_trajectorys_has_mean_zero_in_every_state(group, rng):
    states = [[rng.choice("abc") for _ in row] for row in group]
    beyond = flat(compute_anchor_credit(group, states)) - flat(compute_trajectory_credit(group))
    named = [state for row in states for state in row]
    for state in set(named):
        assert abs(sum(value for value, name in zip(beyond, named, strict=True) if name == state)) < 1e-9


def test_recurrence_by_hand():
    first, second = [["a", "b"], ["a", "c"]], [["a"], ["b"]]  # states of two groups are never the same
    assert measure_state_recurrence([first, second]) == {"anchor/coverage": pytest.approx(2 / 6), "anchor/singletons": 4 / 5}
    assert measure_state_recurrence([]) == {"anchor/coverage": 0.0, "anchor/singletons": 0.0}


# state: the value of what is still to be done


def credit_inputs(group, states) -> list[CreditInput]:
    return [CreditInput(row, states=names) for row, names in zip(group, states, strict=True)]


def test_a_states_value_is_that_of_others_shrunk_to_their_mean_at_the_index():
    group = credit_inputs([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]], [["a", "b"], ["a", "c"], ["a", "b"]])
    values = StateValues(group, shrinkage=1.0)
    # others of rollout 0: in a (0, 2), at index 0 the same; in b at index 1 (1,), by index (0, 1)
    assert values.estimate_state_value(0, 0, "a", unmet=9.0) == 1.0
    assert values.estimate_state_value(0, 1, "b", unmet=9.0) == (1.0 + 0.5) / 2
    assert values.estimate_state_value(0, 1, "never", unmet=9.0) == 0.5
    assert values.estimate_state_value(0, 7, "never", unmet=9.0) == 9.0


def test_state_credit_by_hand():
    """One reaches b and earns there, one reaches c and does not. With λ = 0 the first step is judged by where it led."""
    group = credit_inputs([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [["a", "b"], ["a", "c"], ["a", "b"], ["a", "c"]])
    credit = compute_state_credit(group, lam=0.0, shrinkage=0.0)
    assert credit[0] == pytest.approx([1 - 1 / 3, 0.0])  # V(a) of others: (0 + 1 + 0) / 3
    assert credit[1] == pytest.approx([0 - 2 / 3, 0.0])


@given(GROUPS, st.randoms(use_true_random=False), st.floats(0, 8))
def test_with_lambda_one_state_credit_is_the_return_less_the_value(group, rng, shrinkage):
    states = [[rng.choice("abc") for _ in row] for row in group]
    given_, credit = (
        credit_inputs(group, states),
        compute_state_credit(credit_inputs(group, states), lam=1.0, shrinkage=shrinkage),
    )
    values = StateValues(given_, shrinkage=shrinkage)
    for i, row in enumerate(group):
        for t, value in enumerate(compute_returns_to_go(row)):
            assert credit[i][t] == pytest.approx(
                value - values.estimate_state_value(i, t, states[i][t], unmet=value), abs=1e-9
            )


@settings(deadline=None)
@given(st.lists(st.lists(REWARDS, min_size=1, max_size=1), min_size=2, max_size=8), st.floats(0, 8), st.floats(0, 1))
def test_of_one_step_from_one_state_state_credit_is_grpos(group, shrinkage, lam):
    assume(varied(group))
    credit = scale_advantages(compute_state_credit(credit_inputs(group, [["a"]] * len(group)), lam=lam, shrinkage=shrinkage))
    assert flat(credit) == pytest.approx(flat(compute_trajectory_credit(group)), rel=1e-2, abs=1e-3)


@settings(deadline=None)
@given(GROUPS)
def test_of_states_that_never_recur_state_credit_is_that_of_the_index(group):
    """Leave-one-out has the factor n / (n - 1), by the number that reached the index."""
    apart = [[f"{i} {t}" for t in range(len(row))] for i, row in enumerate(group)]
    credit = compute_state_credit(credit_inputs(group, apart), lam=1.0, shrinkage=2.0)
    for t in range(max(map(len, group))):
        reached = [compute_returns_to_go(row)[t] for row in group if len(row) > t]
        factor = len(reached) / (len(reached) - 1) if len(reached) > 1 else 0.0
        found = [row[t] for row in credit if len(row) > t]
        assert found == pytest.approx([factor * (value - np.mean(reached)) for value in reached], abs=1e-6)


def test_state_credit_is_unbiased_with_lambda_one():
    """Two steps of two actions; the first decides the state. The mean of Σ A ∇log π over groups is n times ∇J."""
    rng, chance, n = np.random.default_rng(0), np.array([0.3, 0.6]), 4
    earned = np.array([[0.0, 1.0], [0.5, -0.5]])  # by first and second action
    total, rounds = np.zeros(2), 20_000
    for _ in range(rounds):
        acted = (rng.random((n, 2)) < chance).astype(int)
        group = credit_inputs([[0.1, earned[a, b]] for a, b in acted], [["start", f"after {a}"] for a, _ in acted])
        for (a, b), (first, second) in zip(acted, compute_state_credit(group, lam=1.0, shrinkage=2.0), strict=True):
            total += np.array([first * (a - chance[0]), second * (b - chance[1])])
    mean = earned @ [1 - chance[1], chance[1]]
    slopes = (mean[1] - mean[0]) * chance[0] * (1 - chance[0])
    later = [1 - chance[0], chance[0]] @ (earned[:, 1] - earned[:, 0]) * chance[1] * (1 - chance[1])
    assert total / rounds == pytest.approx(n * np.array([slopes, later]), abs=0.02)


# groups without variance

EQUAL = st.lists(st.tuples(st.lists(REWARDS, max_size=4), st.lists(st.sampled_from("abc"), min_size=5, max_size=5)),
                 min_size=2, max_size=5)  # rollouts of any ways, whose last reward makes their returns equal  # fmt: skip


def equal_rollouts(shapes, total: float) -> list[CreditInput]:
    return [CreditInput([*row, total - sum(row)], states=names[: len(row) + 1]) for row, names in shapes]


MODES = [{"credit": "trajectory"}, {"credit": "anchor"}] + [
    {"credit": "step", "baseline": baseline} for baseline in ("index", "state")
]


@settings(deadline=None)
@pytest.mark.parametrize("keys", MODES, ids=lambda keys: "-".join(keys.values()))
@given(EQUAL, REWARDS)
def test_a_group_of_equal_returns_teaches_nothing_in_any_mode(keys, shapes, total):
    """Whatever the ways, if all rollouts earn the same, every step's advantage is 0."""
    group = equal_rollouts(shapes, total)
    assert not has_return_variance(group)
    assert credit_group(group, RLVESettings(**keys)) == [[0.0] * len(played.rewards) for played in group]
    better = CreditInput([*group[0].rewards[:-1], group[0].rewards[-1] + 1.0], states=group[0].states)
    assert has_return_variance([better, *group[1:]])


def test_a_group_in_which_a_rollout_does_not_count_teaches_nothing():
    assert not has_return_variance(played([[1.0], [0.0]], [True, False]))


@pytest.mark.parametrize("key", ["gamma", "trace", "shrink", "counterfactual", "teacher"])
def test_a_key_of_what_was_removed_is_refused_as_any_unknown_one(key):
    with pytest.raises(ValueError, match=rf"{key}\n.*Extra inputs are not permitted"):
        RLVESettings.model_validate({key: 1.0})
