"""Stored scores: who played the results in a folder, and whether a replay gives the same results and score.

A folder of a `run: bench` recipe says in `player.json` who played. (`run.json` is that of `homerl bench run`, which says
other things.) A score for the card of a model is of the whole suite, or of the tasks that `--limit` left, and of no other
model, as far as one can tell.

Invariants:
- The results in a folder are those of the player whose file lies beside them; results of earlier versions have no such
  file.
- A row that is scored again is what the replay gives; of the stored result only labels and token counts are used, which
  no replay can compute. What a stored result lacks since it is older than a metric is left out. Equal inputs give equal
  digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from homerl.bench.judge import FILE, apply_stored_verdicts, judge_agreement
from homerl.bench.runner import NothingScored, why_nothing_scored
from homerl.bench.scores import GRADER, build_result_row, is_complete_score, score_results
from homerl.bench.suites import labels_in_trajectories, labels_of_blueprint
from homerl.envs.core.documents import InputError, read_json, validate_document, write_atomic
from homerl.envs.core.model import Model
from homerl.host.terminal import count_with_noun
from homerl.play.bench_results import METRICS, read_bench_results, read_run_facts
from homerl.play.replay import first_difference
from homerl.play.trajectory import Trajectory, absent_facts, locate_row_errors, read_rows, trajectory_from_row
from homerl.train.model_sources import hash_model_weights, resolve_model_source
from homerl.worlds.registry import restore_situation

PLAYER_FILE = "player.json"
RESULTS = ("score.json", "results.jsonl", "trajectories.jsonl")
Stamp = tuple[str, int, int]


class PlayerRecord(Model):
    """The recipe, the state of its model's files, and the number of episodes of the suite.

    With `own`, the model is `model` of the recipe's folder `out`. `made` holds seed, versions and commit.
    """

    recipe: dict[str, Any]
    own: bool
    files: tuple[Stamp, ...]
    episodes: int
    made: dict[str, Any]


def read_player_record(folder: Path) -> PlayerRecord | None:
    """The player of the results in a folder; None if they do not say."""
    return validate_document(PlayerRecord, read_json(folder / PLAYER_FILE)) if (folder / PLAYER_FILE).is_file() else None


def claim_results(folder: Path, player: PlayerRecord) -> None:
    """Write the player's file, and remove results of any other player. Journals stay; they are named by who played."""
    before = read_player_record(folder)
    if before is None or before.model_copy(update={"made": player.made}) != player:
        for name in RESULTS:
            (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / PLAYER_FILE, player.model_dump_json(indent=1) + "\n")


def is_score_of_stage(folder: Path, score: Mapping[str, Any], stage: Path) -> bool:
    """Whether a score in a folder is a whole one of a stage's model. One that does not say who played is taken to be."""
    player = read_player_record(folder)
    if player is None:
        return True
    parts = 3 if Path(player.recipe["out"]).resolve() == stage.resolve() else 2  # in a copy the times of files are others
    now = [stamp[:parts] for stamp in model_file_stamps(str(stage / "model"))]
    is_own = player.own and [stamp[:parts] for stamp in player.files] == now
    return is_complete_score(score, player.episodes) and is_own


def model_file_stamps(model: str) -> list[Stamp]:
    """Name, size and time of a local model's files; empty for a model on the hub."""
    files = sorted(Path(resolve_model_source(model)).glob("*.safetensors"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def read_complete_scores(folders: Sequence[Path], model: Path) -> dict[str, dict[str, Any]]:
    """The scores in folders of `homerl bench run`, by the folders' names. Raises `InputError` for a folder without a whole
    score, and for one of another model than that of the folder `model`."""
    scores = {}
    for folder in folders:
        said, score = read_run_facts(folder, "run.json"), read_run_facts(folder, "score.json")
        if not is_complete_score(score, min(said["limit"] or said["of"], said["of"]) * said["runs"]):
            raise InputError("this benchmark was not played to its end", str(folder), "go on with homerl bench run --resume")
        if not _is_played_with(said, model):
            raise InputError("this benchmark was played with another model", str(folder), f"play it with --model {model}")
        scores[folder.resolve().name] = score
    return scores


def _is_played_with(said: Mapping[str, Any], model: Path) -> bool:
    """Whether a benchmark was played with a model, as far as anybody can tell: a server does not say what it serves."""
    if played := said.get("weights"):
        return bool(played == hash_model_weights(str(model)))
    folder = Path(resolve_model_source(said["model"]))
    same = folder.is_dir() and (
        folder.resolve() == model.resolve() or hash_model_weights(str(folder)) == hash_model_weights(str(model))
    )
    return said["model"].startswith(("http://", "https://")) or same


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
            if row.get(GRADER) != stored.get(GRADER):
                what = f"{row['id']}: version {stored[GRADER]} of the grader judged it, and this is version {row[GRADER]}"
                raise InputError(what, where, "run the suite again, or rescore it with the homerl that played it")
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
    newer = {GRADER, *(key for key, metric in METRICS.items() if metric.newer)}
    return {key: value for key, value in row.items() if key in stored or key not in newer}
