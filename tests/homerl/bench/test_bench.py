"""Suites and their runner: valid instances, real endpoints, faults that are nobody's failure, scores to trust."""

import asyncio
import html
import io
import json
import os
import re
import subprocess
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from scripted_server import Faults, ScriptedServer, key_of
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.app.play_suite import BenchRun, SuiteInstances, build_suite, run_benchmark
from homerl.app.runs.launch import main as launch
from homerl.app.runs.stages import suite_episodes
from homerl.bench.recipe import BenchSettings, SuiteSettings
from homerl.bench.runner import SCOUTS, NothingScored
from homerl.bench.scores import pass_hat
from homerl.bench.scores import score_results as score_of
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import read_suite, spread_evenly, write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.bench.suite import (
    SEED,
    SUITES,
    HomeInstance,
    apportion_counts,
    find_instance_flaws,
    make_home_instance,
    suite_slots,
)
from homerl.host.processes import folder_lock
from homerl.models.endpoint.llm_agent import messages_to_send
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.trajectory import Outcome, read_rows
from homerl.report.pages.bench_report import (
    BenchReport,
    bench_report_tables,
    faults_table,
    flatten_score,
    log_bench_to_wandb,
    write_bench_report,
)
from homerl.worlds.registry import begin_episode, known_suites
from homerl.worlds.users import ScriptedUser

ROOT = Path(__file__).parents[3]
EVERY = {"smh-bench": 41, "smarthome-bench": 83}  # a sample of the slots, over all subcategories and sizes


@cache
def sample(suite: str) -> tuple[HomeInstance, ...]:
    made = SUITES[suite]
    return tuple(make_home_instance(made, slot, 7) for slot in list(suite_slots(made))[:: EVERY[suite]])


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "smh-bench.jsonl"
    write_suite(iter(sample("smh-bench")), path)
    return path


# Suites


def test_the_papers_counts():
    smart, smh = (list(suite_slots(SUITES[name])) for name in ("smarthome-bench", "smh-bench"))
    assert Counter(slot.category.name for slot in smart) == {"QT1": 379, "QT2": 540, "QT3": 279, "QT4": 385, "QT5": 95}
    assert len({(p.category.name, p.subcategory) for p in smart}) == 18
    each = Counter((p.category.name, p.subcategory, p.size) for p in smh)
    assert len({key[:2] for key in each}) == 22
    assert all(each[key] == {"simple": 25, "medium": 15, "complex": 10}[key[2]] for key in each)


def test_shares_are_whole_and_sum_up():
    for count in range(60):
        assert sum(apportion_counts(count, SUITES["smh-bench"].shares).values()) == count


@pytest.mark.parametrize("suite", ["smarthome-bench", pytest.param("smh-bench", marks=pytest.mark.long)])
def test_instances_are_valid_and_reproducible(suite):
    made = SUITES[suite]
    for slot, instance in zip(list(suite_slots(made))[:: EVERY[suite]], sample(suite), strict=True):
        assert not list(find_instance_flaws(instance))
        assert instance.id == slot.instance_id(made) and instance.blueprint.split == "heldout"
    again = make_home_instance(made, list(suite_slots(made))[EVERY[suite]], 7)
    assert again == sample(suite)[1] and make_home_instance(made, list(suite_slots(made))[EVERY[suite]], 8) != again


def test_complex_instances_of_smh_bench_share_one_home():
    homes = [i.blueprint.home for i in sample("smh-bench") if i.size == "complex"]
    assert len(homes) > 2 and {(len(h["rooms"]), len(h["devices"])) for h in homes} == {(31, 135)}
    assert len({json.dumps(h["rooms"]) for h in homes}) == 1


