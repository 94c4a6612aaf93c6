"""Trajectories that an earlier version stored: they load, replay, score the same, and are written as they were."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from homerl.bench.stored_scores import rescore_trajectory
from homerl.play.replay import reverify_file
from homerl.play.trajectory import trajectory_from_row, trajectory_to_row
from homerl.worlds.registry import restore_situation

FOLDER = Path(__file__).parent / "previous"
RESULTS = ".results.jsonl.xz"
FILES = sorted(path.name.removesuffix(".jsonl.xz") for path in FOLDER.glob("*.jsonl.xz") if not path.name.endswith(RESULTS))
SCORED = sorted(path.name.removesuffix(RESULTS) for path in FOLDER.glob(f"*{RESULTS}"))


def text_of(name: str) -> str:
    with lzma.open(FOLDER / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return file.read()


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(name).splitlines()]


def test_the_sample_is_varied():
    rows = [row for name in FILES for row in rows_of(name)]
    assert {"hf", "smh", "direct", "simu", "rlve", "odd"} < set(FILES) and len(SCORED) == 8
    assert {"success", "agent_failure", "turn_limit", "step_limit", "user_error"} <= {row["outcome"] for row in rows}
    facts = [step["facts"] for row in rows for step in json.loads(row["steps"])]
    assert any(fact["code"] for fact in facts) and any(fact["blocked"] for fact in facts)
    assert all("calls" not in fact for fact in facts)


@pytest.mark.parametrize("name", FILES)
def test_it_replays_as_recorded(name, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(text_of(name), encoding="utf-8")
    assert f"{len(rows_of(name))} trajectories" in reverify_file(path, restore_situation)


@pytest.mark.parametrize("name", FILES)
def test_it_is_written_as_it_was(name):
    for row in rows_of(name):
        again = trajectory_to_row(trajectory_from_row(row))
        assert again == {key: row[key] for key in again}


@pytest.mark.parametrize("name", SCORED)
def test_it_scores_as_it_did(name):
    for row, result in zip(rows_of(name), rows_of(f"{name}.results"), strict=True):
        assert rescore_trajectory(trajectory_from_row(row), result) == result
