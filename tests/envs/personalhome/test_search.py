"""Search: what counts as the same word, and in which order texts are found."""

from __future__ import annotations

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25, search_terms
from tests.envs.personalhome.conftest import printed

TEXTS = ("Anna bakes a pie", "Tom brewed coffee", "the cat slept", "coffee with Anna, more coffee", "Tom brewed coffee")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("baking", "Bakes"),
        ("bake", "baked"),
        ("running", "run"),
        ("allergies", "allergy"),
        ("glasses", "glass"),
        ("ＴＶ", "tv"),
    ],
)
def test_forms_of_a_word_are_one_word(one: str, other: str) -> None:
    assert search_terms(one) == search_terms(other) != []


def test_words_that_say_nothing_are_left_out() -> None:
    assert search_terms("Who was it that did the") == [] == search_terms("") == search_terms("?!")


def test_chinese_gives_characters_and_pairs() -> None:
    assert search_terms("煮咖啡 for TV") == ["煮", "咖", "啡", "煮咖", "咖啡", "tv"]
    assert rank_by_bm25("谁喝咖啡", ["汤姆喝红茶", "安娜煮咖啡", "猫睡觉"]) == [1, 0]


def test_the_best_text_comes_first_and_the_earlier_of_equals() -> None:
    assert rank_by_bm25("coffee", TEXTS) == [3, 1, 4]
    assert rank_by_bm25("brewed coffee", TEXTS)[:2] == [1, 4]
    assert rank_by_bm25("zebra", TEXTS) == rank_by_bm25("the", TEXTS) == rank_by_bm25("coffee", []) == []


def test_texts_without_words_are_never_found() -> None:
    assert rank_by_bm25("coffee", ["", "?", "coffee"]) == [2]
    assert rank_by_bm25("coffee", ["", "the"]) == []


@few(15, 40)
@given(st.text(max_size=20), st.lists(st.text(max_size=12), max_size=6))
def test_any_text_can_be_searched(query: str, texts: list[str]) -> None:
    found = rank_by_bm25(query, texts)
    assert len(set(found)) == len(found) and all(set(search_terms(query)) & set(search_terms(texts[at])) for at in found)
    assert set(found) == {at for at, text in enumerate(texts) if set(search_terms(query)) & set(search_terms(text))}


@pytest.mark.long
def test_the_order_is_the_same_in_every_process() -> None:
    module = "homerl.envs.personalhome.sim.bm25_search"
    code = f"from {module} import rank_by_bm25; print(rank_by_bm25('anna brewed coffee', {TEXTS!r}))"
    assert printed(code) == str(rank_by_bm25("anna brewed coffee", TEXTS))
