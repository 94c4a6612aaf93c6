"""A real run of a small suite, and all that `homerl personalhome` makes of it: figures, judges, reflection, pages."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import command
import pytest
from rich.console import Console
from scripted_server import ScriptedServer
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.bench.runner import EpisodePace, ParticipantFactories, SuiteInstances, run_suite
from homerl.bench.scores import score_results
from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.judged_runs import REVISIONS, VERDICTS, merge_verdicts
from homerl.envs.personalhome.bench.run_results import read_named_results
from homerl.envs.personalhome.bench.scores_report import build_scores_report, render_scores, scores_terminal_tables
from homerl.envs.personalhome.bench.suite import build_household_instances
from homerl.envs.personalhome.tasks.expert import BASELINES, right_answer
from homerl.report.pages.bench_report import write_bench_report

LANGUAGE = "en"


@pytest.fixture(scope="module")
def instances():
    return list(build_household_instances(2026, LANGUAGE, Counter(), households=3))


@pytest.fixture(scope="module")
def played(instances, tmp_path_factory):
    """The folders of two agents."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("expert", "nothing"):
        factories = ParticipantFactories(BASELINES[name], identity=name)
        run_suite(SuiteInstances(instances, "agentic", 1), factories, folder / name, EpisodePace(4, waves=False))
        run = {"suite": "personalhome-bench", "model": name, "setting": "agentic"}
        (folder / name / "run.json").write_text(json.dumps(run))
    return folder


@pytest.fixture
def runs(played, tmp_path):
    """Copies of the folders, for a test to add to."""
    folders = []
    for name in ("expert", "nothing"):
        (tmp_path / name).mkdir()
        for file in ("results.jsonl", "trajectories.jsonl", "run.json", "score.json"):
            (tmp_path / name / file).write_bytes((played / name / file).read_bytes())
        folders.append(tmp_path / name)
    return folders


def judge(request):
    """Rates the first program with 4 and others with 2; prefers the longer plan; finds every answer right."""
    system, text = (message["content"] for message in request["messages"])
    form = json.loads(system.splitlines()[-1])
    if "overall_order" in form:
        plans = json.loads(text)["plans"]
        best = sorted(plans, key=lambda letter: len(json.dumps(plans[letter])), reverse=True)
        parts = dict.fromkeys(form["persona_order"], best)
        return {"content": json.dumps({"overall_order": best, "persona_order": parts, "rationale": "so"})}
    for number, program in form.items():
        if isinstance(program, int):
            form[number] = 1
            continue
        program["overall_score"] = 4 if number == "1" else 2
    return {"content": json.dumps(form)}


def homerl(*arguments):
    """Run a command; return (exit code, what it printed)."""
    found = CliRunner().invoke(app, ["personalhome", *map(str, arguments)], env={"COLUMNS": "100"})
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.output


def judging(server, *more):
    return (*more, "--judge-url", server.url, "--judge-model", "scripted")


def table(found, title):
    """A table's lines as texts by label."""
    (one,) = (table for table in found.tables if table.title.startswith(title))
    return {line.label: tuple(cell and cell.text for cell in line.cells) for line in one.lines}


def test_the_expert_is_perfect_and_nothing_earns_nothing(runs):
    code, said = homerl("scores", *runs)
    assert code == 0 and "No judge has been asked" in said
    found = build_scores_report(runs)
    assert table(found, "Questions, accuracy")["IG"] == ("100.0", "0.0")
    assert table(found, "Features, MAP from 0 to 1")["RRS, 0 is best"] == ("0.00", "27.00")
    assert table(found, "Plans")["steps go together, %"] == ("100.0", "0.0")
    assert table(found, "Errors")["PG, empty output"] == ("0", "3")
    assert all(line.label in said for one in found.tables for line in one.lines), "80 columns are enough for every label"


def test_many_runs_stand_in_several_tables_of_a_terminal_and_nothing_is_cut(runs, capsys):
    found = build_scores_report(runs)
    found = replace(found, tables=tuple(map(thrice, found.tables)))
    for width in (60, 80, 200):
        Console(width=width).print(scores_terminal_tables(found, width))
        shown = capsys.readouterr().out
        assert "…" not in shown and max(map(len, shown.splitlines())) <= width
        assert shown.count("RRS, 0 is best") > 1 or width == 200
        assert all(line.label in shown for one in found.tables for line in one.lines)


