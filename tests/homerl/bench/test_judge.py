"""An LLM judge decides what no rule can, and nothing else; its agreement with the rules is counted."""

import asyncio
import json
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_server import Faults, ScriptedServer

from homerl.app.play_suite import BenchRun, SuiteInstances, make_judge_settings, run_benchmark
from homerl.bench.judge import Judge, judge_cases
from homerl.bench.runner import BenchJournal
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import read_suite, write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench.cases import RUBRICS
from homerl.envs.homeenv.bench.suite import HomeInstance
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.confidence_intervals import cohen_kappa
from homerl.play.spoken_words import spoken_words_of
from homerl.play.trajectory import read_rows
from homerl.play.words.answer_rules import Answer, judge_answer_by_rules
from homerl.report.pages.bench_report import BenchReport, judge_sentence
from homerl.worlds.contract import JudgeCase, WorldAdapter


def unclear(answer: Answer) -> str:
    """Words of which the rules cannot tell whether they give the answer."""
    first, other = (group[0] for group in (answer.accepted or (("all",),))[:1]), (*answer.distractors, "hall lamp")[0]
    tries = [f"{'; '.join(first)} on; {other} off.", "All of them are on.", "Every single one is."]
    if answer.type == "number":
        tries.append(f"It is {answer.value:g}, though it was set to {answer.value + 3:g} before.")
    return next((text for text in tries if judge_answer_by_rules(answer, text) == "undecided"), "")


@cache
def questions() -> tuple[HomeInstance, ...]:
    """Questions of the suite that can be answered unclearly, and two to ask back about."""
    suite = read_suite("smh-bench")
    answer = [i for i in suite if (a := i.blueprint.intents[-1].answer) and i.size == "simple" and unclear(a)]
    ask = [i for i in suite if i.blueprint.intents[-1].clarify and i.size == "simple"]
    return (*answer[:5], *ask[:2])


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("judged") / "questions.jsonl"
    write_suite(iter(questions()), path)
    return path


def says(request: dict) -> dict:
    """An assistant that answers unclearly, and that asks back what it was asked."""
    for instance in questions():
        intent = instance.blueprint.intents[-1]
        if request["messages"][-1]["content"] in intent.queries:
            return {"content": unclear(intent.answer) if intent.answer else "Which one do you mean?"}
    return {"content": "Done."}


def verdict(request: dict) -> dict:
    """A judge to whom long truths are right, and who gives its verdict in a fence."""
    told = json.loads(request["messages"][1]["content"])
    assert set(told) <= {"question", "user", "truth", "assistant"} and request["temperature"] == 0.0
    right = request["messages"][0]["content"].startswith(RUBRICS["clarification"][:40]) or len(told["truth"]) > 1
    text = json.dumps({"why": "so it is", "verdict": "right" if right else "wrong"})
    return {"content": f"```json\n{text}\n```"}


def settings(suite: Path, agent: ScriptedServer, judge: ScriptedServer, out: Path, resume: bool = False) -> BenchRun:
    return BenchRun(str(suite), agent.url, out, judge=make_judge_settings(judge.url, None, 1, 50), resume=resume)


def test_a_judge_decides_what_rules_cannot(suite_file, tmp_path):
    with ScriptedServer(answer=says) as agent, ScriptedServer(answer=verdict) as judge:
        bare = run_benchmark(BenchRun(str(suite_file), agent.url, tmp_path / "bare"))
        assert bare["undecided"] == 5 and bare["success"] == 0.0
        assert judge_sentence(bare).startswith("5 failed by an answer that no rule decides")
        score = run_benchmark(settings(suite_file, agent, judge, tmp_path / "out"))
        rows = list(read_rows(tmp_path / "out" / "judgements.jsonl"))
        asked = len(judge.requests)
        assert run_benchmark(settings(suite_file, agent, judge, tmp_path / "out", resume=True)) == score
        assert len(judge.requests) == asked == len(rows), "each case is asked for once"
    undecided = [row for row in rows if row["rule"] == "undecided"]
    right = sum(len(row["wanted"]) > 1 for row in undecided)
    assert score["judge"]["decided"] == 5 and score["judge"]["right"] == right > 0
    assert score["success"] == pytest.approx(right / len(questions()))
    assert score["judge"]["agreement"]["n"] == 2 and score["judge"]["agreement"]["share"] == 1.0
    results = list(read_rows(tmp_path / "out" / "results.jsonl"))
    assert {row["outcome"] for row in results if row["undecided"] and row["success"]} == {"success"}
    assert "the same results" in rescore_run(tmp_path / "out")
    assert "agrees with the rules in 100.0 %" in judge_sentence(BenchReport.read_folder(tmp_path / "out").score)


