"""Who played the results in a folder: of a `run: bench` recipe, or of `homerl bench run` for the card of a model.

Invariants of a recipe: the results in a folder are those of the player whose file lies beside them; results of earlier
versions have no such file. (`run.json` beside results is that of `homerl bench run`, which says other things.)

Invariant of a card: a score is of the whole suite, or of the tasks that `--limit` left, and of no other model, as far as one
can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from homerl.bench.scores import is_complete_score
from homerl.envs.core.documents import InputError, read_json, validate_document, write_atomic
from homerl.envs.core.model import Model
from homerl.play.bench_results import read_run_facts
from homerl.train.model_sources import hash_model_weights, resolve_model_source

FILE = "player.json"
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
    return validate_document(PlayerRecord, read_json(folder / FILE)) if (folder / FILE).is_file() else None


def claim_results(folder: Path, player: PlayerRecord) -> None:
    """Write the player's file, and remove results of any other player. Journals stay; they are named by who played."""
    before = read_player_record(folder)
    if before is None or before.model_copy(update={"made": player.made}) != player:
        for name in RESULTS:
            (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / FILE, player.model_dump_json(indent=1) + "\n")


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