def thrice(table):
    """The table of three times as many runs."""
    lines = tuple(replace(line, cells=3 * line.cells) for line in table.lines)
    return replace(table, heads=3 * table.heads, lines=lines)


def test_the_judges_are_asked_once_and_scores_asks_nobody(runs):
    with ScriptedServer(answer=judge) as server:
        assert homerl("judge", *runs, *judging(server, "--relative"))[0] == 0
        asked = len(server.requests)
        assert homerl("judge", *runs, *judging(server, "--relative"))[0] == 0 and len(server.requests) == asked
    assert asked == 3 + 2 * 3, "each plan of the expert, and each pair of plans twice"
    found = build_scores_report(runs)
    plans = table(found, "Plans")
    assert plans["RPJ rel, best plan, %"] == ("100.0", "0.0") and plans["RPJ abs, 1 to 5"][1] == "1.00"
    assert table(found, "Questions with the judge")["IG"] == ("100.0", "0.0")
    assert render_scores(found) == render_scores(build_scores_report(runs)) and homerl("scores", *runs) == homerl(
        "scores", *runs
    )


def test_a_judge_that_was_killed_goes_on_with_what_is_missing(runs):
    expert, file = runs[0], runs[0] / VERDICTS
    with ScriptedServer(answer=judge) as server:
        homerl("judge", expert, *judging(server))
        whole, figures = file.read_bytes(), build_scores_report([expert])
        file.write_bytes(whole[: len(whole) // 2])
        kept = whole[: len(whole) // 2].count(b"\n")
        assert 0 < kept < 3
        server.requests.clear()
        assert homerl("judge", expert, *judging(server))[0] == 0 and len(server.requests) == 3 - kept
    assert build_scores_report([expert]) == figures, "the same digits"
    file.write_bytes(b"{broken}\n" + whole)
    with pytest.raises(InputError, match="not a verdict"):
        build_scores_report([expert])


def test_a_judge_that_is_away_is_told_by_the_exit_code_and_by_the_report(runs):
    with ScriptedServer(answer=lambda request: {"content": "well"}) as server:
        code, said = homerl("judge", runs[0], *judging(server))
    assert code == 1 and "0 of 3" in said
    assert any("3 questions to the judge have no verdict" in note for note in build_scores_report([runs[0]]).notes)


def test_of_several_judges_one_is_named(runs):
    with ScriptedServer(answer=judge) as server:
        for name in ("one", "two"):
            homerl("judge", runs[0], "--judge-url", server.url, "--judge-model", name)
    with pytest.raises(InputError, match="several judges"):
        build_scores_report(runs)
    with pytest.raises(InputError, match="has given no verdict"):
        build_scores_report(runs, "three")
    assert "The judge is two" in " ".join(build_scores_report(runs, "two").notes)


def test_the_judge_of_meaning_decides_what_rules_leave_open(runs):
    expert = runs[0]
    rows = [json.loads(line) for line in (expert / "trajectories.jsonl").read_text().splitlines()]
    (first, *_) = (row for row in rows if "grounding" in row["id"])
    steps = json.loads(first["steps"])
    said = json.loads(steps[-1]["message"]["content"])
    said["original"]["answer"] = f"I think that it is {said['original']['answer']}"
    steps[-1]["message"]["content"] = first["messages"][-1]["content"] = json.dumps(said)
    first["steps"] = json.dumps(steps)
    (expert / "trajectories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ScriptedServer(answer=judge) as server:
        homerl("judge", expert, *judging(server))
        (asked,) = (r for r in server.requests if "wordings" in r["messages"][0]["content"])
    assert list(json.loads(asked["messages"][1]["content"])) == ["o"]
    assert table(build_scores_report([expert]), "Questions with the judge")["IG"] == ("100.0",)
    merge_verdicts(read_named_results([expert])).add_row(_without_verdict(expert))
    assert table(build_scores_report([expert]), "Questions with the judge")["IG"] == ("66.7",), (
        "without a verdict it is wrong"
    )


def _without_verdict(folder):
    rows = [json.loads(line) for line in (folder / VERDICTS).read_text().splitlines()]
    return next(
        {key: value for key, value in row.items() if key != "verdict"} for row in rows if row["mode"] == "equivalence"
    )


def agent_of(instances):
    """An agent that looks who lives there, and then gives the right plan; it must have been told of its empty one."""
    right = {one.blueprint.household.household_id: right_answer(one.blueprint) for one in instances if one.category == "PG"}

    def answer(request):
        last = request["messages"][-1]
        if last["role"] == "tool":
            (found,) = (plan for id, plan in right.items() if f'"{id}"' in last["content"])
            return {"content": found}
        assert "No program could be read" in last["content"] and request["tools"]
        function = {"name": "get_household_profile", "arguments": "{}"}
        return {"content": "", "tool_calls": [{"id": "call_0", "type": "function", "function": function}]}

    return answer


def test_reflection_goes_on_in_the_same_episode_and_is_shown_before_and_after(runs, instances):
    nothing, agent = runs[1], agent_of(instances)
    answer = lambda request: judge(request) if request["model"] == "scripted" else agent(request)  # noqa: E731
    with ScriptedServer(answer=answer) as server:
        arguments = ("reflect", nothing, "--url", server.url, "--model", "agent", *judging(server))
        code, said = homerl(*arguments)
        assert (code, len(server.requests)) == (0, 3 * 2 + 3) and "3 of 3 revised plans are rated" in said
        kept = (nothing / REVISIONS).read_bytes()
        (nothing / REVISIONS).write_bytes(kept[: kept.index(b"\n") + 20])
        server.requests.clear()
        assert homerl(*arguments)[0] == 0 and len(server.requests) == 2 * 2, "one was kept, and all verdicts"
    lines = table(build_scores_report([nothing]), "Plans before and after")
    names = ("RPJ abs, 1 to 5", "validity, static", "validity, executed", "situations settled, %")
    assert [lines[f"{name}, before"] for name in names] == [("1.00",), ("0.000",), ("0.000",), ("0.0",)]
    assert [lines[f"{name}, after"] for name in names[1:]] == [("1.000",), ("1.000",), ("100.0",)]


def test_the_page_is_one_file_and_escapes_what_models_are_called(runs, tmp_path):
    run = {"suite": "personalhome-bench", "model": "<script>alert(1)</script>", "setting": "agentic"}
    (runs[0] / "run.json").write_text(json.dumps(run))
    assert homerl("scores", *runs, "--out", tmp_path / "scores.html")[0] == 0
    page = (tmp_path / "scores.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page and "http" not in page


def test_the_report_of_the_suite_has_its_categories(runs):
    write_bench_report(runs[0])
    assert "information grounding" in (runs[0] / "report.html").read_text()
    scored = score_results(
        [json.loads(line) for line in (runs[0] / "results.jsonl").read_text().splitlines()], ("category",)
    )
    assert scored["by_category"]["IG"]["success"] == 1.0


def test_what_is_no_run_is_refused(runs, tmp_path):
    for folders, why in (([tmp_path], "there are no results"), ([runs[0], runs[0]], "named twice")):
        with pytest.raises(InputError, match=why):
            read_named_results(folders)
    (runs[0] / "results.jsonl").write_text('{"id": "smh-1", "outcome": "success", "success": true}\n')
    with pytest.raises(InputError, match="another world"):
        read_named_results(runs)
    with pytest.raises(InputError, match="one run cannot be compared"):
        homerl("judge", runs[1], "--relative", "--judge-url", "http://127.0.0.1:9/v1", "--judge-model", "x")


def refused(*arguments: object) -> str:
    """What is said of a command in a real process's way: one message, code 2."""
    done = command.homerl("personalhome", *map(str, arguments))
    assert done.code == 2 and done.err.startswith("homerl: ") and len(done.err.strip().splitlines()) <= 3, done
    return done.err


def test_pages_that_cannot_be_written_are_said_and_what_there_is_stays(runs, tmp_path):
    """On a full disk, where a folder should be that is a file, and where nothing may be written."""
    expert, kept = runs[0], tmp_path / "scores.html"
    (tmp_path / "wall").touch()
    kept.write_text("an earlier page")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for wrong in ("wall", "/sys"):
        assert wrong in refused("scores", expert, "--out", f"{tmp_path / wrong}/made.html")
    with command.full_disk():
        said = refused("scores", expert, "--out", kept)
        assert "File too large" in said and "make room" in said and str(kept) in said
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
