"""The judges over real HTTP: complete verdicts, asked for once, stored, and read again by nobody's help."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scripted_server import Faults, ScriptedServer

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.judge.answer_and_plan_judge import (
    absolute_question,
    assign_letters,
    decide_answers,
    equivalence_question,
    judge_personas,
    load_judge_words,
    overall_scores,
    persona_scores,
    read_plan_orders,
    relative_questions,
    revision_message,
)
from homerl.envs.personalhome.judge.judge_client import VerdictStore, ask_judge, make_judge_client
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.faults import Boundary, Fault

MEMBERS = [{"member_id": "h1_1", "name": "Emma", "role": "parent"}, {"member_id": "h1_2", "name": "Noah", "role": "child"}]
HOUSEHOLD = {"household_id": "h1", "members": MEMBERS, "pets": [], "memories": [{"memory": "SECRET"}], "layout": "flat"}
SITUATION = {"events": ["07:00 smoke in the kitchen"]}
PARTS = ("h1_1", "h1_2", "smart_home")


def plan(*features):
    return [{"program_id": f"id_{name}", "steps": [{"appliance": "tv", "feature": name, "args": {}}]} for name in features]


def opinion(score):
    return {"feedback": "well", "score": score}


def by_all(said):
    """The same of every part."""
    return dict.fromkeys(PARTS, said)


def rated(*overall):
    """A complete verdict with these overall scores; every part gives the same."""
    return {
        str(number): {"personas": by_all(opinion(score)), "rationale": "so", "overall_score": score}
        for number, score in enumerate(overall, 1)
    }


def heard(server, questions, path, **settings):
    """Ask all, in a new client of a server, and return the store."""
    verdicts, told = VerdictStore(path), EndpointSettings(url=(server.url,), model="scripted", max_tokens=500)
    endpoint = Endpoint([server.url], "scripted", Patience(timeout=5, deadline=5, tries=1))
    asyncio.run(ask_judge(StructuredClient(endpoint, told), questions, verdicts, **settings))
    return verdicts


def replies(*answers):
    """A server's answers, one after the other; the last one stays."""
    left = [json.dumps(answer) for answer in answers]
    return lambda request: {"content": left.pop(0) if len(left) > 1 else left[0]}


# abs mode


def test_scores_of_every_program_by_every_part(tmp_path):
    question = absolute_question(HOUSEHOLD, SITUATION, plan("a", "b"), about={"id": "pg-1"})
    with ScriptedServer(answer=replies(rated(4, 2))) as server:
        verdicts = heard(server, [question], tmp_path / "v.jsonl")
        (request,) = server.requests
    verdict = verdicts.stored_verdict(question, "scripted")
    assert overall_scores(verdict) == [4, 2]
    assert persona_scores(verdict) == {part: [4, 2] for part in PARTS}
    system, told = (message["content"] for message in request["messages"])
    assert request["temperature"] == 0.0 and "smart_home" in system and "Emma" in told and "smoke" in told
    assert "SECRET" not in told and "pg-1" not in told and "id_a" not in told
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["1", "2"] and schema["additionalProperties"] is False


def without(verdict, *path):
    copied = json.loads(json.dumps(verdict))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copied


BROKEN = {
    "a program is missing": without(rated(4, 2), "2"),
    "a part is missing": without(rated(4, 2), "1", "personas", "smart_home"),
    "no overall score": without(rated(4, 2), "1", "overall_score"),
    "no reason": without(rated(4, 2), "1", "rationale"),
    "above the scale": rated(6, 2),
    "below the scale": rated(4, 0),
    "no whole number": rated(4, 2.5),
    "a score in words": rated(4, "2"),
    "a program too many": rated(4, 2, 3),
    "no opinion": {**rated(4, 2), "1": {**rated(4)["1"], "personas": by_all({"feedback": "", "score": 3})}},
}


def stored_fault(verdicts, question):
    """Why the judge gave no verdict on a question; None if it gave one."""
    given = verdicts.rows[question.verdict_key("scripted")].get("fault")
    return given and Fault(Boundary(given["boundary"]), given["reason"])


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_an_incomplete_verdict_is_asked_for_again_and_then_refused(tmp_path, broken):
    question = absolute_question(HOUSEHOLD, SITUATION, plan("a", "b"))
    with ScriptedServer(answer=replies(broken)) as server:
        found = heard(server, [question], tmp_path / "v.jsonl")
        assert len(server.requests) == 2 and found.stored_verdict(question, "scripted") is None
        fault = stored_fault(found, question)
        server.answer = replies(broken, rated(4, 2))
        found = heard(server, [question], tmp_path / "v.jsonl")
        assert len(server.requests) == 4 and overall_scores(found.stored_verdict(question, "scripted")) == [4, 2]
    assert fault.boundary == "judge" and fault.reason_kind == "unreadable"


def test_the_home_is_no_member():
    with pytest.raises(ValueError, match="member ids that differ"):
        judge_personas({"members": [{"member_id": "smart_home"}]})


