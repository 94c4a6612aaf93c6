"""The sentinel: its figures by hand, and every cause provoked and named."""

import json
import math

import pytest

from homerl.train.recipe import SentinelSettings
from homerl.train.watch.lost_signal import Sentinel, SignalLost, refuse_infinite_loss, signal_metrics

HEALTHY = {
    "sentinel/zero_advantage": 0.4,
    "sentinel/dropped_groups": 0.0,
    "sentinel/logp_gap": 1e-6,
    "sentinel/entropy": 0.7,
}
CAUSES = {
    "no advantage": {"sentinel/zero_advantage": 0.99},
    "no rollouts": {"sentinel/dropped_groups": 1.0},
    "sampler and trainer disagree": {"sentinel/logp_gap": 0.2},
    "entropy collapsed": {"sentinel/entropy": 1e-6},
}


def signal(advantages, lengths, returns, counts=None, group=2) -> dict[str, float]:
    return signal_metrics(advantages, lengths, returns, counts or [True] * len(returns), group)


def test_a_resumed_run_counts_on():
    whole, resumed = (Sentinel(SentinelSettings(patience=2)) for _ in range(2))
    whole.update_metrics = CAUSES["entropy collapsed"]
    whole.check_update({"sentinel/zero_advantage": 0.4})
    resumed.restore_state(json.loads(json.dumps(whole.checkpoint_state())))
    with pytest.raises(SignalLost, match="entropy collapsed"):
        resumed.check_update({"sentinel/zero_advantage": 0.4})


def test_figures_by_hand():
    metrics = signal([[1.0, -0.5], [0.0]], [[10, 4], [6]], [1.0, 0.0])
    assert metrics == {
        "sentinel/zero_advantage": 6 / 20,
        "sentinel/group_std": 0.5,
        "sentinel/dropped_groups": 0.0,
        "credit_by_step/zero/0": 6 / 16,
        "credit_by_step/mass/0": 10 / 20,
        "credit_by_step/tokens/0": 16.0,
        "credit_by_step/zero/1": 0.0,
        "credit_by_step/mass/1": 2 / 20,
        "credit_by_step/tokens/1": 4.0,
    }


def test_where_all_tokens_are_masked_nothing_has_an_advantage():
    assert signal([[1.0], [-1.0]], [[0], [0]], [1.0, 0.0])["sentinel/zero_advantage"] == 1.0


def test_what_rounding_leaves_of_zero_is_zero():
    assert signal([[1e-17], [-1e-17]], [[3], [5]], [0.3, 0.3])["sentinel/zero_advantage"] == 1.0


def test_group_deviation_is_the_mean_over_groups():
    assert signal([[0.0]] * 4, [[1]] * 4, [0.0, 2.0, 5.0, 5.0])["sentinel/group_std"] == 0.5


def test_a_dropped_group_is_reported_as_such_and_counts_for_nothing_else():
    metrics = signal([[1.0], [-1.0], [0.0], []], [[4], [4], [9], []], [1.0, 0.0, 9.0, 0.0], [True, True, True, False])
    assert metrics["sentinel/dropped_groups"] == 0.5
    assert metrics["sentinel/zero_advantage"] == 0.0 and metrics["sentinel/group_std"] == 0.5
    assert metrics["credit_by_step/tokens/0"] == 8.0


def test_an_update_without_any_rollout_that_counts():
    metrics = signal([[], []], [[], []], [0.0, 0.0], [False, False])
    assert metrics == {"sentinel/zero_advantage": 0.0, "sentinel/group_std": 0.0, "sentinel/dropped_groups": 1.0}


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_is_named_once_it_has_held_for_long_enough(cause):
    sentinel = Sentinel(SentinelSettings(patience=3))
    for _ in range(2):
        sentinel.check_update(HEALTHY | CAUSES[cause])
    with pytest.raises(SignalLost, match=f"^{cause}.*held for 3 updates"):
        sentinel.check_update(HEALTHY | CAUSES[cause])


@pytest.mark.parametrize("cause", CAUSES)
def test_one_good_update_starts_the_count_again(cause):
    sentinel = Sentinel(SentinelSettings(patience=2))
    for metrics in (CAUSES[cause], {}) * 5:
        sentinel.check_update(HEALTHY | metrics)


def test_causes_are_counted_apart():
    sentinel = Sentinel(SentinelSettings(patience=2))
    for cause in CAUSES:
        sentinel.check_update(HEALTHY | CAUSES[cause])


def test_groups_of_a_policy_that_is_certain_are_alike_for_that_cause():
    sentinel = Sentinel(SentinelSettings(patience=2))
    sentinel.check_update(CAUSES["no advantage"])  # entropy is known one update later
    sentinel.update_metrics = CAUSES["entropy collapsed"]
    sentinel.check_update(CAUSES["no advantage"])
    with pytest.raises(SignalLost, match="^entropy collapsed"):
        sentinel.check_update(CAUSES["no advantage"])


def test_the_first_update_knows_no_loss_yet():
    Sentinel(SentinelSettings(patience=1)).check_update({"sentinel/zero_advantage": 0.0})


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_at_once(loss):
    refuse_infinite_loss(0.3)
    with pytest.raises(SignalLost, match="loss is not finite"):
        refuse_infinite_loss(loss)
