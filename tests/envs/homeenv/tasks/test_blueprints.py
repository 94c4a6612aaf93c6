"""Blueprints: pure functions of their seed, solvable, checked; the splits share nothing."""

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from forked import python
from pydantic import ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import (
    FILTERS,
    BlueprintRecipe,
    first_filter_failure,
    load_people_words,
    make_home_blueprint,
    sample_profile,
)
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.play.words.grammar import NoSentence, split_of

RECIPE = BlueprintRecipe()
SEEDS = 150


@cache
def blueprints(split: str) -> tuple[Blueprint, ...]:
    return tuple(make_home_blueprint(RECIPE, split, seed) for seed in range(SEEDS))


def everything() -> tuple[Blueprint, ...]:
    return blueprints("train") + blueprints("heldout")


def sentences(blueprint: Blueprint) -> set[str]:
    return {text.lower() for i in blueprint.intents for text in (*i.queries, i.clarification)}


def test_a_blueprint_is_a_pure_function_of_its_seed():
    for split in ("train", "heldout"):
        for seed in (0, 1, 77):
            random.seed(seed)  # whatever the global generator does
            assert make_home_blueprint(RECIPE, split, seed) == blueprints(split)[seed]
    ids = {blueprint.id for blueprint in everything()}
    assert len(ids) == 2 * SEEDS


@pytest.mark.long
def test_it_is_the_same_in_another_process():
    code = (
        "from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint\n"
        "print(*(make_home_blueprint(BlueprintRecipe(), s, 3).model_dump_json() for s in ('train', 'heldout')), sep='\\n')"
    )
    assert python(code).stdout.splitlines() == [blueprints(split)[3].model_dump_json() for split in ("train", "heldout")]


def test_the_splits_share_no_home_no_user_and_no_sentence():
    train, heldout = blueprints("train"), blueprints("heldout")
    for of in (
        lambda b: {home_from_json(b.home).state_key()},
        lambda b: {b.profile.name},
        lambda b: {b.profile.name.split()[0]},
        sentences,
    ):
        assert not set().union(*map(of, train)) & set().union(*map(of, heldout))
    assert all(split_of(text) == b.split for b in everything() for text in sentences(b))
    assert len({home_from_json(b.home).state_key() for b in everything()}) == 2 * SEEDS


def test_every_blueprint_passes_the_filters_and_is_solved_by_its_plan():
    for blueprint in everything():
        assert first_filter_failure(blueprint) is None
        home = home_from_json(blueprint.home)
        for intent in blueprint.intents:
            for call in intent.plan:
                home.call(call.did, call.service, call.args)
        assert blueprint.all_conditions and Blueprint.model_validate_json(blueprint.model_dump_json()) == blueprint