# rel mode


def prefers(order):
    """A judge who sees through letters, by the features of plans; for Noah the order is the opposite."""

    def answer(request):
        plans = json.loads(request["messages"][1]["content"])["plans"]
        place = {letter: order.index(plan[0]["steps"][0]["feature"]) for letter, plan in plans.items()}
        best = sorted(plans, key=place.get)
        parts = {"h1_1": best, "h1_2": best[::-1], "smart_home": best}
        return {"content": json.dumps({"overall_order": best, "persona_order": parts, "rationale": "so"})}

    return answer


PLANS = {"gpt": plan("a"), "qwen": plan("b"), "gemini": plan("c")}


def test_plans_are_ordered_twice_and_letters_say_nothing(tmp_path):
    questions = relative_questions(HOUSEHOLD, SITUATION, PLANS, seed=3)
    with ScriptedServer(answer=prefers("bca")) as server:
        verdicts = heard(server, questions, tmp_path / "v.jsonl")
        told = [request["messages"][1]["content"] for request in server.requests]
    found = read_plan_orders([verdicts.stored_verdict(question, "scripted") for question in questions], PLANS, seed=3)
    assert found == [["qwen", "gemini", "gpt"]] * 2
    assert len(told) == 2 and told[0] != told[1] and not re.search("gpt|qwen|gemini", "".join(told))


def test_a_judge_who_prefers_the_first_letter_disagrees_with_itself(tmp_path):
    questions = relative_questions(HOUSEHOLD, SITUATION, PLANS, seed=3)
    first = {"overall_order": list("ABC"), "persona_order": by_all(list("ABC")), "rationale": "A"}
    with ScriptedServer(answer=replies(first)) as server:
        verdicts = heard(server, questions, tmp_path / "v.jsonl")
    found = read_plan_orders([verdicts.stored_verdict(question, "scripted") for question in questions], PLANS, seed=3)
    assert found[0][0] != found[1][0] and found[0] == found[1][::-1]


@pytest.mark.parametrize("order", ["AB", "ABB", "ABCD", "ABCA", "abc", ""])
def test_an_order_has_every_letter_once(order):
    (question, _) = relative_questions(HOUSEHOLD, SITUATION, PLANS, seed=0)
    whole = {"overall_order": list("BCA"), "persona_order": by_all(list("CAB")), "rationale": "so"}
    assert question.shape.model_validate(whole)
    for broken in (whole | {"overall_order": list(order)}, whole | {"persona_order": by_all(list(order))}):
        with pytest.raises(ValidationError):
            question.shape.model_validate(broken)


@given(st.sets(st.text(min_size=1, max_size=3), min_size=2, max_size=26), st.integers(0, 99))
def test_letters_are_a_shuffle_and_its_opposite(models, seed):
    first, second = assign_letters(sorted(models), seed)
    assert set(first.values()) == models and list(second.values()) == list(first.values())[::-1]
    assert (first, second) == assign_letters(sorted(models, reverse=True), seed)


def test_letters_end_at_z():
    for count in (1, 27):
        with pytest.raises(ValueError, match="2 to 26 plans"):
            relative_questions(HOUSEHOLD, SITUATION, {str(n): plan("a") for n in range(count)}, seed=0)


# Meaning

ASKED = {"o": "Where is Emma?", "f1": "And if she were up?", "f2": "And at 7?"}
TRUE = {"o": ["study"], "f1": ["21 °C"], "f2": ["kitchen"]}


def test_rules_decide_before_the_judge(tmp_path):
    said = {"o": "Study.", "f1": "24 °C", "f2": "the room where they cook"}
    question = equivalence_question(ASKED, said, TRUE)
    with ScriptedServer(answer=replies({"f2": 1})) as server:
        verdicts = heard(server, [question], tmp_path / "v.jsonl")
        assert set(json.loads(server.requests[0]["messages"][1]["content"])) == {"f2"}
    found = decide_answers(said, TRUE, verdicts.stored_verdict(question, "scripted"))
    assert found.correct == {"o": True, "f1": False, "f2": True} and not found.unsure and not found.open
    assert decide_answers(said, TRUE).open == ("f2",) and not decide_answers(said, TRUE).correct["f2"]


def test_an_unsure_judge_counts_0_and_is_reported():
    said = {"o": "the den", "f1": "21 degrees", "f2": "where they cook"}
    found = decide_answers(said, TRUE, {"o": -1, "f2": 0})
    assert found.correct == {"o": False, "f1": True, "f2": False} and found.unsure == ("o",)


def test_nobody_is_asked_what_rules_decide():
    assert equivalence_question(ASKED, {"o": "study", "f1": "21", "f2": None}, TRUE | {"f1": ["21"]}) is None


