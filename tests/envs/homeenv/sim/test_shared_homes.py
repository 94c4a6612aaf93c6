"""Homes that several tasks share, and names as people give them in Home Assistant."""

from collections import defaultdict

import pytest

from homerl.envs.homeenv.maker.home_names import title_case
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan

RECIPE = HomeRecipe(devices=(4, 9), different=5)


def names(home):
    return tuple((device.did, device.name, device.room.name) for device in home.plan.devices)


def test_tasks_share_homes_in_different_states_and_splits_share_none():
    found = defaultdict(set)
    for seed in range(120):
        home = make_home(seed, RECIPE)
        found[seed % 2, names(home)].add((home.clock, home.state_key()))
    assert len(found) == 10 and all(len(states) > 5 for states in found.values())
    assert not {key for split, key in found if split} & {key for split, key in found if not split}


def test_a_shared_home_is_one_that_the_recipe_makes():
    alone = {names(make_home(seed, RECIPE.model_copy(update={"different": None}))) for seed in range(0, 10, 2)}
    assert {names(make_home(seed, RECIPE)) for seed in range(0, 80, 2)} == alone


def test_names_in_title_case_are_the_same_names_and_often_begin_with_the_room():
    plain, titled = HomeRecipe(devices=(5, 9)), HomeRecipe(devices=(5, 9), titled=1)
    whole = 0
    for seed in range(30):
        one, other = make_home(seed, plain), make_home(seed, titled)
        assert [title_case(device.name) for device in one.plan.devices] == [device.name for device in other.plan.devices]
        told = [entity.name for entity in entities_of_plan(other.plan) if entity.name.startswith(entity.device.room.name)]
        whole += bool(told)
    assert 8 <= whole <= 22, "in about half of the homes"
    assert title_case("kids tv-stand ac") == "Kids TV-Stand AC"


def test_names_of_other_letters_have_no_title_case():
    with pytest.raises(ValueError, match="`titled` makes words of Latin letters"):
        HomeRecipe(language="zh", titled=0.5)