def test_a_file_is_its_suite_and_an_edited_one_is_refused(suite_file, tmp_path):
    assert tuple(read_suite(str(suite_file))) == sample("smh-bench")
    copy = tmp_path / suite_file.name
    copy.write_text(suite_file.read_text().replace("clear", "cleer", 1))
    (tmp_path / f"{copy.name}.sha256").write_text((suite_file.parent / f"{copy.name}.sha256").read_text())
    with pytest.raises(InputError, match="not the one that was built"):
        read_suite(str(copy))


def test_a_model_that_is_nowhere_is_refused_with_the_baselines(suite_file, tmp_path):
    with pytest.raises(InputError, match="there is no model 'keyword', neither here nor on the hub\n.*one of .*keywords"):
        run_benchmark(BenchRun(str(suite_file), "keyword", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--limit", "--at-once", "--runs", "--max-tokens", "--temperature"])
@pytest.mark.parametrize("number", [0, -1])
def test_a_number_that_is_too_small_is_refused(suite_file, tmp_path, option, number):
    number -= 0.5 if option == "--temperature" else 0
    given = ["bench", "run", suite_file, "--model", "expert", "--out", tmp_path / "out", option, number]
    done = CliRunner().invoke(app, [*map(str, given)])
    assert done.exit_code == 2 and option in done.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--model", "--user", "--judge"])
def test_a_password_is_not_written_beside_results(suite_file, tmp_path, option):
    given = {"--model": "expert", "--out": str(tmp_path / "out"), option: "http://jo:secret@127.0.0.1:9/v1"}
    done = CliRunner().invoke(app, ["bench", "run", str(suite_file), *(word for pair in given.items() for word in pair)])
    assert (
        isinstance(done.exception, InputError)
        and done.exception.where == option
        and "OPENAI_API_KEY" in done.exception.remedy
    )
    assert "secret" not in str(done.exception) and not (tmp_path / "out").exists()


def test_who_is_not_logged_in_hears_it_before_the_suite_is_played(suite_file, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr("wandb.login", lambda prompt: False)
    given = ["bench", "run", suite_file, "--model", "expert", "--out", tmp_path / "out", "--wandb", "homes"]
    done = CliRunner().invoke(app, [*map(str, given)])
    assert "nobody is logged in" in str(done.exception) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("names", "says"), [(["a", "b", "a"], "two suites are called 'a'"), (["../a"], "has no /"), ([""], "is not empty")]
)
def test_each_suite_of_a_recipe_has_a_folder_of_its_own(names, says):
    with pytest.raises(ValueError, match=says):
        BenchSettings.model_validate({"suites": [{"name": name} for name in names]})


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path):
    killed = subprocess.Popen(["true"])
    killed.wait()
    suite = SimpleNamespace(name="few", build=lambda *given: (0, iter(())))
    kept = {f".few.jsonl.{os.getpid()}.7.tmp", f".other.jsonl.{killed.pid}.7.tmp"}
    for name in (*kept, f".few.jsonl.{killed.pid}.7.tmp"):
        (tmp_path / name).touch()
    build_suite(suite, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "few.jsonl", "few.jsonl.sha256"}


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("no JSON", "the line is no task of a suite \\(JSONDecodeError"),
        ("[1]", "the line is no task of a suite \\(TypeError"),
        ('{"blueprint": {}}', "the line is no task of a suite \\(KeyError: 'id'\\)"),
        ('{"id": "smh-bench-1", "blueprint": {}}', "smh-bench-1: .*: Field required"),
    ],
)
def test_a_line_that_is_no_instance_is_refused_with_its_place(tmp_path, suite_file, line, refusal):
    file = tmp_path / "mine.jsonl"
    file.write_text(f"{suite_file.read_text().splitlines()[0]}\n{line}\n")
    with pytest.raises(InputError, match=f"mine.jsonl:2: {refusal}"):
        read_suite(str(file))