@pytest.mark.parametrize("family", ["atomic", "compositional/explicit", "compositional/batch", "ambiguous/slot_missing"])
def test_no_wish_is_met_by_turning_a_device_on_unless_that_is_asked_for(family):
    """Nor is a device to be turned on to end something on it, as in "stop the dishwasher" of one that is off."""
    recipe = BlueprintRecipe(families={family: 1}, intents=(1, 1), phrasings=1)
    for seed in range(SEEDS // 4):
        blueprint = make_home_blueprint(recipe, "train", seed)
        home, (intent,) = home_from_json(blueprint.home), blueprint.intents
        assert len(set(intent.plan)) == len(intent.plan)
        asked = [call for call, following in pairwise((*intent.plan, None)) if not enables(call, following)]
        enabled = home_after_calls(home, [call for call in intent.plan if call not in asked])
        for call in asked:
            later = home_after_calls(enabled, (call,))
            assert later.values != enabled.values
            turned_on = enabled.state_of(call.did) != home.state_of(call.did)
            assert not (turned_on and call.args[:1] in ((False,), ("none",)))


def enables(call: Call, following: Call | None) -> bool:
    """Whether the call only turns on the part of a device that the next call is for."""
    return following is not None and following.did == call.did and call.service.endswith("turn_on")


def test_one_device_is_left_alone():
    for blueprint in everything():
        home = home_from_json(blueprint.home)
        controllable = {device.did for device in home.plan.devices if device.spec.service_index}
        assert controllable - blueprint.changeable_devices


def test_intents_concern_different_devices_and_sentences_name_them():
    for blueprint in everything():
        home = home_from_json(blueprint.home)
        dids = [did for intent in blueprint.intents for did in intent.devices]
        assert len(set(dids)) == len(dids)
        for intent in blueprint.intents:
            assert intent.queries and len(set(intent.queries)) == len(intent.queries)
            for did in intent.devices:
                device = home.plan.devices_by_did[did]
                assert all(device.room.name in text and device.name.split()[0] in text for text in (intent.clarification,))


def test_no_sentence_tells_an_id_or_a_condition():
    for blueprint in everything():
        dids = {device["did"] for device in blueprint.home["devices"]}
        for text in sentences(blueprint):
            assert not dids & set(text.split()) and "device(" not in text and "==" not in text


def test_the_factors_of_table_6():
    """The first slice: clear intents, clean or noisy, of one device or several, independent of each other."""
    for blueprint in everything():
        for intent in blueprint.intents:
            assert intent.factors.clarity == "clear" and intent.factors.dependency == "independent"
            assert intent.factors.scope == ("single_device" if len(intent.devices) == 1 else "multi_device")
            assert (intent.factors.noise == "noisy") == (intent.subcategory == "noisy") or intent.family == "compositional"
    seen = Counter((i.family, i.factors.noise) for b in everything() for i in b.intents)
    assert set(seen) == {(family, noise) for family in ("atomic", "compositional") for noise in ("clean", "noisy")}
    assert {i.subcategory for b in everything() for i in b.intents} == {
        "clear",
        "colloquial",
        "noisy",
        "explicit",
    }
    noisy = BlueprintRecipe(wordings={"noisy": 1}, families={"atomic": 1})
    assert {i.subcategory for s in range(5) for i in make_home_blueprint(noisy, "train", s).intents} == {"noisy"}


def changed(blueprint: Blueprint, **intent) -> Blueprint:
    first = blueprint.intents[0].model_copy(update=intent)
    return blueprint.model_copy(update={"intents": (first, *blueprint.intents[1:])})


def planted() -> Blueprint:
    """A blueprint that sets a number, with a device to spare."""
    return next(
        b
        for b in blueprints("train")
        if len(b.intents) == 1
        and (call := b.intents[0].plan[-1]).args
        and type(call.args[0]) is int
        and len(b.changeable_devices) == 1
        and b.intents[0].conditions[0].endswith(f" == {call.args[0]}")
    )


def test_each_filter_drops_what_it_is_for_and_names_it():
    good = planted()
    (intent,) = good.intents
    call, (condition,) = intent.plan[-1], intent.conditions
    other = next(
        d["did"] for d in good.home["devices"] if d["did"] not in good.changeable_devices and home_services(good, d["did"])
    )
    reset = Call(did=other, service=home_services(good, other)[0])
    start = home_from_json(good.home)
    path, value = condition.split(" and ")[-1].split(").")[-1].split(" == ")[0], call.args[0]
    now = f'device("{call.did}").{path} == {start.read_value(call.did, path)!r}'
    bad = {
        ("executable", "condition does not compile"): changed(good, conditions=('device("0").state == "on"',)),
        ("executable", "plan refused: unknown_service"): changed(
            good, plan=(call.model_copy(update={"service": "explode"}),)
        ),
        ("executable", "plan refused: out_of_range"): changed(
            good, plan=(*intent.plan[:-1], call.model_copy(update={"args": (10**6,)}))
        ),
        ("within_bounds", "constant out_of_range"): changed(good, conditions=(f'device("{call.did}").{path} < 1000000',)),
        ("within_bounds", "constant wrong_type"): changed(good, conditions=(f'device("{call.did}").{path} == "much"',)),
        ("consistent", "a condition holds already"): changed(good, conditions=(condition, now)),
        ("consistent", "conditions contradict each other"): changed(
            good, conditions=(condition, f'device("{call.did}").{path} != {value} and not {now}')
        ),
        ("consistent", "condition and devices disagree"): changed(good, devices=(*intent.devices, other)),
        ("expressible", "'temperature' is not shown"): changed(
            good.model_copy(update={"toolset": "assist"}), reads=(("outdoors", "temperature"),)
        ),
    }
    assert first_filter_failure(good) is None
    assert {name for name, _ in bad} == set(FILTERS)
    for verdict, blueprint in bad.items():
        assert first_filter_failure(blueprint) == verdict
    touches = changed(good, plan=(*intent.plan, reset))
    assert first_filter_failure(touches) == ("consistent", "plan touches other devices")


def home_services(blueprint: Blueprint, did: str) -> list[str]:
    """Services without arguments that change something."""
    home = home_from_json(blueprint.home)
    found = []
    for path, compiled in home.plan.devices_by_did[did].spec.service_index.items():
        after = home.fork()
        if not compiled.service.arguments and not compiled.service.requires:
            after.call(did, path)
            found += [path] if after.diff(home) else []
    return found


def test_members_of_a_list_are_each_within_bounds():
    good = planted()
    call = good.intents[0].plan[-1]
    path = good.intents[0].conditions[0].split(" and ")[-1].split(").")[-1].split(" == ")[0]
    text = f'device("{call.did}").{path} in ({call.args[0]}, {call.args[0]})'
    assert first_filter_failure(changed(good, conditions=(*good.intents[0].conditions, text))) is None


def test_what_is_dropped_is_counted():
    dropped = Counter()
    narrow = BlueprintRecipe(temperature=0, families={"atomic/clear": 1})  # one way to say a thing, often the other split's
    for seed in range(5):
        make_home_blueprint(narrow, "heldout", seed, dropped)
    assert dropped["author: no sentence of this split"] > 0
    assert all(key.split(": ")[0] in ("author", *FILTERS) for key in dropped)


SENSORS = {"home": HomeRecipe(devices=(2, 2), categories=("motion_sensor",))}
PAIRS = {"home": HomeRecipe(devices=(2, 2)), "families": {"compositional/explicit": 1}}


@pytest.mark.parametrize("recipe", [SENSORS, PAIRS])
def test_a_recipe_that_asks_too_much_of_its_homes_says_so(recipe):
    earlier = Counter({"executable: plan fails": 99})
    with pytest.raises(InputError, match=r"for seed 0: author: home offers too little \(300\)\n") as refused:
        make_home_blueprint(BlueprintRecipe(**recipe), "train", 0, earlier)
    assert "larger homes" in refused.value.remedy and earlier.total() == 399


def test_drafts_that_a_check_refuses_are_counted_and_laid_to_their_query_type(monkeypatch):
    def broken(home, rng, ask):
        draft = intent_families()["atomic"]["clear"](home, rng, ask)
        return draft and replace(draft, conditions=('device("0").state == 1',))

    monkeypatch.setitem(intent_families(), "mine", {"broken": broken})
    why = r"no blueprint of mine in 300 .*: executable: condition does not compile \(\d+\)"
    with pytest.raises(InputError, match=why) as refused:
        make_home_blueprint(BlueprintRecipe(families={"mine": 1}), "train", 0)
    assert "query types" in refused.value.remedy and "larger homes" not in refused.value.remedy


def test_a_second_wish_is_of_the_home_as_the_dialogue_before_the_first_left_it(monkeypatch):
    offered = []

    def follows(home, rng, ask):
        if ask.first:
            return intent_families()["multi_turn"]["correction"](home, rng, ask)
        offered.append(home.state_key())
        return intent_families()["atomic"]["clear"](home, rng, ask)

    monkeypatch.setitem(intent_families(), "mine", {"follows": follows})
    blueprint = make_home_blueprint(BlueprintRecipe(families={"mine": 1}, intents=(2, 2)), "train", 0)
    assert blueprint.history and home_from_json(blueprint.home).state_key() == offered[-1]


TIMERS = HomeRecipe(catalogue=("homeassistant",), categories=("timer", "light"), devices=(4, 6))


@pytest.mark.parametrize(("family", "home"), [("household/time_left", TIMERS), ("moment/time", HomeRecipe())])
def test_no_question_is_asked_twice(family, home):
    recipe = BlueprintRecipe(families={family: 1}, intents=(1, 3), home=home, toolset="smh")
    assert all(len(make_home_blueprint(recipe, "train", seed).intents) == 1 for seed in range(8))


def test_two_things_that_the_home_lacks_can_be_asked_for():
    recipe = BlueprintRecipe(families={"absent/in_home": 1}, intents=(1, 2))
    assert 2 in {len(make_home_blueprint(recipe, "train", seed).intents) for seed in range(8)}


def test_what_cannot_be_said_is_laid_to_the_grammar(monkeypatch):
    def unsaid(*_):
        raise NoSentence

    monkeypatch.setattr("homerl.envs.homeenv.tasks.author.write_utterance", unsaid)
    with pytest.raises(InputError, match=r"no sentence of this split \(\d+\)") as refused:
        make_home_blueprint(BlueprintRecipe(), "train", 0)
    assert "temperature" in refused.value.remedy


@pytest.mark.parametrize("language", ["en", "zh"])
def test_profiles_agree_with_themselves(language):
    rng, words = random.Random(0), load_people_words(language)
    for split in ("train", "heldout"):
        for _ in range(100):
            profile = sample_profile(rng, split, language)
            assert any(given in profile.name for given in words.given[split]) and 18 <= profile.age <= 90
            assert profile.health != words.health["arthritis"] or profile.age >= 60
            assert (
                profile.health != words.health["poor_eyesight"] or profile.preferences["lighting"] == words.likes["bright"]
            )
            assert profile.health != words.health["light_sleeper"] or profile.preferences["noise"] == words.likes["quiet"]
    assert not set(words.given["train"]) & set(words.given["heldout"])


def test_a_recipe_says_how_many_devices_an_intent_names():
    recipe = BlueprintRecipe(
        families={"compositional/explicit": 1.0}, devices=(4, 4), intents=(1, 1), home=HomeRecipe(devices=(12, 12))
    )
    assert {len(make_home_blueprint(recipe, "train", s).intents[0].devices) for s in range(10)} == {4}


@pytest.mark.parametrize("wrong", [{"devices": (1, 2)}, {"devices": (3, 2)}, {"intents": (0, 1)}, {"intents": (2, 1)}])
def test_ranges_that_ask_for_nothing_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        BlueprintRecipe(**wrong)
