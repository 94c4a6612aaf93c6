"""Coined names: the same from the same seed, apart in a home, in every word that agents and users read."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from homerl.envs.homeenv.maker.home_names import NAME, coin_word, load_lexicon
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home

COINED = HomeRecipe(devices=(4, 9), ids="slug", coined=1.0)


@given(st.integers(0, 10_000))
def test_every_name_is_new_and_none_twice(seed):
    home, words = make_home(seed, COINED), load_lexicon("en").all_words
    rooms = {device.room.name for device in home.plan.devices}
    assert all(any(word not in words for word in name.replace("-", " ").split()) for name in rooms)
    names = [(device.room.name, device.name) for device in home.plan.devices]
    assert len(set(names)) == len(names) and all(NAME.fullmatch(part) for name in names for part in name)
    assert len({device.did for device in home.plan.devices}) == len(names)
    assert all(device.did.startswith(re.sub("[ -]", "_", device.room.name)) for device in home.plan.devices)


@given(st.randoms(use_true_random=False), st.sampled_from([(), ("lamp",), ("kitchen", "lamp", "tv")]))
def test_words_can_be_spoken(rng, home):
    word = coin_word(rng, home)
    assert word.isascii() and word.isalpha() and word.islower() and 2 <= len(word) <= 24
    assert set(word) & set("aeiou")


def test_some_words_begin_like_those_of_the_home_and_go_on_in_another_way():
    rng, home = random.Random(0), ("kitchen", "radiator")
    words = [coin_word(rng, home) for _ in range(300)]
    begun = [word for word in words if word.startswith(("kit", "rad")) and word not in home]
    assert 0.1 < len(begun) / 300 < 0.4 and len(set(begun)) > 20


def test_coined_words_stand_before_and_after_known_ones():
    words = load_lexicon("en").all_words
    names = {device.name for seed in range(60) for device in make_home(seed, COINED).plan.devices}
    pairs = {tuple(word in words for word in name.split()) for name in names if "-" not in name}
    assert {(False,), (False, True), (True, False), (False, False)} <= pairs
    assert any("-" in name and name.split()[-1] in words for name in names)


def test_no_word_of_the_held_out_half_is_blended():
    halves = load_lexicon("en")
    trained = {
        w for names in (*halves.rooms.values(), *halves.devices.values()) for name in names.train for w in name.split()
    }
    home = make_home(11, HomeRecipe(devices=(9, 9)))
    spoken = {word for device in home.plan.devices for word in (*device.name.split(), *device.room.name.split())}
    assert spoken <= trained | {"2", "3"}


def test_the_same_seed_gives_the_same_names_and_most_seeds_differ():
    first = [device.name for device in make_home(3, COINED).plan.devices]
    assert first == [device.name for device in make_home(3, COINED).plan.devices]
    assert first != [device.name for device in make_home(4, COINED).plan.devices]


def test_all_but_the_names_is_as_without():
    plain, coined = (make_home(5, HomeRecipe(devices=(4, 9), coined=share)) for share in (0.0, 0.5))
    assert [(d.did, d.spec.name, d.room.id) for d in plain.plan.devices] == [
        (d.did, d.spec.name, d.room.id) for d in coined.plan.devices
    ]
    assert "coined" not in HomeRecipe().model_dump()


def test_languages_without_latin_letters_are_refused():
    with pytest.raises(ValidationError, match="Latin letters"):
        HomeRecipe(language="zh", coined=0.5)
