"""The check of `scripts/benchmark --check`, by a clock that only the operations move."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from ratios import FACTOR, STORED, Ratios, ratio


class Clock:
    """Stands still but for what is done, and in three of four turns somebody else has the core."""

    def __init__(self, pace: float = 1.0) -> None:
        self.now, self.pace, self.busy = 0.0, pace, Random(0)

    def __call__(self) -> float:
        return self.now

    def act(self, seconds: float) -> Callable[[], None]:
        def spend() -> None:
            self.now += seconds * self.pace + self.busy.choice([0.0, 0.5, 1.0, 2.0])

        return spend


@pytest.mark.parametrize("pace", [1.0, 7.0])
@pytest.mark.parametrize("seconds", [5e-4, 1e-3, 0.2])
def test_a_ratio_is_that_of_the_times_on_a_slow_and_on_a_busy_machine(seconds: float, pace: float) -> None:
    clock = Clock(pace)
    assert ratio(clock.act(seconds), clock, clock.act(1e-3)) == pytest.approx(seconds / 1e-3, rel=1e-3)


def test_what_became_dear_or_is_new_is_named() -> None:
    ratios = Ratios({"fork": 1.0, "step": 1.0}, {"fork": FACTOR + 0.1, "step": FACTOR - 0.1, "leap": 1.0})
    assert str(ratios.fault("fork")).startswith("fork: 2.1 times the baseline, more than 2 times the 1 stored")
    assert ratios.fault("step") is None
    assert "leap" in str(ratios.fault("leap")) and "--store" in str(ratios.fault("leap"))


def test_what_was_measured_is_stored_beside_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    Ratios({"fork": 1.0, "step": 1.0}, {"fork": 3.14159}).store(path)
    assert Ratios.load(path).stored == {"fork": 3.14, "step": 1.0}


def test_the_check_fails_with_the_names_of_what_became_dear(tmp_path: Path) -> None:
    """The plugin itself, on a benchmark that takes long by any clock and one that takes none."""
    (tmp_path / "ratios.json").write_text('{"test_dear": 1e-9, "test_cheap": 1e9}')
    (tmp_path / "test_them.py").write_text(
        "def test_dear(benchmark):\n    benchmark(lambda: sum(range(1000)))\n"
        "def test_cheap(benchmark):\n    benchmark.pedantic(lambda: None, rounds=3)\n"
    )
    code = f"import pathlib, pytest, ratios; ratios.STORED = pathlib.Path({str(tmp_path / 'ratios.json')!r}); "
    options = "['-p', 'ratios', '-p', 'no:benchmark', '-p', 'no:cacheprovider', '-rfE', 'test_them.py']"
    path = f"{Path(__file__).parent / 'helpers'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys = __import__('sys'); sys.exit(pytest.main({options}))"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and re.search("2 passed.* 1 error", done.stdout), done.stdout + done.stderr
    assert "ERROR test_them.py::test_dear" in done.stdout and "more than 2 times the 1e-09 stored" in done.stdout


@pytest.mark.long
def test_every_benchmark_has_a_stored_ratio() -> None:
    """As `--collect-only` names them: one that nobody stored would fail the check, and one that is gone would hide."""
    folder, whole = STORED.parent, ("-m", "long or not long")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(folder), *whole, "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    assert names and names == set(Ratios.load().stored)
