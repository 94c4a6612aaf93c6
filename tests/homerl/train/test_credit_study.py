"""The study of credit modes: each mode learns an easy task, and the script prints a table."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from differences import holm  # noqa: E402


def test_every_mode_learns_the_task_of_eight_independent_steps(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import credit_study

    for mode in credit_study.MODES:
        found = credit_study.curve(mode, "eight", 0, 10)
        assert len(found) == 6 and found[-1] > found[0] + 0.1, mode


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_correction_keeps_the_order_and_never_lowers(chances):
    adjusted = holm(chances)
    assert all(after >= before and after <= 1 for before, after in zip(chances, adjusted, strict=True))
    assert [adjusted[i] for i in sorted(range(len(chances)), key=chances.__getitem__)] == sorted(adjusted)
    assert min(adjusted) <= min(1.0, len(chances) * min(chances)) + 1e-12


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.long
def test_the_script_prints_modes_and_how_they_differ():
    command = [sys.executable, BENCHMARKS / "credit_study.py", "--seeds", "2", "--updates", "2", "--tasks", "long", "eight"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[1] == "| mode | long | eight |" and [line.split()[1] for line in printed[3:]] == [
        "trajectory",
        "index",
        "state",
        "anchor",
    ]
    assert all(line.count(" to ") == 2 for line in printed[4:])
