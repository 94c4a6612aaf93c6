"""Scores of `homerl bench run` for the card of a model.

Invariant: a score is of the whole suite, or of the tasks that `--limit` left, and of no other model, as far as one can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from homerl.bench.score import is_complete_score
from homerl.envs.core.documents import InputError
from homerl.play.results import read_run_facts
from homerl.train.named import hash_model_weights, resolve_model_source


def read_complete_scores(folders: Sequence[Path], model: Path) -> dict[str, dict[str, Any]]:
    """The scores in folders of `homerl bench run`, by the folders' names. Raises `InputError` for a folder without a whole
    score, and for one of another model than that of the folder `model`."""
    return {folder.resolve().name: _score(folder, model) for folder in folders}


def _score(folder: Path, model: Path) -> dict[str, Any]:
    said, score = read_run_facts(folder, "run.json"), read_run_facts(folder, "score.json")
    if not is_complete_score(score, min(said["limit"] or said["of"], said["of"]) * said["runs"]):
        raise InputError("this benchmark was not played to its end", str(folder), "go on with homerl bench run --resume")
    if not _is_of(said, model):
        raise InputError("this benchmark was played with another model", str(folder), f"play it with --model {model}")
    return score


def _is_of(said: Mapping[str, Any], model: Path) -> bool:
    """Whether a benchmark was played with a model, as far as anybody can tell: a server does not say what it serves."""
    if played := said.get("weights"):
        return bool(played == hash_model_weights(str(model)))
    folder = Path(resolve_model_source(said["model"]))
    same = folder.is_dir() and (
        folder.resolve() == model.resolve() or hash_model_weights(str(folder)) == hash_model_weights(str(model))
    )
    return said["model"].startswith(("http://", "https://")) or same