def test_cases_of_two_worlds_with_one_name_of_rubric_are_heard_by_their_own(tmp_path):
    cases = [
        JudgeCase(0, 1, "answer", "Is it on?", "yes", "It is.", "undecided", rubric, asked_as)
        for rubric, asked_as in (("You check lamps.", "question"), ("You check bells.", "caller"))
    ]
    with ScriptedServer(answer=lambda request: {"content": '{"why": "", "verdict": "right"}'}) as server:
        settings = EndpointSettings(url=(server.url,), model="scripted")
        judge, journal = (
            Judge(StructuredClient(Endpoint([server.url], "scripted"), settings)),
            BenchJournal(tmp_path / "j.jsonl"),
        )
        asyncio.run(judge_cases(judge, cases, journal))
        heard = [[message["content"] for message in request["messages"]] for request in server.requests]
    told = {system.partition(".")[0]: set(json.loads(user)) for system, user in heard}
    assert told == {
        "You check lamps": {"question", "truth", "assistant"},
        "You check bells": {"caller", "truth", "assistant"},
    }
    assert {"kind", "asked", "wanted", "said", "rule"} < set(next(journal.sorted_rows())) and len(journal) == 2


def test_an_episode_holds_by_default_once_every_intent_has_an_accepted_answer():
    played = SimpleNamespace(blueprint={"intents": [{"id": 1}, {"id": 2}]})
    held = [WorldAdapter.holds_with(None, played, right) for right in ({}, {1: 0}, {2: 4}, {1: 0, 2: 4})]
    assert held == [False, False, False, True]


def test_an_edited_verdict_is_found_out(suite_file, tmp_path):
    with ScriptedServer(answer=says) as agent, ScriptedServer(answer=verdict) as judge:
        run_benchmark(settings(suite_file, agent, judge, tmp_path))
    path = tmp_path / "judgements.jsonl"
    path.write_text(path.read_text().replace('"verdict":"right"', '"verdict":"wrong"'))
    with pytest.raises(InputError, match="outcome is success, rescored turn_limit"):
        rescore_run(tmp_path)


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [({"answer": lambda request: {"content": "hm"}}, "unreadable"), ({"faults": Faults(refusals=1.0)}, "server")],
)
def test_a_judge_that_fails_costs_no_score(suite_file, tmp_path, trouble, kind):
    with ScriptedServer(answer=says) as agent, ScriptedServer(answer=verdict, **{"faults": Faults()}) as judge:
        well = judge.answer, judge.faults
        judge.answer, judge.faults = trouble.get("answer", verdict), trouble.get("faults", Faults())
        score = run_benchmark(settings(suite_file, agent, judge, tmp_path))
        assert score["outcomes"]["infra_error"] == 5 and score["n"] == 2
        left_out = [row["fault"] for row in read_rows(tmp_path / "results.jsonl") if row["outcome"] == "infra_error"]
        assert {fault["boundary"] for fault in left_out} == {"judge"} and sum(score["faults"].values()) == 5
        assert all(fault["reason"].startswith(kind) for fault in left_out) and f"judge: {kind}" in score["faults"]
        assert "the same results" in rescore_run(tmp_path)
        judge.answer, judge.faults = well
        again = run_benchmark(settings(suite_file, agent, judge, tmp_path, resume=True))
        assert again["n"] == len(questions()) and again["judge"]["decided"] == 5 and "faults" not in again
        assert "the same results" in rescore_run(tmp_path)


