"""`homerl compare`: a sentence, a table with intervals, what differs in the recipes, and curves in one page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from command import homerl

from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import InputError
from homerl.report.figures import line_chart
from homerl.report.pages.compare_runs import compare_runs, write_comparison

NASTY = "<script>alert(1)</script>"


def results(folder: Path, wins: Sequence[int], left_out: int = 0) -> list[dict]:
    """Results of tasks, of which some say nothing of the agent."""
    rows = [
        {"id": f"task-{i}", "success": bool(win), "outcome": "success" if win else "agent_failure"}
        for i, win in enumerate(wins)
    ]
    rows += [{"id": f"lost-{i}", "success": False, "outcome": "infra_error"} for i in range(left_out)]
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def flywheel(out: Path, credit: str, sft: Sequence[int], rlve: Sequence[int], **more: object) -> Path:
    """What a flywheel leaves of its scores, curves and recipe."""
    for model, wins in (("sft", sft), ("rlve", rlve)):
        results(out / model / "bench/own", wins, left_out=2)
        lines = [{"step": step, "loss": 1 / step, "success": step / 10, "reward": 0.1 * step} for step in range(1, 9)]
        (out / model / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = {"homerl": 1, "run": "flywheel", "out": str(out), "rlve": {"credit": credit, "group": 4}} | more
    (out / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (out / "run.json").write_text("{}")
    return out


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two flywheels, of which the second is better after RLVE."""
    one = flywheel(tmp_path / "step", "step", [0, 1] * 20, [0, 1] * 20, files=[f"{tmp_path}/step/files/home.json"])
    other = flywheel(tmp_path / "anchor", "anchor", [0, 1] * 20, [1] * 40, files=[f"{tmp_path}/anchor/files/home.json"])
    return one, other


def test_the_figures_are_those_of_the_results(runs):
    found = compare_runs(*runs)
    assert [(line.suite, line.model) for line in found.lines] == [("own", "after SFT"), ("own", "after RLVE")]
    last = found.lines[-1]
    again = [[json.loads(text) for text in (run / "rlve/bench/own/results.jsonl").open()] for run in runs]
    gain = paired_difference(*again)
    assert (last.gain.n, last.gain.value, list(last.gain.interval)) == (40, gain["gain"], list(gain["interval"]))
    assert (last.first.n, last.first.value, last.second.value) == (40, 0.5, 1.0)  # what says nothing is left out


def test_the_sentence_says_which_is_better_or_that_neither_is(runs):
    assert compare_runs(*runs).verdict_sentence.startswith(
        "On own, anchor succeeds in 100.0 % of the tasks after RLVE, and step in 50.0 %:"
    )
    assert (
        compare_runs(*runs).verdict_sentence.endswith("anchor is better.")
        and "+50.0 points" in compare_runs(*runs).verdict_sentence
    )
    assert compare_runs(runs[1], runs[0]).verdict_sentence.endswith("anchor is better.")
    copied = shutil.copytree(runs[0], runs[0].with_name("copied"))
    assert compare_runs(runs[0], copied).verdict_sentence.endswith("neither is clearly better.")


def test_a_run_is_not_called_better_by_what_it_left_out_and_a_fall_of_n_is_said(tmp_path):
    results(tmp_path / "honest", [0, 1] * 20)
    rows = results(tmp_path / "shy", [0, 1] * 20)
    for row in rows[:20:2]:  # ten of its failures
        row["outcome"] = "user_error"
    (tmp_path / "shy/results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = compare_runs(tmp_path / "honest", tmp_path / "shy")
    assert found.lines[0].second.n == 30 and found.verdict_sentence.endswith(
        "neither is clearly better. shy counts 30 episodes, honest 40; with what was left out as failed, the gain is "
        "+0.0 points."
    )
    # A gain in what both count does not make up for what was left out.
    for row in rows:
        row |= {"success": True, "outcome": "success"} if row["outcome"] != "user_error" else {}
    (tmp_path / "shy/results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.rmtree(tmp_path / "honest")
    results(tmp_path / "honest", [1] * 30 + [0] * 10)
    line = compare_runs(tmp_path / "honest", tmp_path / "shy").lines[0]
    assert line.gain.interval[0] > 0 and line.whole_gain.value == 0 and line.better == 0


def test_only_keys_that_differ_are_listed_and_no_path_within_the_runs(runs):
    assert compare_runs(*runs).recipe_differences == [("rlve.credit", "step", "anchor")]


def test_stages_folders_of_benchmarks_and_files_can_be_compared(runs, tmp_path):
    one, other = runs
    gains = []
    for first, second in (
        (one / "rlve", other / "rlve"),
        (one / "rlve/bench/own", other / "rlve/bench/own"),
        (one / "rlve/bench/own/results.jsonl", other / "rlve/bench/own/results.jsonl"),
        (one, other / "rlve"),
    ):
        found = compare_runs(first, second)
        gains.append(found.lines[-1].gain.value)
        assert found.first.name.startswith("step") and found.second.name.startswith(("anchor", "rlve"))
    assert gains == [0.5] * 4


def test_what_shares_no_task_or_is_none_is_refused(runs, tmp_path):
    with pytest.raises(InputError, match="there are no results here\nname the folder of a flywheel that has finished"):
        compare_runs(runs[0], Path(tmp_path, "step/sft/bench"))
    results(tmp_path / "far/sft/bench/another", [1])
    results(tmp_path / "far/sft/bench/third", [1])
    with pytest.raises(InputError, match="the two runs share no suite: own and another, third"):
        compare_runs(runs[0], tmp_path / "far")
    said = homerl("compare", runs[0], tmp_path / "stap").err
    assert "did you mean" in said and str(tmp_path / "step") in said


def test_tasks_that_only_share_their_names_are_not_compared(runs, tmp_path):
    other = flywheel(tmp_path / "other", "step", [0, 1] * 20, [1] * 40)
    for side, families in ((runs[0], ["atomic"]), (other, ["atomic", "atomic"])):
        for path in side.glob("*/bench/own/results.jsonl"):
            rows = [json.loads(line) | {"families": families} for line in path.read_text().splitlines()]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="the tasks of own have the same names, and are others"):
        compare_runs(runs[0], other)
    for run in (runs[0], other):
        assert compare_runs(run, shutil.copytree(run, tmp_path / f"copy of {run.name}")).lines


def test_the_page_has_both_curves_in_one_chart_and_escapes_everything(runs, tmp_path):
    (runs[1] / "recipe.yaml").write_text(yaml.safe_dump({"run": "flywheel", "out": str(runs[1]), NASTY: NASTY}))
    page = write_comparison(compare_runs(*runs), tmp_path / "page.html").read_text()
    assert NASTY not in page and "<script" not in page and not re.search(r"(src|href)=.http", page)
    charts = re.findall(r"<svg viewBox.*?</svg>", page, re.S)
    assert len(charts) == 3 and all('class="curve"' in chart and 'class="curve other"' in chart for chart in charts)


def test_curves_of_two_runs_share_their_axes():
    alone, both = (line_chart("l", [(1, 0.0), (10, 1.0)], other=other) for other in ((), [(1, 0.0), (20, 4.0)]))
    assert "20</text>" in both and "20</text>" not in alone and alone.count("<path") == 2 and both.count("<path") == 4
    assert line_chart("l", [], other=[(1, 0.0), (2, 1.0)]).count("<path") == 2


def test_the_command_prints_and_writes_the_page(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = homerl("compare", *runs)
    said = " ".join(done.out.split())
    assert done.code == 0 and "page: compare.html" in said and "rlve.credit step anchor" in said
    assert Path("compare.html").is_file()
