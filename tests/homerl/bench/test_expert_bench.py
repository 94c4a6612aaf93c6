"""A benchmark of the expert by a recipe: its slips are drawn by the recipe's seed."""

from pathlib import Path

from homerl.app.runs.stages import run_bench
from homerl.bench.recipe import BenchRecipe


def test_another_seed_in_the_same_folder_plays_anew(task, tmp_path):
    suite = {"name": "own", "count": 12, "recipe": task.model_dump(mode="json")}

    def played(seed: int, out: Path) -> str:
        recipe = {"homerl": 1, "run": "bench", "out": out, "seed": seed, "wandb": {"mode": "disabled"}}
        recipe |= {"agent": "expert", "expert": {"mistakes": 0.5}, "bench": {"suites": [suite]}}
        run_bench(BenchRecipe.model_validate(recipe))
        return (out / "bench/own/trajectories.jsonl").read_text("utf-8")

    first, again = played(0, tmp_path / "run"), played(1, tmp_path / "run")
    assert first != again == played(1, tmp_path / "other")
