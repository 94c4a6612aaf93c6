"""Errands: of products in Home Assistant's shape, and of shipped ones where these can do them."""

import random
from collections import Counter

import pytest
from crossed import crossed

from homerl.envs.assistant.listing.homeassistant_mapping import to_homeassistant
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.automation import check_action
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home_file import home_from_json, save_home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.intents import Ask, intent_families
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import Voice
from tests.envs.homeenv.tasks.intents import TOOLSETS, expert_plays, idle_plays

KINDS = ("timer", "todo", "media_player", "scene", "script", "weather", "vacuum", "lawn_mower", "light")
SUBCATEGORIES = ("timer", "list", "skip", "artist", "named", "clean", "mow", "time_left", "on_list")


def home(language: str = "en") -> HomeRecipe:
    return HomeRecipe(catalogue=("homeassistant",), categories=KINDS, devices=(16, 24), language=language)


def blueprint(name: str, toolset: str, language: str, seed: int) -> Blueprint:
    recipe = BlueprintRecipe(families={f"household/{name}": 1}, intents=(1, 1), home=home(language), toolset=toolset)
    return make_home_blueprint(recipe, "train", seed)


def test_every_errand_is_tried():
    assert tuple(intent_families()["household"]) == SUBCATEGORIES


@crossed(name=SUBCATEGORIES, toolset=TOOLSETS, language=["en", "zh"])
def test_the_expert_succeeds_and_idling_fails(name, toolset, language):
    for seed in range(2):
        made = blueprint(name, toolset, language, seed)
        assert expert_plays(made) is Outcome.SUCCESS, made.intents[0].queries
        assert idle_plays(made) is not Outcome.SUCCESS


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["sky", "outdoors"])
def test_the_weather_is_told_from_its_device(name, language):
    for toolset in TOOLSETS:
        recipe = BlueprintRecipe(families={f"weather/{name}": 1}, intents=(1, 1), home=home(language), toolset=toolset)
        made = make_home_blueprint(recipe, "train", 0)
        assert expert_plays(made) is Outcome.SUCCESS, made.intents[0].reply
        assert idle_plays(made) is not Outcome.SUCCESS


@pytest.mark.parametrize("name", ["list", "artist", "on_list"])
def test_what_people_name_is_in_their_language_whatever_the_home_is_called_in(name, tmp_path):
    homes = (make_home(seed, home("zh")) for seed in range(40))
    has = (("todo", 1), ("media_player", 2))
    one = next(made for made in homes if all(len([*made.find_devices(category=kind)]) == count for kind, count in has))
    save_home(one, tmp_path / "home.json")
    theirs = HomeRecipe(files=(str(tmp_path / "home.json"),), language="en")
    recipe = BlueprintRecipe(families={f"household/{name}": 1}, intents=(1, 1), home=theirs, toolset="smh")
    for seed in range(4):
        made = make_home_blueprint(recipe, "train", seed)
        assert expert_plays(made) is Outcome.SUCCESS
        written = [str(arg) for call in made.intents[0].plan for arg in call.args]
        listed = [str(item) for item in made.intents[0].answer.value] if made.intents[0].answer else []
        assert all(text.isascii() for text in (*written, *listed)) and (written or listed)


def test_one_errand_solves_it_and_two_tracks_on_do_not():
    for seed in range(6):
        made = blueprint("skip", "smh", "en", seed)
        (intent,) = made.intents
        start = home_from_json(made.home, "home")
        (text,) = intent.conditions
        once, twice = home_after_calls(start, intent.plan), home_after_calls(start, (*intent.plan, *intent.plan))
        condition = compile_condition(text, start.plan)
        assert condition.holds_in(once) and condition.holds_in(twice) == (once.state_key() == twice.state_key())


def test_how_long_a_timer_still_runs_differs_from_home_to_home():
    left = Counter(blueprint("time_left", "smh", "en", seed).intents[0].answer.value for seed in range(30))
    assert len(left) > 7 and max(left.values()) < 10


@pytest.mark.parametrize(("language", "unit"), [("en", "minutes"), ("zh", "分钟")])
def test_the_time_that_is_left_is_told_in_minutes_and_without_a_noun_of_its_own(language, unit):
    for seed in range(20):
        (intent,) = blueprint("time_left", "smh", language, seed).intents
        said = intent.reply.replace(" ", "")
        assert f"{intent.answer.value // 60}{unit}" in said and "atimeof" not in said, intent.reply


def test_an_artist_may_be_written_with_capitals():
    made = blueprint("artist", "smh", "en", 0)
    (intent,) = made.intents
    (call,) = intent.plan
    start = home_from_json(made.home, "home")
    condition = compile_condition(intent.conditions[0], start.plan)
    for said, right in ((call.args[0].title(), True), ("Somebody Else", False)):
        again = Call(did=call.did, service=call.service, args=(said, "music"))
        assert condition.holds_in(home_after_calls(start, (again,))) == right


def test_a_room_to_clean_may_be_given_by_its_name_or_id_and_other_rooms_are_refused():
    found = [made for seed in range(12, 25) if (made := blueprint("clean", "smh", "en", seed)).intents[0].plan[0].args]
    assert found
    for made in found:
        (intent,), start = made.intents, home_from_json(made.home, "home")
        (call,), (text,) = intent.plan, intent.conditions
        (name,) = call.args[0]
        assert name in intent.clarification
        for said in (name, start.plan.find_room(name).id):
            again = Call(did=call.did, service=call.service, args=((said,),))
            assert compile_condition(text, start.plan).holds_in(home_after_calls(start, (again,)))
            sent = to_homeassistant(start, call.did, call.service, {"cleaning_area_id": [said]})
            assert sent.data == {"cleaning_area_id": [start.plan.find_room(name).id]}
        with pytest.raises(Refused, match="there is no room 'moon base'"):
            start.call(call.did, call.service, [["moon base"]])
        rule = {"did": call.did, "locator": call.service, "arguments": {"cleaning_area_id": ["moon base"]}}
        with pytest.raises(Refused, match="there is no room 'moon base'"):
            check_action(start.plan, rule)


def test_a_sole_device_is_not_named_and_one_of_several_is():
    seen = set()
    for seed in range(12):
        made = make_home(seed, home())
        for name in ("timer", "clean", "skip"):
            draft = intent_families()["household"][name](made, random.Random(seed), Ask("clear"))
            if draft is not None:
                wanted = draft.meaning
                doers = [d for d in made.plan.devices if wanted.errand.service in d.spec.service_index]
                doers = [d for d in doers if d.spec.category in (wanted.errand.categories or (d.spec.category,))]
                said = wanted.words(Speaker(made, Voice(), "clear", random.Random(seed)))
                assert wanted.sole == (len(doers) == 1) and (wanted.device.room.name in said) != wanted.sole, said
                seen.add(wanted.sole)
    assert seen == {True, False}