@pytest.mark.parametrize("suite", SUITES)
def test_the_shipped_suite_is_what_the_default_seed_gives(suite):
    """Build it again (`homerl bench build`) when homes, intents or language change, and raise the version."""
    made = SUITES[suite]
    shipped, wanted = read_suite(suite), list(suite_slots(made))
    assert [instance.id for instance in shipped] == [slot.instance_id(made) for slot in wanted]
    for at in range(0, len(wanted), 211):
        assert make_home_instance(made, wanted[at], SEED) == shipped[at]
    sentences = [query for instance in shipped for query in instance.blueprint.intents[-1].queries]
    assert len(set(sentences)) > 0.9 * len(sentences)


# Agents


@pytest.mark.parametrize(
    ("model", "setting"),
    [("expert", "eia"), ("expert", "dr"), ("nothing", "eia"), pytest.param("nothing", "dr", marks=pytest.mark.long)],
)
def test_the_expert_solves_all_and_nobody_nothing(suite_file, tmp_path, model, setting):
    score = run_benchmark(BenchRun(str(suite_file), model, tmp_path / "out", setting))
    assert score["n"] == len(sample("smh-bench")) and score["success"] == (1.0 if model == "expert" else 0.0)
    assert "the same results" in rescore_run(tmp_path / "out")


@pytest.mark.parametrize("setting", ["eia", pytest.param("dr", marks=pytest.mark.long)])
def test_the_matcher_may_be_asked_first(suite_file, tmp_path, capsys, setting):
    settings = BenchRun(str(suite_file), "expert", tmp_path / "out", setting, first="hassil", limit=12)
    assert run_benchmark(settings)["n"] == 12
    assert re.search(r"hassil took \d+ of \d+ sentences", " ".join(capsys.readouterr().out.split()))
    assert "the same results" in rescore_run(tmp_path / "out")
    with pytest.raises(InputError, match="first hassil \\(now None\\)"):
        run_benchmark(replace(settings, first=None, resume=True))
    with pytest.raises(InputError, match="--first"):
        run_benchmark(replace(settings, first="keywords", out=tmp_path / "other"))


def test_keywords_and_chance_do_not_game_the_suites(suite_file, tmp_path):
    assert run_benchmark(BenchRun(str(suite_file), "random", tmp_path / "random"))["success"] < 0.1
    assert run_benchmark(BenchRun(str(suite_file), "keywords", tmp_path / "keywords"))["success"] < 0.5


def script(instances: SuiteInstances) -> dict:
    """What the expert says to every dialogue that it leads to, as a server would look it up."""
    answers = {}

    class Teacher(Expert):
        async def consult(self, episode, n=1):
            (reply,) = await super().consult(episode, n)
            calls = [{"id": f"call_{i}"} | call for i, call in enumerate(reply.message.get("tool_calls", ()))]
            message = reply.message | ({"tool_calls": calls} if calls else {})
            answers[key_of(messages_to_send(episode.messages))] = message
            return [type(reply)(message)]

    for index in range(len(instances)):
        task = instances[index]
        seed = task.blueprint.seed
        asyncio.run(play(begin_episode(task.blueprint, task.limits), Teacher(), ScriptedUser(seed), seed))
    return answers


@pytest.mark.parametrize("setting", ["eia", pytest.param("dr", marks=pytest.mark.long)])
def test_an_endpoint_is_scored_as_what_it_says(suite_file, tmp_path, setting):
    instances = SuiteInstances(sample("smh-bench"), setting, 1)
    with ScriptedServer(answers=script(instances)) as server:
        score = run_benchmark(BenchRun(str(suite_file), server.url, tmp_path / "llm", setting))
    assert score["success"] == 1.0 and score["tokens"] >= 10 and score["prompt_tokens"] >= 100
    sent = server.requests[0]
    assert ("tools" in sent) == (setting == "eia") and sent["temperature"] == 0.0
    local = run_benchmark(BenchRun(str(suite_file), "expert", tmp_path / "expert", setting))
    assert local["tool_calls"] == score["tool_calls"]


