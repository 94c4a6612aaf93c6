"""Scores again from stored trajectories and, if a judge was used, from its stored verdicts.

Invariant: a row is what the replay gives; of the stored result only labels and token counts are used, which no replay can
compute. What a stored result lacks since it is older than a metric is left out. Equal inputs give equal digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from homerl.bench.judge import FILE, apply_stored_verdicts, judge_agreement
from homerl.bench.runner import NothingScored, why_nothing_scored
from homerl.bench.scores import build_result_row, score_results
from homerl.bench.suites import labels_in_trajectories, labels_of_blueprint
from homerl.envs.core.documents import InputError
from homerl.host.terminal import count_with_noun
from homerl.play.bench_results import METRICS, read_bench_results, read_run_facts
from homerl.play.replay import first_difference
from homerl.play.trajectory import Trajectory, absent_facts, locate_row_errors, read_rows, trajectory_from_row
from homerl.worlds.registry import restore_situation

UNSEEN = (*(key for key, metric in METRICS.items() if metric.count is None), "run")


def rescore_run(run: Path) -> str:
    """Replay a run and return a line that says that the score agrees; `InputError` names the first difference."""
    run = run.parent if run.name == "results.jsonl" else run
    folder = run.parent if run.is_file() else run
    if run.is_file() and not (folder / "score.json").is_file():
        remedy = "name a folder of `bench run`, or the trajectories.jsonl in it"
        raise InputError("no score stands beside this file", str(run), remedy)
    stored_score = read_run_facts(folder, "score.json")
    by = stored_score.get("judge", {}).get("by")
    results = read_bench_results(folder)
    trajectories = run if run.is_file() else folder / "trajectories.jsonl"
    if (there := sum(1 for _ in read_rows(trajectories))) != len(results):
        what = f"{there} trajectories for {len(results)} results"
        raise InputError(what, str(trajectories), "a file was cut or edited: run the suite again")
    again = list(rescore_trajectories(trajectories, results))
    if by:
        again = list(apply_stored_verdicts(again, folder, by))
    for number, (row, stored) in enumerate(zip(again, results, strict=True), 1):
        if row != stored:
            key = next(key for key in row | stored if row.get(key) != stored.get(key))
            where = f"{folder / 'results.jsonl'}:{number}"
            raise InputError(f"{row['id']}: {key} is {stored.get(key)}, rescored {row.get(key)}", where, "it was edited")
    scored = score_results(again, labels_in_trajectories(trajectories)) | (
        {"judge": judge_agreement(read_rows(folder / FILE), by)} if by else {}
    )
    if json.loads(json.dumps(scored)) != stored_score:
        raise InputError(
            "the score is not that of the results", str(folder / "score.json"), "score again with bench run --resume"
        )
    said = f"{folder}: {count_with_noun(len(again), 'trajectory')} replayed, the same results"
    if not scored["n"]:
        raise NothingScored(f"{why_nothing_scored(scored)}: {said}, so there is no score")
    return f"{said}; success {100 * scored['success']:.1f} %"


def rescore_trajectories(trajectories: Path, results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The result of every stored trajectory that has one, in order; raises `InputError` if a replay differs."""
    for number, (row, stored) in enumerate(zip(read_rows(trajectories), results), 1):
        where = f"{trajectories}:{number}"
        with locate_row_errors(where):
            trajectory = trajectory_from_row(row)
            if difference := first_difference(trajectory, restore_situation, absent_facts(row)):
                raise InputError(f"{trajectory.blueprint['id']}: {difference}", where, "the file was edited")
            again = rescore_trajectory(trajectory, stored)
        yield again


def rescore_trajectory(trajectory: Trajectory, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a trajectory, in the form in which one was stored."""
    # no replay can compute token counts, labels and the number of the run
    kept = {key: stored[key] for key in (*UNSEEN, *labels_of_blueprint(trajectory.blueprint)) if key in stored}
    row = build_result_row(trajectory, 0) | kept
    return {key: value for key, value in row.items() if key in stored or not (key in METRICS and METRICS[key].newer)}
