"""The study of credit modes: each mode learns an easy task, and the script prints a table."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_every_mode_learns_the_task_of_eight_independent_steps(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import credit_study

    for mode in credit_study.MODES:
        found = credit_study.curve(mode, "eight", 0, 10)
        assert len(found) == 6 and found[-1] > found[0] + 0.1, mode


@pytest.mark.long
def test_the_script_prints_modes_and_how_they_differ():
    command = [sys.executable, BENCHMARKS / "credit_study.py", "--seeds", "2", "--updates", "2", "--tasks", "long", "eight"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[1] == "| mode | long | eight |" and [line.split()[1] for line in printed[3:]] == [
        "trajectory", "index", "state", "anchor", "branch",
    ]  # fmt: skip
    assert all(line.count(" to ") == 2 for line in printed[4:])
