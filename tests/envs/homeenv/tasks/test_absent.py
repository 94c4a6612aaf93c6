"""Devices that are not there: the agent says so, and touches nothing."""

import random

import pytest
from crossed import crossed

from homerl.envs.homeenv.language.meaning import devices_of_kind
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.intents import Ask, intent_families
from homerl.envs.homeenv.tasks.intents.absent import KINDS
from homerl.play.trajectory import Outcome
from homerl.play.words.answer_rules import judge_answer_by_rules
from tests.envs.homeenv.tasks.intents import blueprints, expert_plays, idle_plays

FAMILY, SUBCATEGORIES = "absent", ("in_home", "in_room")


@crossed(subcategory=SUBCATEGORIES, toolset=["homeflow", "smh", "direct", "assist"])
def test_the_expert_says_that_there_is_none_and_other_answers_fail(subcategory, toolset):
    for blueprint in blueprints(FAMILY, subcategory, toolset, 6):
        (intent,) = blueprint.intents
        assert judge_answer_by_rules(intent.answer, intent.reply) == "right", intent.reply
        assert not (intent.plan or intent.conditions or intent.reads)
        assert expert_plays(blueprint) is Outcome.SUCCESS
        assert idle_plays(blueprint) is not Outcome.SUCCESS
        assert idle_plays(blueprint, "It is off now.") is not Outcome.SUCCESS


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("subcategory", SUBCATEGORIES)
def test_an_answer_is_right_in_each_language(subcategory, language):
    home = HomeRecipe(devices=(4, 12), language=language)
    recipe = BlueprintRecipe(families={f"{FAMILY}/{subcategory}": 1}, intents=(1, 1), home=home)
    for seed in range(10):
        (intent,) = make_home_blueprint(recipe, "train", seed).intents
        assert judge_answer_by_rules(intent.answer, intent.reply) == "right", intent.reply


def test_what_is_asked_for_is_not_in_the_home_and_no_name_has_its_word():
    for seed in range(60):
        home = make_home(seed, HomeRecipe(devices=(3, 16), titled=seed % 2))
        if draft := intent_families()[FAMILY]["in_home"](home, random.Random(seed), Ask("clear")):
            kind = draft.meaning.of.kind if hasattr(draft.meaning, "of") else draft.meaning.kind
            assert kind in KINDS and not devices_of_kind(home, kind)
            assert not any(kind in device.name.lower() for device in home.plan.devices)
