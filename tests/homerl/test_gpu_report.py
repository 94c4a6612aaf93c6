"""Every part of scripts/gpu_report runs start to end, in tiny on a CPU; what it says is what it found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {
    "sft_8b_lora": ("tokens_per_second", "seconds_per_update"),
    "sft_4b": ("tokens_per_second", "seconds_per_update"),
    "rlve_8b_lora": ("seconds_per_update", "by_share", "engine"),
    "generate_transformers": ("tokens_per_second", "tokens"),
    "generate_continuous": ("tokens_per_second", "tokens"),
    "scratch_100m": ("untrained", "sft", "rlve", "rlve - sft", "trajectories", "parameters"),
}


def report(folder: Path, *parts: str) -> dict:
    command = [sys.executable, ROOT / "scripts/gpu_report", "--tiny", "--out", folder / "report.json", *parts]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return json.loads((folder / "report.json").read_text())


QUICK = "generate_transformers"  # by which every run of the tests knows that the script still fits what it calls


@pytest.mark.timeout(700)
@pytest.mark.parametrize("part", [part if part == QUICK else pytest.param(part, marks=pytest.mark.long) for part in PARTS])
def test_every_part_turns(part, tmp_path):
    found = report(tmp_path, part)[part]
    assert "failed" not in found, found["failed"]
    assert set(PARTS[part]) <= set(found)
    if part == "scratch_100m":
        assert all(found[name]["n"] == 6 and len(found[name]["interval"]) == 2 for name in ("untrained", "sft", "rlve"))
        assert found["sft updates"] == 4 and found["rlve updates"] == 1


def test_a_part_that_does_not_exist_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/gpu_report", "--tiny", "nothing"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "nothing is no part of this report: sft_8b_lora" in done.stderr
