"""What is asked of a place and not of a device: everything off, more or less of what is felt, all of a kind."""

import json
import random
from collections import Counter

import pytest
from crossed import crossed

from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.intents import Ask, intent_families
from homerl.envs.homeenv.tasks.intents.adjust import FELT, find_dials
from homerl.envs.homeenv.tasks.intents.everything import MEANT
from homerl.play.trajectory import Outcome
from tests.envs.homeenv.tasks.intents import expert_plays, idle_plays


def entities(devices: tuple[int, int], *products: str) -> HomeRecipe:
    return HomeRecipe(devices=devices, catalogue=["homeassistant"], forecast=0, products=[f"ha_{name}" for name in products])


FELT_BY = ("climate_single", "media_player_speaker", "light_brightness")
ENTITIES = entities((6, 14), "light_onoff", "switch", "fan", "cover_position", "lock", *FELT_BY)
SWITCHED = entities((4, 10), "light_onoff", "switch", "cover_position", "lock")


def blueprint(family: str, seed: int, toolset: str = "assist", language: str = "en", **keys):
    of_assist = SWITCHED if family == "everything/in_home" else ENTITIES
    home = of_assist if toolset == "assist" else HomeRecipe(devices=(5, 14), language=language)
    recipe = BlueprintRecipe(families={family: 1}, intents=(1, 1), home=home, toolset=toolset, **keys)
    return make_home_blueprint(recipe, "train", seed)


@crossed(
    toolset=["assist", "homeflow", "smh", "direct"], family=["everything/in_room", "everything/in_home", "felt/in_room"]
)
def test_the_expert_does_it_and_who_does_nothing_fails(family, toolset):
    for seed in range(3):
        made = blueprint(family, seed, toolset)
        assert expert_plays(made) is Outcome.SUCCESS
        assert idle_plays(made) is not Outcome.SUCCESS


@pytest.mark.parametrize("family", ["everything", "felt"])
def test_it_is_said_in_each_language(family):
    for language in ("en", "zh"):
        assert all(blueprint(family, seed, "homeflow", language).intents[0].queries for seed in range(6))


def test_everything_leaves_what_opens_and_locks_and_names_what_is_off_already():
    seen = Counter()
    for seed in range(80):
        home = make_home(seed, HomeRecipe(devices=(4, 12)))
        if draft := intent_families()["everything"]["in_room"](home, random.Random(seed), Ask("clear")):
            end = home_after_calls(home, draft.plan)
            called = {call.did for call in draft.plan}
            assert {kind for did in called for _, kind in home.plan.devices_by_did[did].spec.part_kinds} & MEANT
            assert all(compile_condition(text, home.plan).holds_in(end) for text in (*draft.conditions, *draft.keeps))
            seen["with what is off"] += len(called) > len(draft.devices)
            seen["drafts"] += 1
    assert seen["drafts"] > 20 and seen["with what is off"] > 5


def test_a_wish_that_is_felt_has_one_device_that_could_be_meant():
    drafts = 0
    for seed in range(80):
        home = make_home(seed, ENTITIES)
        draft = intent_families()["felt"]["in_room"](home, random.Random(seed), Ask("clear"))
        if draft is None:
            continue
        drafts += 1
        (device,) = (home.plan.devices_by_did[did] for did in draft.devices)
        felt = [dial for dial in find_dials(home, random.Random(0), frozenset()) if dial.device.room == device.room]
        assert [dial.device for dial in felt if FELT[dial.attribute_name] == draft.meaning.group] == [device]
    assert drafts > 10


def test_a_plan_for_a_set_names_all_of_it_only_if_that_is_asked():
    """Who sees no states cannot know which lights are on already."""
    more = 0
    for seed in range(12):
        whole, needed = (blueprint("compositional/batch", seed, whole_sets=whole) for whole in (True, False))
        more += len(whole.intents[0].plan) > len(needed.intents[0].plan)
        assert whole.intents[0].conditions == needed.intents[0].conditions or whole.home != needed.home
        assert expert_plays(whole) is Outcome.SUCCESS
    assert more > 2


def test_many_of_a_domain_are_one_call_and_few_are_called_by_name():
    home = make_home(3, entities((12, 12), "light_onoff"))
    lights = [device for device in home.plan.devices if device.spec.category == "light"]
    writer = TOOLSETS["assist"].writer(home.fork(), "Done.", lambda device: device.name)
    calls = [Call(did=device.did, service="turn_off", args=()) for device in lights]
    (one,) = writer.write_calls(calls)["tool_calls"]
    assert json.loads(one["function"]["arguments"]) == {"domain": ["light"]}
    assert all(
        "name" in call["function"]["arguments"] or "area" in call["function"]["arguments"]
        for call in writer.write_calls(calls[:3])["tool_calls"]
    )


@pytest.mark.parametrize(("args", "given"), [((None, 40), {"brightness_pct": 40}), ((None,), None), ((), None)])
def test_an_argument_that_is_left_out_is_not_written(args, given):
    home = make_home(3, entities((2, 2), "light_brightness"))
    call = Call(did=home.plan.devices[0].did, service="turn_on", args=args)
    writer = TOOLSETS["smh"].writer(home.fork(), "Done.", lambda device: device.name)
    (written,) = writer.write_calls([call])["tool_calls"]
    assert json.loads(written["function"]["arguments"]).get("arguments") == given
