"""A plan is read in both printed shapes, and every step that was written is there."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.tasks.answer_parser import EMPTY, FORMAT_ERROR, ReadAnswer, parse_plan

STEP = {"step_id": "1", "appliance": "tv", "feature": "on", "category": ["ROUTINE"], "args": {"volume": 3}, "rationale": "r"}


def program(name, *steps):
    return {"program_id": name, "steps": list(steps)}


def test_both_printed_shapes_give_the_same():
    nested = [program("a", STEP, STEP | {"step_id": "2"}), program("b", STEP)]
    flat = [step | {"program_id": part["program_id"]} for part in nested for step in part["steps"]]
    assert parse_plan(json.dumps(nested)) == ReadAnswer(tuple(nested)) == parse_plan(json.dumps(flat))


def test_flat_steps_get_numbers_in_their_program():
    bare = {"program_id": "a", "appliance": "tv", "feature": "on"}
    (one, other) = parse_plan(json.dumps([bare, bare | {"program_id": "b"}, bare])).value
    assert [step["step_id"] for step in one["steps"]] == ["1", "2"] and len(other["steps"]) == 1
    assert one["steps"][0]["args"] == {} and one["steps"][0]["category"] == []


def test_what_is_malformed_is_still_a_step():
    read = parse_plan(json.dumps([program("a", STEP | {"args": [1]}, 5, STEP | {"args": '{"x": 1}'}, STEP | {"args": "?"})]))
    steps = read.value[0]["steps"]
    assert [step["args"] for step in steps] == [None, {}, {"x": 1}, None] and steps[1]["appliance"] == ""
    assert read.error == FORMAT_ERROR


def test_what_can_be_mended():
    one = program("a", STEP)
    for text in (
        json.dumps({"programs": [one]}),
        json.dumps(one),
        f"Here it is:\n```json\n{json.dumps([one])}\n```",
        str([one]),
    ):
        assert parse_plan(text) == ReadAnswer((one,), FORMAT_ERROR)
    unnamed = parse_plan(json.dumps([{"steps": [STEP]}, {"steps": [STEP]}]))
    assert [part["program_id"] for part in unnamed.value] == ["program_1", "program_2"]
    assert unnamed.error == FORMAT_ERROR


def test_nothing_to_do_is_a_plan_and_words_are_none():
    assert parse_plan("[]") == ReadAnswer(()) and parse_plan('{"plan": []}').value == ()
    assert len(parse_plan(f"{json.dumps([program('a', STEP)])} Nothing else: []").value) == 1
    assert parse_plan("I would turn on the light.") == ReadAnswer(None, FORMAT_ERROR)
    assert parse_plan("[1, 2]").value is None and parse_plan("").error == EMPTY


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=4))
def test_no_step_is_lost(parts):
    written = [program(name, *[STEP] * steps) for name, steps in parts]
    read = parse_plan(json.dumps(written)).value
    assert sum(len(part["steps"]) for part in read) == sum(steps for _, steps in parts)
    assert [part["program_id"] for part in read] == list(dict.fromkeys(name for name, _ in parts))
