"""Golden numbers of equation 6 and of D.2, and what holds for every sequence of steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.world import StepFacts
from homerl.rewards.audit import audit
from homerl.rewards.code_check import code_check
from homerl.rewards.code_length import code_length
from homerl.rewards.collateral import collateral
from homerl.rewards.composite import PARTS, RewardWeights, step_rewards
from homerl.rewards.progress import progress
from homerl.rewards.success import success
from homerl.rewards.turn_limit import turn_limit

PRESERVE = RewardWeights(collateral=0.2)


def facts(before: float, after: float, **more) -> StepFacts:
    return StepFacts(turn=more.pop("turn", 1), progress_before=before, progress_after=after, **more)


@pytest.mark.parametrize(
    ("step", "weights", "expected"),
    [
        (facts(0, 0), RewardWeights(), {}),
        (facts(0, 0.5), RewardWeights(), {"progress": 0.5}),
        (facts(0.5, 0.25), RewardWeights(), {"progress": -0.25}),
        (facts(0.5, 1, last=True), RewardWeights(), {"progress": 0.5, "success": 1}),
        (facts(0.5, 1, last=True), RewardWeights(progress=2, success=5), {"progress": 1, "success": 5}),
        (facts(0.5, 0.5, last=True), RewardWeights(), {"turn_limit": -0.2}),
        (facts(0.5, 0.5, last=True), RewardWeights(charge_unmet_end=False), {}),
        (facts(0.5, 1, last=True, closes=False), RewardWeights(), {"progress": 0.5, "turn_limit": -0.2}),
        (facts(0, 0.5, blocked=("out_of_range", "unknown_device")), RewardWeights(), {"progress": 0.5, "audit": -0.4}),
        (facts(0, 0, blocked=("syntax",) * 20), RewardWeights(), {"audit": -4}),
        (facts(0, 0, blocked=("syntax",) * 20), RewardWeights(audit_each_call=False), {"audit": -0.2}),
        (facts(0, 0, code="getattr(device('1'), 'x')"), RewardWeights(), {"code_check": -0.2}),
        (facts(0, 0, code="import os"), RewardWeights(code_check=1), {"code_check": -1}),
        (facts(0, 0, code="device('1').open()"), RewardWeights(), {}),
        (facts(0, 0, code="eval("), RewardWeights(), {}),
        (facts(0, 0, code="x", code_tokens=1000), RewardWeights(), {}),
        (facts(0, 0, code="x", code_tokens=1001), RewardWeights(), {"code_length": -0.2}),
        (facts(0, 0, code="x", code_tokens=11), RewardWeights(max_code_tokens=10), {"code_length": -0.2}),
        (facts(0, 0, turn=3), RewardWeights(), {}),
        (facts(0, 0, turn=4), RewardWeights(), {"turn_limit": -0.2}),
        (facts(0, 0, turn=4, opens_turn=False), RewardWeights(), {}),
        (facts(0, 0, turn=4, last=True), RewardWeights(), {"turn_limit": -0.2}),
        (facts(0, 0, turn=5), RewardWeights(), {}),
        (facts(0, 0, turn=5, last=True), RewardWeights(), {}),
        (facts(0, 0, side_effects_after=1), RewardWeights(), {}),
        (facts(0, 0, side_effects_after=3), PRESERVE, {"collateral": -0.2}),
        (facts(0, 0, side_effects_before=1, side_effects_after=1), PRESERVE, {}),
        (facts(0.5, 0.5, side_effects_after=1), PRESERVE, {"progress": -0.5, "collateral": -0.2}),
        (facts(0, 1, side_effects_after=1, last=True), PRESERVE, {"collateral": -0.2}),
        (facts(0, 1, side_effects_after=1, last=True), RewardWeights(), {"progress": 1, "success": 1}),
        (facts(0.5, 0.5, side_effects_before=1), PRESERVE, {"progress": 0.5}),
        (
            facts(0, 0, turn=4, blocked=("restricted_code",), code="eval('1')", code_tokens=2000),
            RewardWeights(),
            {"audit": -0.2, "code_check": -0.2, "code_length": -0.2, "turn_limit": -0.2},
        ),
    ],
)
def test_golden_numbers(step, weights, expected):
    parts = step_rewards(step, weights)
    assert parts == {name: pytest.approx(expected.get(name, 0)) for name in PARTS}
    assert list(parts) == list(PARTS)


def test_each_reward_by_itself():
    assert progress(facts(0.25, 0.75)) == 0.5
    assert success(facts(0.5, 1, last=True)) == 1 and success(facts(0.5, 1)) == 0
    assert audit(facts(0, 0, blocked=("syntax", "syntax"))) == -2
    assert audit(facts(0, 0, blocked=("syntax", "syntax")), audit_each_call=False) == -1
    assert code_check(facts(0, 0, code="device('1').__class__")) == -1
    assert code_check(facts(0, 0, code="x = (", blocked=("syntax",))) == 0
    hidden = "getattr(device('1'), 'x')\nx = ("
    assert code_check(facts(0, 0, code=hidden, blocked=("restricted_code", "syntax"))) == -1
    assert code_length(facts(0, 0, code_tokens=6), max_code_tokens=5) == -1
    assert turn_limit(facts(0, 0, turn=3), max_turns=2) == -1
    assert collateral(facts(0, 0, side_effects_before=1, side_effects_after=2)) == -1


def test_negative_weights_are_refused_by_name():
    with pytest.raises(ValueError, match="'audit' is -0.2"):
        RewardWeights(audit=-0.2)


SHARES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
STATES = st.lists(st.tuples(SHARES, st.integers(0, 3)), min_size=2, max_size=12)


def episode(states) -> list[StepFacts]:
    pairs = list(zip(states, states[1:], strict=False))
    return [
        facts(m, n, side_effects_before=s, side_effects_after=t, last=i == len(pairs) - 1)
        for i, ((m, s), (n, t)) in enumerate(pairs)
    ]


@given(STATES)
def test_progress_telescopes(states):
    total = sum(step_rewards(step)["progress"] for step in episode(states))
    assert total == pytest.approx(states[-1][0] - states[0][0])


@given(STATES)
def test_progress_that_preserves_telescopes_too(states):
    def worth(state):
        return 0.0 if state[1] else state[0]

    total = sum(step_rewards(step, PRESERVE)["progress"] for step in episode(states))
    assert total == pytest.approx(worth(states[-1]) - worth(states[0]))


@given(STATES)
def test_an_episode_from_nothing_earns_two_at_most_and_that_only_by_a_clean_success(states):
    steps = episode([(0.0, 0), *states])
    total = sum(sum(step_rewards(step, PRESERVE).values()) for step in steps)
    assert total <= 2 + 1e-9
    m, side_effects = states[-1]
    if side_effects:
        assert total < 0
    elif m < 1:
        assert total <= m + 1e-9


@given(STATES)
def test_going_in_a_circle_earns_nothing(states):
    steps = episode([*states, states[0], (0.0, 0)])[:-1]
    assert sum(step_rewards(step, PRESERVE)["progress"] for step in steps) == pytest.approx(0)