@pytest.mark.parametrize(
    ("suite", "setting"),
    [
        ("smh-bench", "eia"),
        *(pytest.param(*one, marks=pytest.mark.long) for one in (("smh-bench", "dr"), ("simuhome", "react"))),
    ],
)  # all are sampled alike: they differ in the prompt
def test_every_sampled_request_has_a_seed_of_its_own_which_the_runs_seed_gives(suite_file, tmp_path, suite, setting):
    suite = str(suite_file) if suite == "smh-bench" else suite  # a part of it is read sooner

    def seeds(out: str, seed: int, temperature: float = 0.7) -> list[int | None]:
        with ScriptedServer() as server:
            settings = BenchRun(suite, server.url, tmp_path / out, setting, limit=2, runs=2, seed=seed)
            run_benchmark(replace(settings, temperature=temperature))
        return [request.get("seed") for request in server.requests]

    first = seeds("first", 5)
    assert None not in first and len(set(first)) == len(first) >= 4
    assert set(seeds("again", 5)) == set(first) and not set(seeds("other", 6)) & set(first)
    assert set(seeds("greedy", 5, 0.0)) == {None}


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("max_tokens", "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        ("temperature", "'temperature' does not support 0 with this model. Only the default (1) value is supported."),
    ],
)
def test_all_tasks_are_scored_by_a_server_that_does_not_take_a_field_of_ours(suite_file, tmp_path, field, says):
    class Newer(ScriptedServer):
        def drawn(self, request):
            return "refusals" if field in request else None

    with Newer(reason={"message": f"Unsupported: {says}", "type": "invalid_request_error", "param": field}) as server:
        score = run_benchmark(BenchRun(str(suite_file), server.url, tmp_path / "out", limit=2, temperature=0.0))
    assert score["n"] == 2 and "infra_error" not in score["outcomes"]


LONG = {"message": "This model's maximum context length is 64 tokens."}


def test_a_task_that_is_longer_than_a_served_model_takes_has_failed_unless_all_are(suite_file, tmp_path):
    class Short(ScriptedServer):
        """Takes every request but the first ones."""

        def drawn(self, request):
            return "refusals" if len(self.requests) <= 3 else None

    for kind, name in ((Short, "some"), (lambda **all: ScriptedServer(faults=Faults(refusals=1.0), **all), "all")):
        with kind(reason=LONG) as server:
            settings = BenchRun(str(suite_file), server.url, tmp_path / name, limit=8, at_once=1)
            if name == "all":
                with pytest.raises(NothingScored, match="^of all 8 tasks, the dialogue is longer than the model takes"):
                    run_benchmark(settings)
                continue
            assert run_benchmark(settings)["n"] == 8
        rows = list(read_rows(tmp_path / name / "results.jsonl"))
        long = [row for row in rows if (row.get("fault") or {}).get("reason", "").startswith("the dialogue is longer")]
        assert len(long) == 3 and {row["outcome"] for row in long} == {Outcome.AGENT_FAILURE}


