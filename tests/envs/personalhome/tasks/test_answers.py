"""Answers are read leniently, what was mended is said, and rules decide only what they can."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.tasks.answer_parser import (
    EMPTY,
    FORMAT_ERROR,
    ReadAnswer,
    decide_by_rules,
    find_json,
    matches_variant,
    parse_choice,
    parse_counterfactual_answers,
    parse_final_answer,
    parse_ranking,
)
from homerl.envs.personalhome.tasks.blueprint import Choice, Grounding, Part, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.situation import answer_goals

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value", "mended"),
    [
        ('{"answer": "the study"}', "the study", ()),
        ('  {"answer": 3, "evidence": [{"rationale": "r", "path": "p"}]}\n', 3, ()),
        ('```json\n{"answer": "x"}\n```', "x", ("code fence",)),
        ('Sure! {"answer": "x"} Anything else?', "x", ("text around",)),
        ('<think>{"answer": "no"} or not</think>{"answer": "x"}', "x", ("text around",)),
        ('{"answer": ["a", "b",],}', ["a", "b"], ("trailing comma",)),
        ("{'answer': 'Emma's room, \"the blue\" one'}", 'Emma\'s room, "the blue" one', ("single quotes",)),
        ("{'answer': 'it\\'s', 'sure': True}", "it's", ("single quotes", "constant")),
        ('It is {"answer": "a"}; no, {"answer": "b"}', "b", ("text around",)),
        ('{"answer": "{not, JSON,}"}', "{not, JSON,}", ()),
        ("The study.", "The study.", ("no JSON",)),
        ('{"answer": "cut off', '{"answer": "cut off', ("no JSON",)),
        ('{"answer": NaN}', '{"answer": NaN}', ("no JSON",)),
    ],
)
def test_an_answer_is_read(text, value, mended):
    assert parse_final_answer(text) == ReadAnswer(value, FORMAT_ERROR if mended else None)


@pytest.mark.parametrize("text", ["", " \n", "<think>hm", '{"answer": ""}', '{"answer": null}', '{"answer": []}'])
def test_nothing_is_an_empty_output(text):
    assert parse_final_answer(text) == ReadAnswer(None, EMPTY)


@given(JSON)
def test_json_is_never_mended(value):
    found = find_json(json.dumps({"answer": value}), lambda got: True)
    assert found.value == {"answer": value} and found.error is None


@given(st.text(alphabet="{}[]'\",:ab \\tT", max_size=40))
def test_no_text_breaks_the_reader(text):
    for read in (parse_final_answer, parse_counterfactual_answers, parse_ranking):
        assert read(text).error in (None, FORMAT_ERROR, EMPTY)


def test_endless_brackets_end_soon():
    assert (
        parse_counterfactual_answers("[" * 20_000).value is None
        and parse_counterfactual_answers('{"a":' * 5_000).error == FORMAT_ERROR
    )


def test_three_answers_together():
    whole = {"original": {"answer": "a", "rationale": "r"}, "counterfactual_1": {"answer": 2}, "counterfactual_2": "c"}
    assert parse_counterfactual_answers(json.dumps(whole)) == ReadAnswer(
        {"original": "a", "counterfactual_1": 2, "counterfactual_2": "c"}
    )
    del whole["counterfactual_1"]
    read = parse_counterfactual_answers(json.dumps(whole))
    assert read.value["counterfactual_1"] is None and read.error == FORMAT_ERROR
    assert parse_counterfactual_answers("nothing") == ReadAnswer(None, FORMAT_ERROR) and parse_counterfactual_answers(
        ""
    ) == ReadAnswer(None, EMPTY)


def test_a_ranking_has_each_feature_once():
    assert parse_ranking('{"ranked_features": ["tv.on", "tv.off"]}') == ReadAnswer(("tv.on", "tv.off"))
    assert parse_ranking('["b", "a"]').value == ("b", "a") and parse_ranking('["b", "a"]').error == FORMAT_ERROR
    read = parse_ranking('{"ranked_features": ["a", {"feature_id": "b", "rank": 2}, "a", 7]}')
    assert read.value == ("a", "b") and read.error == FORMAT_ERROR
    assert parse_ranking('{"ranked_features": []}').value is None


@pytest.mark.parametrize(
    ("said", "variants"),
    [
        ("The Kitchen", ["kitchen"]),
        ("h1_2", ["Emma", "h1_2"]),
        (3, ["three"]),
        (True, ["yes"]),
        (["Emma"], ["emma"]),
        (["Noah", "Emma"], [("Emma", "Noah")]),
        ("Noah and Emma.", [("Emma", "Noah")]),
        ("A, B, and C", [("c", "b", "a")]),
        ("小明、小红", [("小红", "小明")]),
        (["Emma, Noah"], [("Noah", "Emma")]),
        ("Bed and Breakfast", ["bed and breakfast"]),
    ],
)
def test_what_matches(said, variants):
    assert matches_variant(said, variants) and decide_by_rules(said, variants) == "right"


@pytest.mark.parametrize(
    ("said", "variants"),
    [
        (["Emma", "Noah"], ["Emma"]),
        (["Emma"], [("Emma", "Noah")]),
        ("Emma, Noah and Ann", [("Emma", "Noah")]),
        ("kitchen or study", ["kitchen"]),
        ("", ["kitchen"]),
        (None, ["none"]),
        ("kitchen", []),
        ({"a": 1}, ["a"]),
    ],
)
def test_what_does_not_match(said, variants):
    assert not matches_variant(said, variants) and decide_by_rules(said, variants) != "right"


@pytest.mark.parametrize(
    ("said", "variants", "verdict"),
    [
        ("24 °C", ["23 °C"], "wrong"), ("24", ["23 °C"], "wrong"), ("23", ["23 °C"], "undecided"), ("no", ["yes"], "wrong"),
        ("6 pm", ["18:30"], "wrong"), ("2025-03-05", ["March 4, 2025"], "wrong"), ("23.46", ["23.5"], "undecided"),
        ("73 °F", ["23 °C"], "undecided"), ("unknown", ["study"], "wrong"), (None, ["study"], "wrong"), ("", ["x"], "wrong"),
        ("the room with the desk", ["study"], "undecided"), ("24", ["23", "about that"], "undecided"),
        ("Emma", [("Emma", "Noah")], "undecided"), ("2025-03-04", ["2025-03-04 18:30"], "undecided"),
        ("2", ["2 hours"], "undecided"), ("3 hours", ["2 hours"], "wrong"), ("N/A", ["study"], "wrong"),
    ],
)  # fmt: skip
def test_rules_decide_what_is_typed(said, variants, verdict):
    assert decide_by_rules(said, variants) == verdict


@given(st.floats(-1e6, 1e6, allow_nan=False), st.floats(-1e6, 1e6, allow_nan=False))
def test_numbers_far_apart_are_always_wrong(one, other):
    if abs(one - other) > 1:
        assert decide_by_rules(f"{one:.3f}", [f"{other:.3f}"]) == "wrong"


OPTIONS = ["study", "the kitchen", "living room", "A", "18:30"]


@pytest.mark.parametrize(
    ("said", "index"),
    [
        ("B", 1), ("b)", 1), ("(C)", 2), ("C.", 2), ("Option E", 4), ("kitchen", 1), ("B. Kitchen", 1),
        ("B: the kitchen", 1), ("6:30 pm", 4), (["B"], 1), ("选项B", 1), ("选C", 2), ("D", 3), ("C: kitchen", None),
        ("F", None), ("B, C", None),
        ("unknown", None), ("", None), (None, None), (["A", "B"], None), ("attic", None), ("A study", 0),
    ],
)  # fmt: skip
def test_a_choice_is_a_letter_or_a_text(said, index):
    assert parse_choice(said, OPTIONS) == index


@given(st.integers(0, 4))
def test_every_option_is_chosen_by_letter_and_by_text(at):
    options = ["one bed", "two beds", "three beds", "four beds", "no bed"]
    assert parse_choice("ABCDE"[at], options) == parse_choice(options[at].upper(), options) == at


TASKS = (
    Grounding(
        family="f",
        difficulty="simple",
        personal=True,
        question="?",
        evidence=(),
        parts=(Part(key="original", variants=("5", "5 minutes")),),
    ),
    Choice(family="f", difficulty="simple", personal=True, question="?", evidence=(), choices=tuple("12345"), right="B"),
)


@pytest.mark.parametrize(
    "count", [pytest.param(400, marks=pytest.mark.long), 5000]
)  # more digits than a float holds, and more than Python reads
@pytest.mark.parametrize(
    "form", ["{9}", "-{9}.5 kW", "1 hour and {9} minutes", "{9}月3日", "{一}年3月", "下午{五}点", "{千}"]
)
def test_no_number_is_too_long(form, count):
    number = re.sub(r"{(.)}", lambda found: found[1] * count, form)
    assert not matches_variant(number, ["5", "2 hours", "2025-03-04"]) and matches_variant(number, [number])
    assert decide_by_rules(number, ["5"]) in ("wrong", "undecided")
    assert parse_choice(number, tuple("12345")) is None
    for task in TASKS:
        blueprint = PersonalHomeBlueprint.model_construct(task=task)
        for said in (number, f'{{"answer": {number}}}', f'{{"original": {number}}}'):
            assert answer_goals(blueprint, said) == (False,)
