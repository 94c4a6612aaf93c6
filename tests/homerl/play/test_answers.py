"""Answers: rules held to a corpus of texts, and what no agent may gain by."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from homerl.play.words.answer_rules import Answer, judge_answer_by_rules

CORPUS = yaml.safe_load((Path(__file__).parent / "answers.yaml").read_text(encoding="utf-8"))
VERDICTS = ("right", "wrong", "undecided")
TRIPLES = [
    (Answer.model_validate(group["expected"]), text, verdict)
    for group in CORPUS
    for verdict in VERDICTS
    for text in group.get(verdict, ())
]


def test_the_corpus_is_large_and_in_both_languages():
    chinese = sum(any("\u4e00" <= sign <= "\u9fff" for sign in text) for _, text, _ in TRIPLES)
    assert len(TRIPLES) >= 250 and chinese >= 60


@pytest.mark.parametrize(("expected", "text", "verdict"), TRIPLES, ids=lambda part: str(part)[:40])
def test_a_text_of_the_corpus(expected, text, verdict):
    reading = judge_answer_by_rules(expected, text)
    assert ("wrong" if reading == "silent" else reading) == verdict


COUNT = Answer(type="number", value=3, unit="count")


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=6, unique=True), st.sampled_from([", ", " or ", " ", ". ", "; ", "\n"])
)
def test_no_list_of_guesses_is_right(guesses, link):
    assert judge_answer_by_rules(COUNT, link.join(map(str, guesses))) != "right"
    assert judge_answer_by_rules(COUNT, link.join(f"There are {n} lights on" for n in guesses)) != "right"
    assert judge_answer_by_rules(COUNT, link.join(f"有{n}盏灯亮着" for n in guesses)) != "right"


@given(st.lists(st.integers(0, 9), min_size=2, max_size=5), st.sampled_from(["", ", so {}", ", {} in total", "一共{}盏"]))
def test_no_account_of_numbers_is_right_for_two_answers(numbers, ending):
    text = ", ".join(f"{n} in room {room}" for room, n in zip("abcde", numbers)) + ending.format(numbers[0])
    right = [n for n in range(50) if judge_answer_by_rules(Answer(type="number", value=n, unit="count"), text) == "right"]
    assert len(right) <= 1


@given(st.integers(0, 500), st.sampled_from(["{}", "There are {} of them.", "It is {}.", "一共{}个。", "The answer: {}"]))
def test_a_number_is_read_in_every_frame_and_no_other_for_it(value, frame):
    expected = Answer(type="number", value=value, unit="count")
    assert (
        judge_answer_by_rules(expected, frame.format(value))
        == "right"
        != judge_answer_by_rules(expected, frame.format(value + 1))
    )


@given(st.text(max_size=60))
def test_any_text_is_judged(text):
    for expected, _, _ in TRIPLES[::20]:
        assert judge_answer_by_rules(expected, text) in (*VERDICTS, "silent")
