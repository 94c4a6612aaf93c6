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


def test_a_figure_of_fewer_episodes_is_not_called_better_by_what_was_left_out(tmp_path: Path, capsys):
    """An agent that fails every second task and has these left out succeeds in all that is left."""
    exchange = Exchange(1)

    def keeps(_: int) -> list[bool]:
        recipe = {
            "homerl": 1,
            "run": "rlve",
            "model": {"name": "any"},
            "out": tmp_path,
            "evaluation": {"every": 1, "count": 100},
        }

        def better(update: int, success: float | None, counted: float) -> bool:
            figures = {"eval/counted": counted} | ({} if success is None else {"eval/success": success})
            return held.keep_best_model(update, figures, lambda folder: Path(folder).mkdir(parents=True))

        held = HeldOutEvaluation(RLVERecipe.model_validate(recipe), None, exchange.rank(0))
        first = [better(1, 0.47, 1.0), better(2, 1.0, 0.47), better(3, None, 0.0), better(4, 0.6, 0.9)]
        held = HeldOutEvaluation(RLVERecipe.model_validate(recipe), None, exchange.rank(0))  # a resumed run
        return [*first, better(5, 0.53, 1.0), better(6, 0.55, 1.0)]

    assert exchange.all(keeps) == [[True, False, False, True, False, True]]
    said = capsys.readouterr()
    assert "evaluation 2: 47 of 100 episodes count, 100 did" in said.out + said.err
    assert "evaluation 5" not in said.out + said.err