def test_a_server_in_trouble_costs_no_score_and_resume_finishes(suite_file, tmp_path, monkeypatch):
    for name, seconds in (("FIRST_WAIT", 0.01), ("REST", 0.01), ("LONGEST_REST", 0.05)):
        monkeypatch.setattr(f"homerl.models.endpoint.endpoint.{name}", seconds)
    instances = SuiteInstances(spread_evenly(sample("smh-bench"), 8), "eia", 1)
    out = tmp_path / "out"
    server = ScriptedServer(answers=script(instances), faults=Faults(errors=0.5, garbage=0.25, halves=0.25))
    with server:  # nothing but faults: the run ends after a few instances
        with pytest.raises(NothingScored, match="^server: scripted did not"):
            run_benchmark(BenchRun(str(suite_file), server.url, out, limit=8))
        score = json.loads((out / "score.json").read_text())
        faults = score.pop("faults")
        assert score == {"n": 0, "outcomes": {"infra_error": SCOUTS}}
        assert sum(faults.values()) == SCOUTS and all("server: scripted did not" in name for name in faults)
        report = write_bench_report(out)
        assert all(reason.partition(": ")[2] in text for text in (printed(report), page(out)) for reason in faults)
        with pytest.raises(InputError, match="--resume"):
            run_benchmark(BenchRun(str(suite_file), server.url, out, limit=8))
        server.faults = Faults(errors=0.2, garbage=0.1, halves=0.1)
        score = run_benchmark(BenchRun(str(suite_file), server.url, out, limit=8, resume=True))
        assert score["n"] == len(instances) and score["success"] == 1.0
        asked = len(server.requests)
        assert run_benchmark(BenchRun(str(suite_file), server.url, out, limit=8, resume=True)) == score
        assert len(server.requests) == asked, "what was played is not played again"
    assert {Outcome(row["outcome"]) for row in read_rows(out / "results.jsonl")} == {Outcome.SUCCESS}
    assert "the same results" in rescore_run(out)
    assert "why episodes were left out" not in printed(write_bench_report(out)) and "faults" not in score


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": "random"}, "model nothing (now random)"),
        ({"limit": 3, "seed": 4}, "limit 2 (now 3), seed 0 (now 4)"),
        ({"temperature": 0.5, "max_tokens": 9}, "temperature 0.0 (now 0.5), max_tokens 2048 (now 9)"),
        ({"setting": "dr"}, "setting eia (now dr)"),
        ({"suite": "smh-bench"}, "(now smh-bench)"),
    ],
)
def test_a_folder_belongs_to_one_run(suite_file, tmp_path, other, said):
    first = BenchRun(str(suite_file), "nothing", tmp_path, limit=2)
    run_benchmark(first)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InputError) as refused:
        run_benchmark(replace(first, resume=True, **other))
    assert said in refused.value.what and "--out" in refused.value.remedy
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run_benchmark(replace(first, resume=True, setting="eia", runs=2, at_once=3))["n"] == 4


def test_a_served_model_is_known_by_its_name_wherever_its_server_is(suite_file, tmp_path):
    with ScriptedServer() as first, ScriptedServer() as second:
        run = BenchRun(str(suite_file), first.url, tmp_path, limit=2)
        run_benchmark(run)
        with pytest.raises(InputError, match=r"served scripted \(now other\)"):
            run_benchmark(replace(run, model=second.url, served="other", resume=True))
        assert not second.requests
        run_benchmark(replace(run, model=second.url, runs=2, resume=True))
        assert second.requests, "its second play"


def printed(report) -> str:
    console = Console(width=160, file=io.StringIO(), color_system=None)
    console.print(report)
    return console.file.getvalue()


@pytest.mark.parametrize("limit", [3, None])
def test_tables_fit_a_terminal_and_only_a_whole_suite_stands_beside_the_papers_figures(suite_file, tmp_path, limit):
    score = run_benchmark(BenchRun(str(suite_file), "nothing", tmp_path, limit=limit))
    write_bench_report(tmp_path)
    report = BenchReport.read_folder(tmp_path)
    console = Console(width=80, file=io.StringIO(), markup=False)  # as that of the commands
    console.print(bench_report_tables(replace(report, run=report.run | {"model": "a[b]"})))
    text, shown = console.file.getvalue(), page(tmp_path)
    lines = text.splitlines()
    assert any("SO: structured output" in line for line in lines)
    _, rows = report.printed_figures()
    for row in rows:
        (line,) = (line for line in lines if f" {row['model']} " in line)
        assert line.count(".") >= len(row["categories"]) + 1, "all its figures on one line"
    if limit:
        part = f"3 of {len(sample('smh-bench'))} tasks, spread evenly"
        assert any(line.startswith(part) for line in lines), "beside the table, and not in the middle below it"
        assert not rows and part in shown and "overall" not in text and 'class="ours"' not in shown
        return
    (ours,) = (line for line in lines if line.startswith("│ a[b] "))
    told, whole = shown.partition('class="ours"')[2].partition("</tr>")[0], f"{100 * score['success']:.1f}"
    assert rows and ours.split("│")[-2].strip() == whole and told.endswith(f'<td class="n">{whole}</td>')


