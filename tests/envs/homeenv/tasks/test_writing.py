"""How sentences are written: case, final marks, short frames; and that none of it moves a sentence to the other split."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homerl.app.runs.recipe import load_recipe
from homerl.envs.homeenv.diversity import blueprint_recipe, measure_diversity
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.words.grammar import (
    AS_IT_IS,
    MARKS,
    Voice,
    Writing,
    capitalise_sentence,
    is_question,
    lower_sentence,
    punctuate_sentence,
    split_of,
    write_sentence,
)

LANGUAGES = ("en", "zh")
WORDS = st.text(st.sampled_from("abci 灯开'"), min_size=1, max_size=30).filter(lambda text: text.strip())


def bare_sentence(sentence: str) -> str:
    return sentence.lower().rstrip(MARKS)


def blueprints(language: str, writing: Writing, split: str = "train", count: int = 12) -> list[Blueprint]:
    home = HomeRecipe(language=language, devices=(5, 12))
    recipe = BlueprintRecipe(home=home, families={"atomic": 1, "query": 1}, intents=(1, 1), writing=writing)
    return [make_home_blueprint(recipe, split, seed) for seed in range(count)]


def said(made: list[Blueprint]) -> list[str]:
    return [query for blueprint in made for intent in blueprint.intents for query in intent.queries]


@given(text=WORDS, capital=st.floats(0, 0.5), low=st.floats(0, 0.5), marks=st.floats(0, 1), seed=st.integers(0, 99))
def test_writing_changes_case_and_mark_alone(text, capital, low, marks, seed):
    writing = Writing(capitalised=capital, lowered=low, punctuated=marks)
    for language in LANGUAGES:
        text = home_grammar(language).fit_spaces(text)  # as sentences are
        done = write_sentence(text, writing, home_grammar(language), (), random.Random(seed))
        assert bare_sentence(done) == bare_sentence(text)


@given(text=WORDS)
def test_without_shares_nothing_is_drawn(text):
    rng = random.Random(0)
    assert (
        write_sentence(text, AS_IT_IS, home_grammar("en"), (), rng) == text and rng.getstate() == random.Random(0).getstate()
    )


def test_cases_and_marks():
    english, chinese = home_grammar("en"), home_grammar("zh")
    assert capitalise_sentence("what i'd like is a lamp, i think", english) == "What I'd like is a lamp, I think"
    assert lower_sentence("Turn on the TV by HDMI in Lab", ["TV", "Lab"]) == "turn on the TV by hdmi in Lab"
    assert punctuate_sentence("is the light on", english) == "is the light on?"
    assert punctuate_sentence("turn the light on", english) == "turn the light on."
    assert punctuate_sentence("turn the light on!", english) == "turn the light on!"
    assert punctuate_sentence("灯开着吗", chinese) == "灯开着吗？" and punctuate_sentence("打开灯", chinese) == "打开灯。"
    assert not is_question("island light on", english) and is_question("is it on", english)


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("en", "do me a favor and turn the light on", False),
        ("en", "do the floors", False),
        ("en", "do you know which lights are on", True),
        ("en", "when the door opens, turn the light on", False),
        ("en", "when is the light on", True),
        ("en", "may 11 at noon, turn the light on", False),
        ("en", "any time it is dark, turn the light on", False),
        ("en", "any lights on", True),
        ("en", "have all the air conditioners dry the air", False),
        ("en", "in the whole house, how many lights are off", True),
        ("en", "turn the light on would you", True),
        ("zh", "明天九点做这几件事：开灯", False),
        ("zh", "有几个灯开着", True),
        ("zh", "你知道我喜欢这盏灯怎么弄", False),
    ],
)
def test_questions_are_told_from_wishes(language, text, asked):
    assert is_question(text, home_grammar(language)) == asked


def test_small_sentences_have_no_capital_even_in_names():
    rng = random.Random(0)
    assert (
        write_sentence("turn on the Bed Light", Writing(small=1), home_grammar("en"), ["Bed Light"], rng)
        == "turn on the bed light"
    )
    assert (
        write_sentence("turn on the Bed Light", Writing(lowered=1), home_grammar("en"), ["Bed Light"], rng)
        == "turn on the Bed Light"
    )


def test_two_cases_at_once_are_refused():
    with pytest.raises(ValueError, match="their sum should be at most 1"):
        Writing(capitalised=0.6, lowered=0.6)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("split", ["train", "heldout"])
def test_a_written_sentence_stays_in_its_split(language, split):
    texts = said(blueprints(language, Writing(capitalised=0.5, punctuated=0.5, short=0.5), split))
    assert all(split_of(bare_sentence(text)) == split for text in texts)
    marked = [text for text in texts if bare_sentence(text) != text.lower()]
    assert 0.25 < len(marked) / len(texts) < 0.75
    assert language == "zh" or 0.25 < sum(text[0].isupper() for text in texts) / len(texts) < 0.75


@pytest.mark.parametrize("language", LANGUAGES)
def test_short_sentences_are_shorter_and_name_the_device(language):
    token = re.compile(r"[\u4e00-\u9fff]|[a-z0-9%']+")
    lengths = {}
    for share in (0.0, 1.0):
        texts = said(blueprints(language, Writing(short=share), count=40))
        lengths[share] = sorted(len(token.findall(text.lower())) for text in texts)[len(texts) // 2]
    assert lengths[1.0] <= 0.8 * lengths[0.0]


def test_a_recipe_without_the_key_writes_none():
    """Digests of data sets are taken over the recipe as plain data."""
    assert "writing" not in BlueprintRecipe().model_dump()
    assert BlueprintRecipe.model_validate(BlueprintRecipe(writing=Writing(short=1)).model_dump()).writing.short == 1


def test_the_recipe_of_people_comes_near_to_them():
    recipe = blueprint_recipe(load_recipe(Path(__file__).parents[4] / "recipes" / "people.yaml"), "people.yaml")
    report = measure_diversity(recipe, homes=20, each=40, sample=2)
    assert 5 <= report.median_length <= 7
    assert 0.4 < report.capitalised < 0.6 and 0.4 < report.punctuated < 0.6


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 200))
def test_a_short_name_denotes_one_device(seed):
    home = make_home(seed, HomeRecipe(devices=(5, 20)))
    phrases: dict[str, str] = {}
    speaker = Speaker(home, Voice(), "clear", random.Random(seed), short=True)
    for device in home.plan.devices:
        for _ in range(8):
            assert phrases.setdefault(speaker.say_device(device), device.did) == device.did
