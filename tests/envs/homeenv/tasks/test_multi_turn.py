"""Multi-turn intents: solvable from what was said before, and not otherwise."""

import random
import re
from collections import Counter

import pytest
from crossed import crossed

from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import actions, changed_paths, find_restoring_calls, home_after_calls
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.play.trajectory import Outcome
from tests.envs.homeenv.tasks.intents import TOOLSETS, blueprints, drafts, expert_plays, idle_plays, recipe, solves

FAMILY = "multi_turn"
SUBCATEGORIES = ("continuation", "topic_shift", "coreference", "correction", "backtracking")
LIVE = ("continuation", "topic_shift", "coreference")


def test_the_subcategories_are_those_of_the_papers():
    assert tuple(intent_families()[FAMILY]) == SUBCATEGORIES


@crossed(subcategory=SUBCATEGORIES, toolset=TOOLSETS)
def test_the_expert_succeeds_and_idling_fails(subcategory, toolset):
    for blueprint in blueprints(FAMILY, subcategory, toolset, 4):
        assert expert_plays(blueprint) is Outcome.SUCCESS, blueprint.id
        assert idle_plays(blueprint) is not Outcome.SUCCESS
        assert blueprint.history or len(blueprint.intents) > 1


@pytest.mark.parametrize("subcategory", SUBCATEGORIES)
def test_both_splits_are_served(subcategory):
    assert make_home_blueprint(recipe(FAMILY, subcategory), "heldout", 0).split == "heldout"


@pytest.mark.parametrize("subcategory", SUBCATEGORIES)
def test_most_homes_offer_it(subcategory):
    assert len(drafts(FAMILY, subcategory)) > 43


def test_some_go_on_from_a_past_and_some_from_a_live_intent():
    for subcategory in SUBCATEGORIES:
        found = Counter(bool(draft.then) for _, draft in drafts(FAMILY, subcategory))
        assert found[False] and bool(found[True]) == (subcategory in LIVE)
        for _, draft in drafts(FAMILY, subcategory):
            assert bool(draft.past) != bool(draft.then) and bool(draft.past) == bool(draft.before)


@pytest.mark.parametrize("subcategory", SUBCATEGORIES)
def test_every_call_of_a_plan_is_needed_and_the_past_is_not_enough(subcategory):
    """Nothing, the past once more, or all but the last call: none of it will do."""
    for home, draft in drafts(FAMILY, subcategory):
        if not draft.then:
            assert solves(home, draft, draft.plan)
            assert not solves(home, draft, ()) and not solves(home, draft, draft.plan[:-1])
            try:
                assert not solves(home, draft, draft.before), (draft.before, draft.conditions)
            except Refused:
                continue


def test_nothing_is_inherited_on_a_topic_shift():
    """The past's value on the new device, where it could be taken over, is wrong."""
    tempted = 0
    for home, draft in drafts(FAMILY, "topic_shift"):
        if draft.then or not draft.plan[-1].args or draft.plan[-1].args == draft.before[-1].args:
            continue
        near = draft.plan[-1].model_copy(update={"args": draft.before[-1].args})
        try:
            assert not solves(home, draft, (*draft.plan[:-1], near))
            tempted += 1
        except (Refused, IndexError):
            continue
    assert tempted >= 1


def test_another_setting_leaves_what_was_asked_before_as_it_is():
    """After "turn it off", nobody goes on with a brightness, for which the device would be on."""
    joined = 0
    for home, draft in drafts(FAMILY, "continuation", 200):
        first, then = draft.before[-1:], draft.plan[-1]
        if first and first[0].did == then.did and first[0].service != then.service:
            device, now = home.plan.devices_by_did[then.did], home_after_calls(home, draft.before)
            asked = changed_paths(home, now, device)
            assert not set(asked) & set(changed_paths(now, home_after_calls(now, draft.plan), device)), (
                draft.before,
                draft.plan,
            )
            joined += 1
    assert joined > 10


def test_a_correction_of_the_device_restores_the_first():
    several = [(home, draft) for home, draft in drafts(FAMILY, "correction") if len(draft.devices) > 1]
    assert len(several) > 10
    for home, draft in several:
        first, second = draft.devices
        device = home.plan.devices_by_did[first]
        assert changed_paths(home, home_after_calls(home, (*draft.before, *draft.plan)), device) == []
        assert not solves(home, draft, [call for call in draft.plan if call.did == second]), "the first is left as it is"
        assert not solves(home, draft, [call for call in draft.plan if call.did == first]), "the second is not set"


def test_what_is_put_back_is_as_it_was():
    for home, draft in drafts(FAMILY, "backtracking"):
        end = home_after_calls(home, (*draft.before, *draft.plan))
        if len(draft.past) == 1 or draft.past[0].reply is not None:
            assert all(not changed_paths(home, end, home.plan.devices_by_did[did]) for did in draft.devices)


def undoing(categories, catalogue):
    """The names of the services that undo something on such devices."""
    for seed in range(12):
        home = make_home(seed, HomeRecipe(catalogue=catalogue, categories=categories, devices=(1, 6)))
        for action in actions(home, random.Random(seed)):
            for call in find_restoring_calls(home, home_after_calls(home, action.plan), action.device) or ():
                yield call.service.rpartition(".")[2]


def test_a_movement_is_undone_by_its_earlier_goal_and_not_by_a_stop():
    """A stop sets the goal to the place, which is the earlier goal only because calls of the past take no time."""
    undos = set(undoing(("cover", "valve"), ("homeassistant",)))
    assert not any(undo.startswith("stop") for undo in undos)
    assert {"set_cover_position", "set_cover_tilt_position", "set_valve_position"} <= undos


@pytest.mark.parametrize("category", ["washer", "speaker"])
def test_what_runs_is_undone_by_a_stop(category):
    assert "stop" in set(undoing((category,), HomeRecipe().catalogue))


@pytest.mark.parametrize("subcategory", ["correction", "backtracking"])
def test_the_earlier_values_can_be_known_from_the_dialogue(subcategory):
    for blueprint in blueprints(FAMILY, subcategory, "homeflow", 12):
        told = " ".join(past.content for past in blueprint.history)
        for query in blueprint.intents[0].queries:
            known = f"{told} {query}"
            for condition in blueprint.all_conditions:
                for value in re.findall(r'== (?:"(\w+)"|(-?\d+(?:\.\d+)?))', condition):
                    word = (value[0] or value[1].removesuffix(".0")).replace("_", " ")
                    assert re.search(rf"(?<![\w]){re.escape(word)}", known) or subcategory == "correction", (word, known)


def test_a_bit_more_is_more_and_not_too_much():
    loose = [(home, draft) for home, draft in drafts(FAMILY, "continuation", 120) if "<" in draft.conditions[0]]
    assert loose
    for home, draft in loose:
        *others, call = draft.plan
        before, value = draft.before[-1].args[0], call.args[0]
        near = [call.model_copy(update={"args": (type(value)(v),)}) for v in (before, before + 3 * (value - before))]
        assert not solves(home, draft, (*others, near[0]))
        try:
            assert not solves(home, draft, (*others, near[1]))
        except Refused:
            continue