def test_a_limit_is_spread_over_the_categories(suite_file, tmp_path):
    score = run_benchmark(BenchRun(str(suite_file), "nothing", tmp_path, limit=9))
    assert len(score["by_category"]) >= 5


def page(out: Path) -> str:
    return html.unescape((out / "report.html").read_text("utf-8"))


def test_the_most_frequent_reasons_are_named_first():
    rows = [{"outcome": "user_error", "fault": {"boundary": "user", "reason": f"leak: {n}"}} for n in range(7)]
    rows += [{"outcome": "infra_error", "fault": {"boundary": "server", "reason": f"status {n} [b]"}} for n in range(8)]
    rows += [{"outcome": "infra_error"}]  # of a run before faults were stored
    score = score_of(rows)
    assert score["faults"]["user: leak"] == 7 and len(score["faults"]) == 9
    first, *_ = BenchReport(Path(), {"model": "m", "setting": "eia", "suite": "s"}, score, tuple(rows)).fault_counts
    assert first == ("user", "leak", 7)
    text = printed(faults_table(BenchReport(Path(), {}, score, tuple(rows)), most=5).to_rich())
    assert text.index("leak") < text.index("status 0 [b]") and "status 7" not in text and "other reasons" in text


def test_an_edited_result_is_found_out(suite_file, tmp_path):
    run_benchmark(BenchRun(str(suite_file), "nothing", tmp_path, limit=3))
    path = tmp_path / "results.jsonl"
    path.write_text(path.read_text().replace('"success":false', '"success":true', 1))
    with pytest.raises(InputError, match="success is True, rescored False"):
        rescore_run(tmp_path)
    stored = tmp_path / "trajectories.jsonl"
    stored.write_text(stored.read_text("utf-8") + stored.read_text("utf-8").splitlines(keepends=True)[0], "utf-8")
    with pytest.raises(InputError, match="4 trajectories for 3 results"):
        rescore_run(tmp_path)


def test_runs_of_an_instance_are_counted_as_pass_hat_k(suite_file, tmp_path):
    score = run_benchmark(BenchRun(str(suite_file), "expert", tmp_path, runs=3, limit=4))
    assert score["n"] == 12 and score["pass_hat"] == {"1": 1.0, "2": 1.0, "3": 1.0}
    rows = [{"id": id, "success": i < wins, "outcome": "success"} for id, wins in (("a", 4), ("b", 2)) for i in range(4)]
    (found,) = pass_hat(rows).values()
    assert found == pytest.approx({"1": 0.75, "2": (1 + 1 / 6) / 2, "3": 0.5, "4": 0.5})


def test_a_spoiled_run_of_one_task_takes_no_pass_hat_k_from_the_others(suite_file, tmp_path):
    run_benchmark(BenchRun(str(suite_file), "expert", tmp_path, runs=3, limit=4))
    whole = BenchReport.read_folder(tmp_path)
    rows = [row | {"outcome": "infra_error", "success": False} if at == 0 else row for at, row in enumerate(whole.results)]
    assert "pass_hat_n" not in whole.score and "over 3" not in printed(write_bench_report(tmp_path))
    score = score_of(rows)
    assert score["pass_hat"] == {"1": 1.0, "2": 1.0, "3": 1.0} and score["pass_hat_n"] == {"3": 3}
    (tmp_path / "score.json").write_text(json.dumps(score))
    text = " ".join(printed(write_bench_report(tmp_path)).split())
    assert "pass^2 100.0 %, pass^3 100.0 % (over 3 tasks)" in text and ", over 3 tasks</dt>" in page(tmp_path)
    assert flatten_score(BenchReport.read_folder(tmp_path))["bench/pass^3/n"] == 3