@pytest.mark.parametrize("verdict", [{"o": 2}, {"o": True}, {"o": "1"}, {}, {"o": 1, "f1": 1}, {"o": 0.5}])
def test_a_verdict_on_meaning_is_1_0_or_minus_1(verdict):
    question = equivalence_question({"o": "?"}, {"o": "the den"}, {"o": ["study"]})
    with pytest.raises(ValidationError):
        question.shape.model_validate(verdict)


# The store


def test_a_second_run_asks_nobody(tmp_path):
    questions = [absolute_question(HOUSEHOLD, SITUATION, plan(name)) for name in "abca"]
    done = []
    with ScriptedServer(answer=replies(rated(3))) as server:
        first = heard(server, questions, tmp_path / "v.jsonl", progress=lambda *at: done.append(at))
        again = heard(server, questions, tmp_path / "v.jsonl")
        assert len(server.requests) == 3 and sorted(done) == [(1, 3), (2, 3), (3, 3)]
    stored = VerdictStore(tmp_path / "v.jsonl")
    for question in questions:
        assert first.stored_verdict(question, "scripted") == again.stored_verdict(question, "scripted") == rated(3)
        assert stored.stored_verdict(question, "scripted") == rated(3) and stored.stored_verdict(question, "another") is None


def test_what_is_asked_differs_by_all_that_matters():
    base = absolute_question(HOUSEHOLD, SITUATION, plan("a"))
    others = [
        absolute_question(HOUSEHOLD, SITUATION, plan("b")),
        absolute_question(HOUSEHOLD, "quiet", plan("a")),
        absolute_question(HOUSEHOLD, SITUATION, plan("a"), "zh"),
        absolute_question(HOUSEHOLD | {"layout": "house"}, SITUATION, plan("a")),
    ]
    keys = {base.verdict_key("m"), base.verdict_key("n"), *(question.verdict_key("m") for question in others)}
    assert len(keys) == 6 and base.verdict_key("m") == absolute_question(
        HOUSEHOLD, SITUATION, plan("a"), about={"x": 1}
    ).verdict_key("m")


def test_a_server_that_fails_leaves_its_fault_and_is_asked_again(tmp_path):
    question = absolute_question(HOUSEHOLD, SITUATION, plan("a"))
    with ScriptedServer(answer=replies(rated(5)), faults=Faults(refusals=1.0)) as server:
        assert stored_fault(heard(server, [question], tmp_path / "v.jsonl"), question).reason_kind == "server"
        server.faults = Faults()
        verdicts = heard(server, [question], tmp_path / "v.jsonl")
    assert verdicts.stored_verdict(question, "scripted") == rated(5) and stored_fault(verdicts, question) is None


def test_a_cut_line_is_removed_and_a_broken_one_is_named(tmp_path):
    path, question = tmp_path / "v.jsonl", absolute_question(HOUSEHOLD, SITUATION, plan("a"))
    VerdictStore(path).add_row({"key": question.verdict_key("m"), "verdict": rated(2)})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "x", "ver')
    assert VerdictStore(path).stored_verdict(question, "m") == rated(2) and path.read_bytes() == whole
    path.write_bytes(whole.replace(b'"overall_score":2', b'"overall_score":7'))
    with pytest.raises(InputError, match="another form"):
        VerdictStore(path).stored_verdict(question, "m")
    path.write_bytes(whole + b"5\n")
    with pytest.raises(InputError, match=r"v\.jsonl:2"):
        VerdictStore(path)


def test_a_client_for_a_judge():
    client = make_judge_client("http://a/v1,http://b/v1", "gemini")
    assert [replica.url for replica in client.endpoint.replicas] == ["http://a/v1", "http://b/v1"]
    assert client.endpoint.model == "gemini" and client.settings.temperature == 0.0


# Words


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_language_asks_for_the_same_form(language):
    question = absolute_question(HOUSEHOLD, SITUATION, plan("a", "b"), language)
    form = json.loads(question.system.splitlines()[-1])
    assert question.shape.model_validate(form)
    for part in relative_questions(HOUSEHOLD, SITUATION, {"x": plan("a"), "y": plan("b")}, 0, language):
        assert part.shape.model_validate(json.loads(part.system.splitlines()[-1]))


def test_an_unknown_language_is_refused():
    with pytest.raises(InputError, match="known: en, zh"):
        load_judge_words("tlh")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_revision_is_told_all_that_was_found(language):
    refused = [{"program": "id_b", "step": "1", "message": "there is no appliance 'tv'"}]
    message = revision_message(plan("a", "b"), rated(4, 2), refused, {"h1_1": "Emma", "h1_2": "Noah"}, language)
    text = message["content"]
    assert message["role"] == "user" and "{" not in text and "h1_1" not in text
    for part in (
        "id_a",
        "id_b",
        "Emma",
        "Noah",
        load_judge_words(language).revision.home,
        "there is no appliance 'tv'",
        "4",
        "2",
    ):
        assert part in text
    bare = revision_message([], None, [], {}, language)["content"]
    assert load_judge_words(language).revision.empty in bare and load_judge_words(language).revision.refused not in bare
