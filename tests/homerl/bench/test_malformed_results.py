"""Results, journals, difficulties and dialogues of a stranger: one message with file and line, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import homerl

from homerl.bench.runner import BenchJournal, write_bench_results
from homerl.envs.core.documents import InputError
from homerl.play.bench_results import SCORED, read_results_file
from homerl.report.pages.compare_runs import build_seeds_table
from homerl.train.data.curriculum import read_difficulties
from tests.homerl.play.test_malformed_rows import JUNK

RESULT: dict[str, Any] = {
    "id": "0", "outcome": "success", "success": True, "families": ["atomic"], "phi": True, "progress": 1.0, "tool_calls": 2,
    "tokens": 5, "prompt_tokens": 9, "error": None, "undecided": False, "false_claims": 0, "run": 0,
    "fault": {"boundary": "user", "reason": "it left"},
}  # fmt: skip


def test_a_result_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(json.dumps(RESULT | {"own": [1]}) + "\n")
    assert read_results_file(tmp_path / "results.jsonl", SCORED) == (RESULT | {"own": [1]},)


@pytest.mark.parametrize("key", sorted(RESULT))
def test_no_junk_in_a_result_reaches_a_figure(tmp_path: Path, key: str) -> None:
    for model in ("untrained", "sft", "rlve"):
        (tmp_path / model / "bench/own").mkdir(parents=True)
        (tmp_path / model / "bench/own/results.jsonl").write_text(json.dumps(RESULT) + "\n")
    file = tmp_path / "sft/bench/own/results.jsonl"
    for junk in JUNK:
        file.write_text(json.dumps(RESULT) + "\n" + json.dumps(RESULT | {key: junk, "tokens": 10**400} | {key: junk}) + "\n")
        try:
            build_seeds_table([tmp_path], "own")
        except InputError as error:
            assert str(error.where) == f"{file}:2", junk


def test_comparing_names_the_line(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps(RESULT) + "\n")
    bad.write_text(json.dumps(RESULT) + "\n" + json.dumps(RESULT | {"tokens": "many"}) + "\n")
    done = homerl("compare", good, bad)
    assert done.code == 2 and f"{bad}:2" in done.err and "tokens" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "[]",
        "{}",
        "\\ud800",
        '{"index": true, "counts": true}',
        '{"index": 1, "counts": 1}',
        '{"index": "a", "counts": true}',
        '{"index": {}, "counts": true}',
        '{"index": -1, "counts": true}',
    ],
)
def test_a_journal_of_a_stranger_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"index": 0, "counts": true}\n' + line + "\n")
    with pytest.raises(InputError) as caught:
        BenchJournal(tmp_path / "a.jsonl")
    assert str(caught.value.where) == f"{tmp_path / 'a.jsonl'}:2"


@pytest.mark.parametrize("change", [{"result": None}, {"result": RESULT | {"phi": 1}}, {"trajectory": []}, {"result": {}}])
def test_so_is_what_a_journal_holds(tmp_path: Path, change: dict[str, Any]) -> None:
    rows = [{"index": 1, "counts": True, "result": RESULT, "trajectory": {}}, {"index": 0, "counts": True, "trajectory": {}}]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (rows[0] | change, rows[1] | {"result": RESULT}))
    )
    with pytest.raises(InputError) as caught:
        write_bench_results(BenchJournal(tmp_path / "a.jsonl"), 2, tmp_path / "out")
    assert str(caught.value.where) == f"{tmp_path / 'a.jsonl'}:1"


@pytest.mark.parametrize(
    "junk", [{"difficulty": "hard"}, {"difficulty": True}, {"difficulty": 1e999}, {"id": 3}, {"id": []}]
)
def test_a_difficulty_is_a_number_of_a_blueprint(tmp_path: Path, junk: dict[str, Any]) -> None:
    from homerl.train.recipe import CurriculumSettings

    file = tmp_path / "blueprints.jsonl"
    file.write_text(
        json.dumps({"id": "train-0", "difficulty": 0.5})
        + "\n"
        + json.dumps({"id": "train-1", "difficulty": 1} | junk)
        + "\n"
    )
    with pytest.raises(InputError) as caught:
        read_difficulties(CurriculumSettings(by="difficulty", synthesis=str(tmp_path)), None)
    assert str(caught.value.where) == f"{file}:2"
