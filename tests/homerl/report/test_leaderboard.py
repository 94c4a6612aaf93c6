"""`homerl bench publish`: what runs and people add to a leaderboard, what is refused, and what is marked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command import homerl

from homerl.app.play_suite import BenchRun, command_of_run
from homerl.bench.leaderboard import read_leaderboard
from homerl.report.pages.leaderboard_page import markdown_of_leaderboard, short_count
from homerl.worlds.registry import known_suites

ROOT = Path(__file__).parents[3]
SUITE, TASKS = "smh-bench", 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a shipped suite, as anybody makes one."""
    folder = tmp_path_factory.mktemp("leaderboard") / "nothing"
    done = homerl("bench", "run", SUITE, "--model", "nothing", "--limit", str(TASKS), "--price", "2,4", "--out", folder)
    assert done.code == 0, done.err
    return folder


def edit(file: Path, **changes: Any) -> None:
    """Change keys of a JSON file, or of each line of JSON Lines; None removes a key."""
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    rows = [{key: value for key, value in (json.loads(line) | changes).items() if value is not None} for line in lines]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def results_in(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text())["results"]


def write_board(file: Path, *results: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps({"homerl_leaderboard": 1, "results": results}, indent=1))
    return file


def test_a_run_is_a_row_with_all_that_its_figure_depends_on(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    done = homerl("bench", "publish", run, "--out", page, "--name", "mine", "--parameters", "8190735360")
    assert done.code == 0 and "1 result on 1 suite" in " ".join(done.out.split()), done.err
    (row,) = results_in(tmp_path / "board.json")
    score = json.loads((run / "score.json").read_text())
    assert [row[key] for key in ("n", "success", "interval")] == [score[key] for key in ("n", "success", "interval")]
    assert row["suite_sha256"] == known_suites()[SUITE][1].shipped.with_suffix(".sha256").read_text().split()[0]
    assert (row["model"], row["parameters"], row["tasks"], row["cost"]) == ("mine", 8190735360, TASKS, 0.0)
    assert row["command"] == f"homerl bench run {SUITE} --model nothing --limit {TASKS}"
    assert row["grader"] == known_suites()[SUITE][0].grader
    shown = page.read_text()
    assert "8.19B" in shown and row["command"] in shown and row["commit"][:8] in shown
    assert f"{TASKS} of 1,100 tasks" in shown


def test_what_is_published_names_no_folder_of_whoever_played(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jo = tmp_path / "home/jo"
    for name in ("models/mine", "clips"):
        (jo / name).mkdir(parents=True)
    monkeypatch.chdir(jo)
    played = BenchRun(f"{jo}/mine.jsonl", "models/mine", jo / "out", videos=jo / "clips", user="http://10.0.0.9/v1")
    assert command_of_run(played) == "homerl bench run mine.jsonl --model mine --videos clips --user URL"
    assert command_of_run(BenchRun(SUITE, "org/mine", jo)) == f"homerl bench run {SUITE} --model org/mine"
    other = shutil.copytree(run, tmp_path / "run")
    edit(other / "run.json", model="http://10.0.0.9/v1", served=f"{jo}/models/mine")
    assert homerl("bench", "publish", other, "--out", tmp_path / "board.html").code == 0
    assert str(jo) not in (tmp_path / "board.json").read_text() + (tmp_path / "board.html").read_text()


def test_results_stay_in_the_file_and_a_markdown_page_keeps_what_is_around(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "board.md"
    assert homerl("bench", "publish", run, "--out", page, "--name", "first").code == 0
    page.write_text("Before.\n\n" + page.read_text() + "\nAfter.\n")
    assert homerl("bench", "publish", run, "--out", page, "--name", "second", "--parameters", "134515008").code == 0
    assert [row["model"] for row in results_in(tmp_path / "board.json")] == ["first", "second"]
    assert page.read_text().startswith("Before.") and page.read_text().endswith("After.\n")
    assert "| first |  |" in page.read_text() and "| second | 135M |" in page.read_text()
    before = page.read_bytes()
    assert homerl("bench", "publish", "--out", page).code == 0 and page.read_bytes() == before
    page.write_text("Without marks.\n")
    done = homerl("bench", "publish", run, "--out", page, "--name", "third")
    assert done.code == 2 and "no place for the tables" in done.err
    assert len(results_in(tmp_path / "board.json")) == 2


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        ("results.jsonl", {"grader": None}, "no known version of the grader"),
        ("run.json", {"suite_sha256": "0" * 64}, "other tasks that are called"),
        ("run.json", {"suite_sha256": None}, "does not say which tasks it played"),
        ("score.json", {"success": 1.0}, "the score is not that of the results"),
        ("score.json", {"outcomes": {}}, "not played to its end"),
        ("run.json", {"model": "a|b"}, "model is 'a|b'"),
    ],
)
def test_a_run_that_cannot_be_compared_is_refused(
    run: Path, tmp_path: Path, file: str, changes: dict[str, Any], says: str
) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    edit(folder / file, **changes)
    done = homerl("bench", "publish", folder, "--out", tmp_path / "board.html")
    assert done.code == 2 and says in done.err and str(folder) in done.err.replace("\n", "")
    assert not (tmp_path / "board.json").exists() and not (tmp_path / "board.html").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grader": None}, "grader is missing"),
        ({"suite_sha256": "0" * 64}, "other tasks that are called"),
        ({"success": 0.123, "interval": [0.0, 0.5]}, "no number of successes"),
        ({"interval": [0.5, 0.6]}, "outside of its interval"),
        ({"n": 7}, "more is played or counted"),
        ({"model": "<script>"}, "model"),
        ({"n": 5}, "stands there already"),  # the same command, other figures
    ],
)
def test_a_file_of_somebody_else_is_checked_and_refused_whole(
    run: Path, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    page, file = tmp_path / "board.html", tmp_path / "board.json"
    assert homerl("bench", "publish", run, "--out", page).code == 0
    (row,) = results_in(file)
    bad = {key: value for key, value in (row | changes).items() if value is not None}
    theirs = write_board(tmp_path / "theirs.json", row | {"model": "good"}, bad)
    before = file.read_bytes(), page.read_bytes()
    done = homerl("bench", "publish", "--add", theirs, "--out", page)
    assert done.code == 2 and says in done.err and "theirs.json" in done.err.replace("\n", ""), done.err
    assert (file.read_bytes(), page.read_bytes()) == before


def test_another_grader_is_marked_and_stands_last(run: Path, tmp_path: Path) -> None:
    page, file = tmp_path / "board.md", tmp_path / "board.json"
    assert homerl("bench", "publish", run, "--out", page).code == 0
    (row,) = results_in(file)
    older = row | {"model": "older", "success": 1.0, "interval": [0.6, 1.0], "grader": row["grader"] + 1}
    theirs = write_board(tmp_path / "theirs.json", older)
    assert homerl("bench", "publish", "--add", theirs, "--out", page).code == 0
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ") and "success" not in line]
    assert [line.split(" | ")[0] for line in lines[-2:]] == ["| nothing", "| older"]
    assert f"grader {older['grader']}, now {row['grader']}" in lines[-1]


def test_sizes_are_short() -> None:
    assert [short_count(n) for n in (950, 134_515_008, 999_999_999, 8_190_735_360)] == ["950", "135M", "1B", "8.19B"]


def test_the_page_of_the_repository_is_that_of_its_file() -> None:
    page = ROOT / "docs/leaderboard.md"
    board = read_leaderboard(page.with_suffix(".json"))
    assert board.results and all(result.commit for result in board.results)
    assert markdown_of_leaderboard(board, page) == page.read_text("utf-8"), "run ./scripts/regenerate"
