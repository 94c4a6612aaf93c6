"""The evaluation of the policy in training; what it plays and keeps is tested with its trainer (`test_rlve_contract.py`)."""

import json
from pathlib import Path

from scripted_rollouts import Exchange

from homerl.train.recipe import RLVERecipe
from homerl.train.update.evaluation import HeldOutEvaluation


def test_all_ranks_compare_with_the_score_that_the_first_one_finds(tmp_path: Path):
    """Each machine may have a disk of its own: a rank that found no score would save a model, and wait for the others."""
    found = tmp_path / "0" / "best"
    found.mkdir(parents=True)
    (found / "score.json").write_text(json.dumps({"update": 3, "success": 0.5}))
    exchange = Exchange(2)

    def best(rank: int) -> float:
        recipe = {"homerl": 1, "run": "rlve", "model": {"name": "any"}, "out": tmp_path / str(rank)}
        return HeldOutEvaluation(RLVERecipe.model_validate(recipe), None, exchange.rank(rank)).best

    assert exchange.all(best) == [0.5, 0.5]
