"""Words: every key has some in both languages, and a sentence holds the words of every field of its fact."""

from __future__ import annotations

import random
from functools import cache
from itertools import chain

import pytest

from homerl.envs.homeenv.maker.home_names import Half
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, sensor_kinds
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Fact, Habit, Household, Taste
from homerl.envs.personalhome.sim.vocabulary import (
    TASTE_UNITS,
    FactWords,
    Halves,
    Vocabulary,
    fill_frame,
    household_cast,
    load_fact_words,
    load_vocabulary,
)

LANGUAGES = ("en", "zh")
GROUPS = [name for name in Vocabulary.model_fields if name != "facts"]
HALVES: tuple[Half, ...] = ("train", "heldout")


@cache
def household(language: str) -> Household:
    return next(made for seed in range(50) if (made := make_household(seed, HouseholdRecipe(language=language))).pets)


def sample(kind: str, home: Household) -> Fact:
    """A fact of a kind with every field that the kind has."""
    shape = load_vocabulary().facts[kind]
    who, other = f"{home.household_id}_1", home.members[-1].member_id
    device = home.home["devices"][0]
    known = {
        "who": who,
        "others": (other,) if other != who else (),
        "pet": home.pets[0].name,
        "appliance": device["did"],
        "sensor": home.home["devices"][-1]["did"],
        "room": device["room"],
        "value": 21.5,
        "unit": "celsius",
        "what": load_vocabulary().group_keys(shape.what)[0] if shape.what else None,
    }
    return Fact(kind=kind, **{field: known[field] for field in shape.fields})


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("group", GROUPS)
def test_every_key_has_words_that_differ_from_those_of_the_other_keys(language: str, group: str) -> None:
    words, keys = load_fact_words(language), load_vocabulary().group_keys(group)
    assert words.keys[group].keys() == {*keys}
    assert len({words.key_word(group, key) for key in keys}) == len(keys)


@pytest.mark.parametrize("language", LANGUAGES)
def test_facts_tastes_categories_and_devices_have_words(language: str) -> None:
    words = load_fact_words(language)
    assert words.facts.keys() == load_vocabulary().facts.keys()
    assert words.tastes.keys() == load_vocabulary().tastes.keys()
    assert words.keys["categories"].keys() == load_vocabulary().situations.keys()
    assert words.keys["devices"].keys() == {*appliance_kinds(), *sensor_kinds()}
    assert len({*words.keys["devices"].values()}) == len(words.keys["devices"])


def test_both_languages_have_the_same_units_and_groups() -> None:
    first, second = map(load_fact_words, LANGUAGES)
    assert first.units.keys() == second.units.keys()
    assert {group: keys.keys() for group, keys in first.keys.items()} == {g: keys.keys() for g, keys in second.keys.items()}


def halves(words: FactWords) -> list[Halves]:
    alone = [words.pets, words.characters, words.persona, words.life_event, words.habit, words.habit_every_day]
    return [*words.people.values(), *words.facts.values(), *words.tastes.values(), *alone]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_halves_share_nothing(language: str) -> None:
    words = load_fact_words(language)
    for both in halves(words):
        assert not {*both.train} & {*both.heldout}
    names = [*chain(*(h.train + h.heldout for h in (*words.people.values(), words.pets)))]
    assert len({*names}) == len(names)
    people = [*chain(*(h.train + h.heldout for h in words.people.values()))]
    assert not [(a, b) for a in people for b in people if a != b and a in b], "a name within a name cannot be told apart"
    assert len(words.people["Male"].train) == len(words.people["Female"].train)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("half", HALVES)
def test_each_frame_says_every_field_of_its_fact(language: str, half: Half) -> None:
    words, home = load_fact_words(language), household(language)
    cast = household_cast(home.members, home.home)
    for kind, frames in words.facts.items():
        fact = sample(kind, home)
        facts = [fact] if kind != "noticed" else [fact.model_copy(update={lacks: None}) for lacks in ("who", "sensor")]
        for one in facts:
            said = words.fact_field_words(one, cast)
            for frame in frames.entries_of(half):
                text = fill_frame(frame, said)
                spoken = {word for field, word in said.items() if field not in ("room", "place")}
                assert all(word.lower() in text.lower() for word in spoken), text
                assert one.room is None or cast.rooms[one.room].name.lower() in text.lower(), text
                assert not {*"[]{}"} & {*text} and "  " not in text, text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("half", HALVES)
def test_each_taste_and_habit_says_its_fields(language: str, half: Half) -> None:
    words, home = load_fact_words(language), household(language)
    cast, room = household_cast(home.members, home.home), home.home["rooms"][0]
    for kind, shape in load_vocabulary().tastes.items():
        what = load_vocabulary().group_keys(shape.what)[0] if shape.what else None
        full = {"low": 20, "high": 30, "hours": (22, 6), "room": room["id"], "what": what}
        taste = Taste(kind=kind, **{field: full[field] for field in shape.fields})
        text = words.say_taste(taste, cast, random.Random(0), half)
        bounds = [words.quantity_text(full[b], TASTE_UNITS[kind]) for b in ("low", "high") if b in shape.fields]
        hours = [*map(words.hour_text, (22, 6))] if "hours" in shape.fields else []
        assert all(
            part in text for part in (*bounds, *hours, *([words.key_word(shape.what, what)] if shape.what and what else []))
        )
        assert "room" not in shape.fields or room["name"] in text
    device = home.home["devices"][0]
    for days in ((0, 1, 2, 3, 4), (5, 6), (0, 3), (0, 1, 2, 3, 4, 5, 6)):
        habit = Habit(activity="yoga", days=days, hour=9, room=device["room"], appliance=device["did"])
        text = words.say_habit(habit, cast, random.Random(0), half)
        assert words.key_word("activities", "yoga") in text and words.hour_text(9) in text and device["name"] in text
        assert len(days) == 7 or words.weekdays_text(days) in text


def test_english_minds_number_articles_and_prepositions() -> None:
    words = load_fact_words("en")
    assert words.quantity_text(1, "day") == "1 day" and words.quantity_text(3, "day") == "3 days"
    assert words.quantity_text(21.5, "celsius") == "21.5 °C" and words.quantity_text(40.0, "percentage") == "40%"
    assert words.list_names(["Ann"]) == "Ann" and words.list_names(["Ann", "Ben", "Cid"]) == "Ann, Ben and Cid"
    assert words.list_names([]) == ""
    assert words.moment_text(5, 9) == "Saturday morning"
    for half in HALVES:
        for character in words.characters.entries_of(half):
            article, word = character.split(maxsplit=1)
            assert article == ("an" if word[0] in "aeiou" else "a"), character


def test_optional_parts_of_a_frame_are_left_out_without_their_fields() -> None:
    assert fill_frame("{who} left[ with {others}].", {"who": "Ann"}) == "Ann left."
    assert fill_frame("{who} left[ with {others}].", {"who": "ann", "others": "Ben"}) == "Ann left with Ben."
    with pytest.raises(KeyError):
        fill_frame("{who} left.", {})