def test_a_build_says_how_far_it_is(tmp_path):
    count, instances = SUITES["smh-bench"].build(7, "en", Counter(), lambda done, total: None)
    seen = []
    write_suite(islice(instances, 2), tmp_path / "few.jsonl", seen.append)
    assert seen == [1, 2] and count == 1100


@pytest.mark.long
def test_a_run_is_logged_to_wandb(suite_file, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run_benchmark(BenchRun(str(suite_file), "expert", tmp_path, limit=4))
    write_bench_report(tmp_path)
    assert "offline-run" in log_bench_to_wandb(tmp_path, "homes")
    (stored,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    end = time.monotonic() + 30
    while b"bench/category" not in stored.read_bytes():  # wandb's own process writes it
        assert time.monotonic() < end
        time.sleep(0.1)
    assert flatten_score(BenchReport.read_folder(tmp_path))["bench/success"] == 1.0


def test_the_easier_half_is_the_simple_half_of_each_subcategory():
    found = read_suite("smarthome-bench")
    easier = SUITES["smarthome-bench"].easier_half(found)
    assert {instance.size for instance in easier} == {"simple"} and abs(len(easier) - len(found) / 2) <= 2
    whole, half = (Counter(instance.subcategory for instance in some) for some in (found, easier))
    assert all(abs(half[name] - count / 2) <= 0.5 for name, count in whole.items())


def test_a_recipes_suite_may_be_spread_over_a_benchmark():
    suite = SuiteSettings(name="easier", benchmark="smarthome-bench", easier_half=True, count=40)
    tasks = suite_episodes(suite, EpisodeLimits())
    labels = [tasks[index].labels for index in range(len(tasks))]
    assert len(labels) == 40 and {label["size"] for label in labels} == {"simple"}
    assert {label["category"] for label in labels} == {"QT1", "QT2", "QT3", "QT4", "QT5"}
    assert SuiteSettings.model_validate(suite.model_dump(mode="json")) == suite, "a stage's recipe says all of it"
    with pytest.raises(ValueError, match="has its own tasks"):
        SuiteSettings(benchmark="smh-bench", first_seed=3)
    for key in ({"easier_half": True}, {"setting": "eia"}):
        with pytest.raises(ValueError, match="is of a `benchmark`"):
            SuiteSettings(**key)


def test_a_recipes_benchmark_is_played_in_a_setting_of_calls():
    shipped = [suite for _, suite in known_suites().values() if suite.shipped]
    assert [suite.settings[0] for suite in shipped] == ["eia"] * 3, "the shipped suites' default"
    dr = SuiteSettings(benchmark="smh-bench", setting="dr", count=2)
    assert suite_episodes(dr, EpisodeLimits())[0].blueprint.toolset == "direct"
    for benchmark, setting, fault in (("smh-bench", "react", "one of eia, dr"), ("simuhome", "react", "not in text")):
        with pytest.raises(ValueError, match=fault):
            SuiteSettings(benchmark=benchmark, setting=setting)


def test_two_runs_in_one_folder_never_both_play(suite_file, tmp_path, monkeypatch):
    monkeypatch.setattr("homerl.host.processes.SECONDS", 0.1)
    with folder_lock(tmp_path), pytest.raises(InputError, match="another run works in this folder"):
        run_benchmark(BenchRun(str(suite_file), "nothing", tmp_path))
    synthesis = [str(ROOT / "recipes/synth.yaml"), ["--synth.blueprints", "1", "--out", str(tmp_path)]]
    with folder_lock(tmp_path):
        assert launch(*synthesis) == 2
    assert not [path for path in tmp_path.iterdir() if path.name != ".lock"]