def test_the_majority_of_votes_counts(suite_file, tmp_path):
    heard = Counter()

    def wavering(request: dict) -> dict:
        case = request["messages"][1]["content"]
        heard[case] += 1
        return {"content": json.dumps({"why": "", "verdict": "wrong" if heard[case] == 2 else "right"})}

    with ScriptedServer(answer=says) as agent, ScriptedServer(answer=wavering) as judge:
        chosen = BenchRun(str(suite_file), agent.url, tmp_path, judge=make_judge_settings(judge.url, None, 3, 0))
        assert run_benchmark(chosen)["judge"] == {"by": "scripted, 3 votes", "decided": 5, "right": 5}
        assert {request["temperature"] for request in judge.requests} == {1.0}


def test_agreement_beyond_chance():
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)  # the usual textbook table
    assert cohen_kappa([(True, True)] * 3) == 1.0


@pytest.mark.parametrize(
    ("text", "claims", "question"),
    [
        ("It is 23.5 degrees. Anything else?", "It is 23.5 degrees.", False),
        (
            "Which one do you mean? There are two: the hall lamp and the desk lamp.",
            "There are two: the hall lamp and the desk lamp.",
            True,
        ),
        ("I found two lamps. Please tell me which one you mean.", "I found two lamps.", True),
        ("Done! Let me know if you need anything else.", "Done!", False),
        ("How can I help you today?", "", False),
        ("您指的是哪一盏灯？", "", True),
        ("请告诉我要调到多少度。", "", True),
        ("好的，已经打开了。还有什么需要帮忙的吗？", "好的，已经打开了。", False),
        ("客厅灯已打开，如需其他帮助，请告诉我。", "客厅灯已打开", False),
        ("客厅现在24度，如需调节请告诉我。", "客厅现在24度", False),
        ("客厅灯已打开。如有其他需要，请告诉我。", "客厅灯已打开。", False),
        ("如果还有其他需要，请随时告诉我", "", False),
        ("如果您想调节客厅的温度，请告诉我要调到多少度。", "", True),
        ("您指的是哪一盏灯？如需其他帮助，请告诉我。", "", True),
        ("请问您要打开哪一盏灯，如需其他帮助请告诉我。", "", True),
        ("有两盏灯，如果想打开其中哪一盏，请告诉我。", "", True),
        ("有两盏灯，请告诉我。", "", True),
        ("The lamp is on; tell me if you want it brighter.", "The lamp is on", False),
        ("The lamp is on, let me know if you need anything else!", "The lamp is on", False),
        ("Tell me if you want the desk lamp or the floor lamp.", "", True),
        ("There are two; tell me which one you want.", "", True),
        ("It's on, shall I turn it off?", "It's on", True),
        ("有3盏灯开着，需要我帮您关掉吗？", "有3盏灯开着", True),
        ("Is it the study, or the kitchen?", "", True),
        ("是厨房的灯吗，需要我打开吗？", "", True),
        ("Is it on, should I turn it off?", "", True),
    ],
)
def test_what_a_message_claims_and_whether_it_asks(text, claims, question):
    said = spoken_words_of({"role": "assistant", "content": text})
    assert (said.claims, said.question) == (claims, question)


def test_an_answer_counts_though_more_is_offered(tmp_path):
    replies = {}
    instances = SuiteInstances(questions()[:5], "eia", 1)
    write_suite(iter(questions()[:5]), tmp_path / "few.jsonl")
    for index in range(len(instances)):
        intent = instances[index].blueprint.intents[-1]
        replies |= {query: {"content": f"{intent.reply} Would you like anything else?"} for query in intent.queries}
    with ScriptedServer(answer=lambda request: replies[request["messages"][-1]["content"]]) as agent:
        score = run_benchmark(BenchRun(str(tmp_path / "few.jsonl"), agent.url, tmp_path / "out"))
    assert score["success"] == 1.0
