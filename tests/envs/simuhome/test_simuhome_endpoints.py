"""SimuHome through endpoints: agents in both forms, the judge's three votes, paraphrases; against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.judge import JudgeSettings
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import write_suite
from homerl.envs.simuhome.bench.suite import simuhome_instance
from homerl.envs.simuhome.tasks import react_agent as react
from homerl.envs.simuhome.tasks.author import SimuHomeParaphraser, make_group_blueprint
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.envs.simuhome.tasks.expert import actions_in_messages, expert_plan
from homerl.envs.simuhome.tasks.react_agent import ReActAgent, react_reply
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import ParaphraseSettings
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.trajectory import Outcome, read_rows
from homerl.play.words.grammar import split_of
from homerl.report.pages.bench_report import write_bench_report
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.helpers.scripted_server import MODEL, ScriptedServer

QUICK = Patience(timeout=5, deadline=10, tries=2)
LIMITS = EpisodeLimits(1, 20, 20)


def made(group, number=0, **more):
    recipe = SimuHomeRecipe(world="simuhome", **more)
    return make_group_blueprint(
        recipe, "train", *group.split("/"), f"{group}-{number}", random.Random(f"{group} {number}"), Counter()
    )


def played(blueprint, agent):
    return asyncio.run(play(begin_episode(blueprint, LIMITS), agent, ScriptedUser()))


def steps_of(blueprint):
    episode = begin_episode(blueprint, LIMITS)
    parts = expert_plan(episode.situation.file, episode.situation.start, blueprint.intents[0].reply)
    return [act for part in parts for act in part]


def as_text(act):
    given = json.dumps({key: value for key, value in act.items() if key != "name"})
    return json.dumps({"thought": "so be it", "action": act["name"], "action_input": given})


@pytest.mark.parametrize(
    "group",
    [
        "qt2/feasible",
        "qt4-1/infeasible",
        *(pytest.param(group, marks=pytest.mark.long) for group in ("qt1/feasible", "qt4-3/feasible")),
    ],
)
def test_the_text_form_and_functions_come_to_the_same(group):
    blueprint = made(group)
    acts = steps_of(blueprint)

    def in_text(request):
        done = sum(m["role"] == "assistant" for m in request["messages"])
        return {"content": as_text(acts[done])}

    def in_functions(request):
        done = sum(m["role"] == "assistant" for m in request["messages"])
        given = json.dumps({key: value for key, value in acts[done].items() if key != "name"})
        return {"tool_calls": [{"type": "function", "function": {"name": acts[done]["name"], "arguments": given}}]}

    with ScriptedServer(answer=in_text) as server:
        text = played(blueprint, ReActAgent(Endpoint([server.url], MODEL, QUICK)))
        asked = server.requests
    with ScriptedServer(answer=in_functions) as server:
        functions = played(blueprint, LLMAgent(Endpoint([server.url], MODEL, QUICK)))
        assert len(server.requests[0]["tools"]) == 20
    assert text.success and functions.success
    assert actions_in_messages(text.messages) == actions_in_messages(functions.messages) == acts
    assert [step.state_key for step in text.steps] == [step.state_key for step in functions.steps]
    _check_protocol(asked, blueprint)


def _check_protocol(asked, blueprint):
    first, last = asked[0], asked[-1]
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["thought", "action", "action_input"]
    assert "tools" not in first and [m["role"] for m in first["messages"]] == ["system", "user"]
    told, task = (message["content"] for message in first["messages"])
    assert "| get_room_devices |" in told and "User location" not in told
    assert blueprint.intents[0].queries[0] in task and "Current time: 2025-08-23" in task
    seen = [m["content"] for m in last["messages"] if m["role"] == "user"][1:]
    assert seen and all(text.startswith('observation: {"status"') for text in seen)
    said = [json.loads(m["content"]) for m in last["messages"] if m["role"] == "assistant"]
    assert all(step["thought"] == "so be it" for step in said)


def test_three_messages_that_are_no_step_end_the_episode():
    with ScriptedServer(answer=lambda request: {"content": "I will look around first."}) as server:
        trajectory = played(made("qt1/feasible"), ReActAgent(Endpoint([server.url], MODEL, QUICK)))
        assert trajectory.outcome is Outcome.AGENT_FAILURE and len(trajectory.steps) == 3
        assert server.requests[-1]["messages"][-1]["content"] == f"observation: {json.dumps(react.INVALID)}"


def test_a_finish_in_any_case_is_one():
    assert actions_in_messages([react_reply(as_text({"name": "FINISH", "answer": "Yes."})).message]) == [
        {"name": "finish", "answer": "Yes."}
    ]


# The judge


def suite(folder: Path):
    """Two that a rule decides, two that none does: a good refusal in words that no rule knows, and a bad one."""
    groups = ("qt3/feasible", "qt3/infeasible", "qt4-1/infeasible", "qt1/infeasible")
    instances = [
        simuhome_instance(made(group, phrasings=1).model_copy(update={"id": f"simuhome-{n}"}))
        for n, group in enumerate(groups)
    ]
    path = folder / "simuhome.jsonl"
    write_suite(iter(instances), path)
    return path, instances


def answers(instances):
    said = {
        0: None,
        1: None,
        2: "I would rather ask you about those clock times first.",
        3: "That thing is simply not part of the room.",
    }
    scripts = {
        instance.blueprint.intents[0].queries[0]: [
            *[act for act in steps_of(instance.blueprint) if said[n] is None or act["name"] != "finish"],
            *([{"name": "finish", "answer": said[n]}] if said[n] else []),
        ]
        for n, instance in enumerate(instances)
    }

    def answer(request):
        messages = request["messages"]
        if messages[0]["content"].startswith("You check how"):
            return vote(request)
        query = next(query for query in scripts if query in messages[1]["content"])
        return {"content": as_text(scripts[query][sum(m["role"] == "assistant" for m in messages)])}

    def vote(request):
        told = json.loads(request["messages"][1]["content"])
        good = "clock times" in told["assistant"]
        odd = request["seed"] % 3 == 0  # one vote in three goes astray
        return {"content": json.dumps({"why": "so", "verdict": "right" if good != odd else "wrong"})}

    return answer


def test_three_votes_decide_what_no_rule_does(tmp_path):
    path, instances = suite(tmp_path)
    with ScriptedServer(answer=answers(instances)) as server:
        base = {"suite": str(path), "model": server.url, "setting": "react", "at_once": 2}
        alone = run_benchmark(BenchRun(**base, out=tmp_path / "alone"))
        judged = run_benchmark(BenchRun(**base, out=tmp_path / "judged", judge=JudgeSettings(server.url, MODEL)))
    rows = {row["id"]: row for row in read_rows(tmp_path / "judged" / "results.jsonl")}
    assert alone["success"] == 0.5 and alone["undecided"] == 2 and alone["released"] == {"n": 4, "success": 0.5}
    assert [rows[f"simuhome-{n}"]["success"] for n in range(4)] == [True, True, True, False]
    assert (
        judged["judge"]["decided"] == 2
        and judged["judge"]["right"] == 1
        and judged["by_category"]["QT4-1 IF"]["success"] == 1.0
    )
    assert json.loads((tmp_path / "judged" / "run.json").read_text())["judge"]["votes"] == 3  # the suite's own number
    assert "the same results" in rescore_run(tmp_path / "judged")
    write_bench_report(tmp_path / "judged")
    page = (tmp_path / "judged" / "report.html").read_text()
    assert "GPT-4.1" in page and "printed" in page and "says why not" in page and "contradiction" in page


# Paraphrases


def client(server):
    return StructuredClient(Endpoint([server.url], MODEL, QUICK), ParaphraseSettings(model=MODEL, url=server.url))


def test_a_paraphrase_must_say_the_same():
    blueprint = made("qt3/feasible", phrasings=1)
    (query,) = blueprint.intents[0].queries
    good = next(text for n in range(1, 99) if split_of(text := f"If you have {'a' * n} moment: {query}") == "train")
    wrong = [query.replace("1", "2"), good.replace("turn on", "turn on the TV and"), query, "{}"]
    for said, kept in [(good, 1), *((text, 0) for text in wrong)]:
        with ScriptedServer(answer=lambda request, said=said: {"content": json.dumps({"paraphrase": said})}) as server:
            paraphraser = SimuHomeParaphraser(client(server))
            found = asyncio.run(paraphraser.reword(blueprint))
        assert paraphraser.kept == kept and found.intents[0].queries == ((said,) if kept else (query,))


@pytest.mark.parametrize("direction", ["increase", "decrease"])
def test_a_complaint_must_be_understood_alone(direction):
    blueprint = made("qt2/feasible", phrasings=1)
    goals = blueprint.task["eval"]["goals"]
    (query,) = blueprint.intents[0].queries
    good = next(text for n in range(1, 99) if split_of(text := f"Oh {'a' * n} dear, {query}") == "train")
    wishes = [{**{key: goal[key] for key in ("room_id", "room_state")}, "direction": direction} for goal in goals]

    def answer(request):
        found = {"paraphrase": good} if "says" in request["messages"][1]["content"][:10] else {"wants": wishes}
        return {"content": json.dumps(found)}

    with ScriptedServer(answer=answer) as server:
        paraphraser = SimuHomeParaphraser(client(server))
        asyncio.run(paraphraser.reword(blueprint))
    assert paraphraser.kept == all(goal["direction"] == direction for goal in goals)
