"""The study of strategies: what each keeps, at equal calls, and that it runs end to end at the smallest size."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "tests" / "benchmarks"


@pytest.fixture
def strategies(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import strategy_study as strategies

    return strategies


def kept(strategies, name: str, calls: int = 60):
    blueprints = [strategies.blueprint_of("train", seed) for seed in range(6)]
    found = [asyncio.run(strategies.dialogues(one, name, calls, 100 * i)) for i, one in enumerate(blueprints)]
    return [trajectory for some in found for trajectory in some]


def test_text_alone_keeps_what_failed_and_searches_what_is_proved(strategies):
    unproved = kept(strategies, strategies.M1)
    for dialogues in (unproved, kept(strategies, strategies.UNPROVED)):
        assert 0 < sum(trajectory.success for trajectory in dialogues) < len(dialogues) / 2
    second, third = (kept(strategies, name) for name in (strategies.M2, strategies.M3))
    assert all(trajectory.success for trajectory in (*second, *third))
    assert len(unproved) > len(third) > len(second) > 0


def test_the_same_seed_gives_the_same_dialogues(strategies):
    first, second = (kept(strategies, strategies.M3, 40) for _ in range(2))
    assert [one.messages for one in first] == [one.messages for one in second]


@pytest.mark.long
def test_the_study_runs_and_goes_on(tmp_path):
    command = [sys.executable, BENCHMARKS / "strategy_study.py", "--out", tmp_path, "--seeds", "1", "--blueprints", "12"]
    command += ["--calls", "60", "--updates", "1", "--base", "0.1"]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert printed[0].splitlines()[-9:] == printed[1].splitlines()[-9:]
    done = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert len(done) == 7 and all(len(one["solved"]) == 300 for one in done)
