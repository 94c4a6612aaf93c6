"""`homerl seeds`: the table of several runs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from homerl.app.cli.app import app

SUCCESSES = {  # of ten tasks, by suite and run: of the models after SFT and after RLVE
    "heldout": ((4, 6), (5, 8), (3, 7)),
    "unseen": ((1, 1), (2, 2), (0, 3)),
}


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    for suite, scores in SUCCESSES.items():
        for number, (sft, rlve) in enumerate(scores):
            for model, successes in (("untrained", 0), ("sft", sft), ("rlve", rlve)):
                write(tmp_path / f"{number}/{model}/bench/{suite}/results.jsonl", successes)
    return [tmp_path / str(number) for number in range(3)]


def write(path: Path, successes: int) -> None:
    path.parent.mkdir(parents=True)
    won = [number < successes for number in range(10)]
    same = {"families": [], "phi": False, "progress": 0.0, "tool_calls": 0, "tokens": 0}
    rows = [same | {"id": str(i), "outcome": "success" if w else "turn_limit", "success": w} for i, w in enumerate(won)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def said(*arguments: object) -> tuple[int, list[list[str]]]:
    """The exit code and the cells of the printed tables' rows."""
    done = CliRunner().invoke(app, ["seeds", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines()]


def test_the_mean_gain_has_an_interval_over_the_runs(runs):
    code, rows = said(*runs, "--suite", "heldout")
    assert code == 0
    assert ["mean", "0.0", "40.0", "70.0", "+30.0", "+5.2 to +54.8"] in rows, (
        "the gains are 20, 30 and 40: 30 ± 4.303 · 10 / √3"
    )
    assert ["spread (s.d.)", "0.0", "10.0", "10.0", "10.0", ""] in rows


def test_without_a_name_each_suite_has_a_table(runs):
    means = [row[2:5] for row in said(*runs)[1] if row[:1] == ["mean"]]
    assert means == [["40.0", "70.0", "+30.0"], ["10.0", "20.0", "+10.0"]]


def test_one_run_has_no_mean(runs):
    code, rows = said(runs[0])
    assert code == 0 and not [row for row in rows if row[:1] == ["mean"]]


def test_equal_gains_have_no_interval(tmp_path):
    for number in range(2):
        for model, successes in (("untrained", 0), ("sft", 4), ("rlve", 6)):
            write(tmp_path / f"{number}/{model}/bench/heldout/results.jsonl", successes)
    _, rows = said(tmp_path / "0", tmp_path / "1")
    assert ["mean", "0.0", "40.0", "60.0", "+20.0", ""] in rows
