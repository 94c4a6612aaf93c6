"""A launcher starts a process for each GPU, whatever the recipe. Only training is for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from launches import LAUNCHERS

ROOT = Path(__file__).parents[3]
SYNTH = f"{ROOT}/recipes/synth.yaml --synth.blueprints 8 --processes 1 --synth.curriculum []".split()


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([*map(str, command)], env=env, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize(
    "recipe", ["quickstart.yaml", *(pytest.param(name, marks=pytest.mark.long) for name in ("synth.yaml", "bench"))]
)
def test_a_second_process_leaves_all_but_training_to_the_first(tmp_path: Path, recipe: str) -> None:
    path = ROOT / "recipes" / recipe
    if recipe == "bench":
        path = tmp_path / "bench.yaml"
        path.write_text(yaml.safe_dump({"homerl": 1, "run": "bench", "agent": "keywords", "cpu": True}))
    done = run(sys.executable, path, "--out", tmp_path / "made", RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "") and not (tmp_path / "made").exists()


@pytest.mark.long
def test_two_processes_make_a_dataset_once(tmp_path: Path) -> None:
    done = run(*LAUNCHERS["two ranks"], *SYNTH, "--out", tmp_path / "two")
    assert done.returncode == 0 and done.stdout.count("trajectories of 8 blueprints") == 1, done.stderr
    assert run(sys.executable, *SYNTH, "--out", tmp_path / "one").returncode == 0
    data = [(tmp_path / name / "trajectories.jsonl").read_bytes() for name in ("one", "two")]
    assert data[0] == data[1] and data[0]
