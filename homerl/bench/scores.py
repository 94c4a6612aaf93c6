"""Scores with intervals.

Invariants: only outcomes that say something about the agent count; intervals are seeded percentile bootstraps over
instances, not over their runs, so the same results give the same figures; where all results are equal, they are Wilson's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.play.bench_results import count_metrics, score_metrics
from homerl.play.confidence_intervals import GAINS, SHARES, mean_interval, share_interval
from homerl.play.faults import Boundary, Fault
from homerl.play.metrics.contract import Mean, Share
from homerl.play.trajectory import Outcome, Trajectory
from homerl.worlds.registry import world_of

GRADER = "grader"  # the key of the grader's version in a result; those of before have none


def build_result_row(trajectory: Trajectory, tokens: int, prompt_tokens: int = 0) -> dict[str, Any]:
    """What a suite stores of one episode, beside its trajectory; the tokens are those of the agent. `fault` is there only
    where an episode has one."""
    world = world_of(trajectory.blueprint)
    failure, devices = world.failure_of(trajectory), world.count_devices(trajectory.blueprint)
    fault = {"fault": asdict(trajectory.fault)} if trajectory.fault else {}
    return (
        {
            "id": trajectory.blueprint["id"],
            "subcategories": [intent["subcategory"] for intent in trajectory.blueprint["intents"]],
            "families": [intent["family"] for intent in trajectory.blueprint["intents"]],
            **({} if devices is None else {"devices": devices}),
            "outcome": str(trajectory.outcome),
            "success": trajectory.success,
            GRADER: world.grader,
            **count_metrics(Mean, trajectory, world, {"tokens": tokens, "prompt_tokens": prompt_tokens}),
            "error": [failure.dimension, failure.type] if failure else None,
            "undecided": failure is not None and any(case.rule == "undecided" for case in world.cases(trajectory)),
            **count_metrics(Share, trajectory, world, {}),
        }
        | world.extra_results(trajectory)
        | fault
    )


def score_results(rows: Sequence[Mapping[str, Any]], labels: Sequence[str] = ()) -> dict[str, Any]:
    """The score of a suite as plain data; shares are in [0, 1], `interval` is the 95 % interval of `success`.

    The rows are grouped by each of the `labels` that all of them have.

    `success` is Φ, and nothing else changed where the blueprint says `preserve`. `n` counts the episodes that say something
    about the agent; success and the metrics are of these. `faults` counts why episodes were left out.
    """
    valid = [row for row in rows if is_counted_result(row)]
    if not valid:
        return {"n": 0, "outcomes": dict(Counter(row["outcome"] for row in rows)), **_count_faults(rows)}
    released = [row["released"] for row in rows if row.get("released", -1) >= 0]  # verdicts of a paper's own program
    families = sorted({family for row in valid for family in row["families"]})
    return {
        **success_with_interval(valid),
        **score_metrics(Mean, valid, seed=0),
        "undecided": sum(row.get("undecided", False) for row in rows),
        "outcomes": dict(sorted(Counter(row["outcome"] for row in rows).items())),
        "by_family": {
            family: float(np.mean([row["success"] for row in valid if family in row["families"]])) for family in families
        },
        **{f"by_{label}": _score_by_label(label, valid) for label in labels if all(label in row for row in valid)},
        **(pass_hat(rows) if any(row.get("run") for row in valid) else {}),
        **score_metrics(Share, valid, seed=0),
        **({"released": {"n": len(released), "success": float(np.mean(released))}} if released else {}),
        **_count_faults(rows),
        "errors": dict(Counter(": ".join(row["error"]) for row in valid if row.get("error")).most_common()),
    }


def success_with_interval(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The number of episodes (at least one), the share of successes, and its 95 % interval over instances."""
    success = np.array([row["success"] for row in rows], dtype=float)
    interval = mean_interval(success, groups=[row["id"] for row in rows], ends=SHARES)
    return {"n": len(rows), "success": float(success.mean()), "interval": interval}


def _count_faults(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Who failed and why in episodes that do not count, the most frequent first."""
    told = [row["fault"] for row in rows if not is_counted_result(row) and "fault" in row]  # older results have none
    faults = (Fault(Boundary(fault["boundary"]), fault["reason"]) for fault in told)
    found = Counter(f"{fault.boundary}: {fault.reason_kind}" for fault in faults)
    return {"faults": dict(found.most_common())} if found else {}


def _score_by_label(label: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Success with its interval for each value of a label, in the suite's order."""
    found = {}
    for value in dict.fromkeys(row[label] for row in rows):
        part = [row for row in rows if row[label] == value]
        success, ids = np.array([row["success"] for row in part], dtype=float), [row["id"] for row in part]
        interval = share_interval(success) if len(set(ids)) == len(ids) else mean_interval(success, groups=ids, ends=SHARES)
        found[value] = {"n": len(part), "success": float(success.mean()), "interval": interval}
    return found


def pass_hat(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """`pass_hat`, pass^k for each k: an unbiased estimate of the chance that k runs of an instance all succeed.

    An instance with c successes in n runs that count gives C(c, k) / C(n, k) (Yao et al., tau-bench). The mean is over the
    instances with k such runs; where these are not all, `pass_hat_n` has their number.
    """
    runs = _by_instance(rows)
    # by k, the runs of each instance that has k of them or more
    with_runs = {k: [of for of in runs.values() if len(of) >= k] for k in range(1, max(map(len, runs.values())) + 1)}
    found = {
        str(k): float(np.mean([math.comb(int(sum(of)), k) / math.comb(len(of), k) for of in each]))
        for k, each in with_runs.items()
    }
    every = len({row["id"] for row in rows})
    fewer = {str(k): len(each) for k, each in with_runs.items() if len(each) < every}
    return {"pass_hat": found} | ({"pass_hat_n": fewer} if fewer else {})


def is_complete_score(score: Mapping[str, Any], episodes: int) -> bool:
    """Whether a score is of all episodes of its suite, some of which count. A run that was stopped writes a score too."""
    return bool(score.get("n")) and sum(score.get("outcomes", {}).values()) == episodes


def is_counted_result(row: Mapping[str, Any]) -> bool:
    """Whether the outcome of a result says something about the agent."""
    return Outcome(row["outcome"]).is_counted


def paired_difference(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], seed: int = 0
) -> dict[str, Any]:
    """The mean gain in success of `after` over `before`, a difference of shares, with its paired 95 % interval.

    An instance's success is the mean of its runs. Only instances that count in both are compared; raises `InputError` if
    there are none.
    """
    first, second = _by_instance(before), _by_instance(after)
    gains = np.array([np.mean(second[id]) - np.mean(first[id]) for id in second if id in first])
    if not len(gains):
        raise InputError("the two results share no instance", remedy="compare two results.jsonl of one suite")
    return {"n": len(gains), "gain": float(gains.mean()), "interval": mean_interval(gains, seed, ends=GAINS)}


def gain_with_left_out(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`paired_difference` over the instances that count in either: a run that does not count is no success.

    A gain that is not left then came from what one of the two left out.
    """
    either = _by_instance([*before, *after]).keys()
    first, second = ([_as_counted(row) for row in rows if row["id"] in either] for rows in (before, after))
    return paired_difference(first, second)


def _as_counted(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row if is_counted_result(row) else {**row, "outcome": str(Outcome.AGENT_FAILURE), "success": False}


def _by_instance(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The successes of the runs of each instance that count."""
    found: dict[str, list[float]] = {}
    for row in filter(is_counted_result, rows):
        found.setdefault(row["id"], []).append(float(row["success"]))
    return found
