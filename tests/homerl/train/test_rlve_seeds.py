"""`scripts/rlve_seeds`: the RLVE of a flywheel again, from the same SFT model, with other seeds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import python

from homerl.app.runs.flywheel import flywheel_stages
from homerl.app.runs.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/benchmarks/rlve_seeds.py"


@pytest.fixture
def rlve_seeds(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import rlve_seeds

    return rlve_seeds


def test_another_seed_draws_other_rollouts_and_tasks_and_plays_the_same_suites(rlve_seeds, tmp_path):
    run = tmp_path / "run"
    recipe = load_recipe(ROOT / "recipes/smoke.yaml", ["--out", str(run)])
    made = [rlve_seeds.with_seed(recipe, run, "rlve", seed) for seed in (1, 2)]
    trained, played = zip(
        *([stage for stage, _ in flywheel_stages(one) if Path(stage["out"]).name == "rlve"] for one in made)
    )
    assert [stage["seed"] for stage in trained] == [1, 2]
    seeds = [
        range(one["first_seed"], one["first_seed"] + one["count"]) for one in (stage["blueprints"] for stage in trained)
    ]
    assert not set(seeds[0]) & set(seeds[1]) and not set(seeds[0]) & set(
        range(1_000_000, 1_000_000 + recipe.blueprints.count)
    )
    assert (
        played[0]["bench"] == played[1]["bench"] == load_recipe(ROOT / "recipes/smoke.yaml").model_dump(mode="json")["bench"]
    )
    assert len({one.out for one in made} | {run}) == 3
    assert rlve_seeds.with_seed(recipe, run, "rlve", 0) == recipe


RUN = (
    "import os, runpy, sys; del sys.argv[0]; sys.path.insert(0, os.path.dirname(sys.argv[0]));"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "no SFT model": ([], "no SFT model"),
        "a key of SFT": (["--name", "x", "--sft.epochs", "2"], "--sft.epochs would change more than RLVE"),
        "keys without a name": (["--rlve.credit", "trajectory"], "other keys need a name"),
    }.values(),
)
def test_what_does_not_fit_is_refused(tmp_path, arguments, message):
    if arguments:
        (tmp_path / "sft/model").mkdir(parents=True)
    done = python(RUN, SCRIPT, tmp_path, *arguments)
    assert done.returncode == 2 and message in done.stderr


def test_runs_with_other_keys_are_paired_with_the_plain_ones(rlve_seeds, tmp_path):
    for name, won in {"run": 4, "run-rlve/1": 5, "run-x/0": 6, "run-x/1": 9}.items():
        rows = [{"id": str(i), "outcome": "success" if i < won else "turn_limit", "success": i < won} for i in range(10)]
        path = tmp_path / name / "rlve/bench/heldout/results.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain, other = [tmp_path / "run", tmp_path / "run-rlve/1"], [tmp_path / "run-x" / seed for seed in "01"]
    said = rlve_seeds.difference("x", plain, other, "heldout")
    assert said == "x − rlve on heldout: +30.0; over the 2 seeds -97.1 to +157.1"  # 20 and 40: 30 ± 12.706 · 10


@pytest.mark.long
def test_a_finished_flywheel_gets_a_second_run_of_rlve_alone(tmp_path):
    run = tmp_path / "run"
    subprocess.run([sys.executable, "-m", "homerl", "run", "recipes/smoke.yaml", "--out", run], check=True, cwd=ROOT)
    command = [sys.executable, SCRIPT, run, "--seeds", "0", "1", "--processes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "RLVE − SFT of all runs" in done.stdout and "mean" in done.stdout
    other = tmp_path / "run-rlve/1"
    assert (other / "sft").is_symlink() and (other / "rlve/model/model.safetensors").exists()
    first, second = (Path(folder / "rlve/metrics.jsonl").read_text() for folder in (run, other))
    assert first != second
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout[-len(again.stdout) :] and "update" not in again.stderr
