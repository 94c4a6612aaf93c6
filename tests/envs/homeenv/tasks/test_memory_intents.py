"""Memory intents: not to be solved by the utterance alone, nor by another memory."""

import re
from contextlib import suppress

from crossed import crossed

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.play.trajectory import Outcome
from tests.envs.homeenv.tasks.intents import TOOLSETS, blueprints, drafts, expert_plays, idle_plays, solves

FAMILY = "memory"
SUBCATEGORIES = ("short_term", "long_term")


def test_the_subcategories_are_those_of_the_papers():
    assert tuple(intent_families()[FAMILY]) == SUBCATEGORIES


@crossed(subcategory=SUBCATEGORIES, toolset=TOOLSETS)
def test_the_expert_succeeds_and_idling_fails(subcategory, toolset):
    for blueprint in blueprints(FAMILY, subcategory, toolset, 5):
        assert expert_plays(blueprint) is Outcome.SUCCESS, blueprint.id
        assert idle_plays(blueprint) is not Outcome.SUCCESS


def test_what_is_known_is_three_to_six_facts_each_once():
    for blueprint in blueprints(FAMILY, "long_term", count=15):
        assert 3 <= len(blueprint.memory) <= 6 and len(set(blueprint.memory)) == len(blueprint.memory)
        assert not blueprint.history


def test_what_was_said_goes_back_beyond_the_last_turn():
    for blueprint in blueprints(FAMILY, "short_term", count=15):
        assert len(blueprint.history) == 4 and not blueprint.memory


def test_no_other_fact_will_do():
    """The settings of every distracting preference leave something open."""
    for home, draft in drafts(FAMILY, "long_term"):
        meant = [fact for fact in draft.memory if all(call in draft.plan for call in fact.preference.preference_calls)]
        others = [fact for fact in draft.memory if fact not in meant]
        assert meant and others and solves(home, draft, draft.plan) and not solves(home, draft, ())
        for fact in others:
            assert not solves(home, draft, fact.preference.preference_calls)
        assert len({fact.cue for fact in meant}) == 1 and not {fact.cue for fact in meant} & {fact.cue for fact in others}


def test_facts_about_the_same_device_distract():
    found = drafts(FAMILY, "long_term")
    distracted = [
        draft
        for _, draft in found
        if sum(fact.preference.device.did in draft.devices for fact in draft.memory) > len(draft.devices)
    ]
    assert len(distracted) > len(found) / 4


def test_the_utterance_alone_names_no_value_that_it_asks_for():
    for blueprint in blueprints(FAMILY, "long_term", count=15):
        (intent,) = blueprint.intents
        for call in intent.plan:
            names = [d["name"] for d in blueprint.home["devices"] if d["did"] == call.did]
            for query in intent.queries:
                values = [str(arg).replace("_", " ") for arg in call.args if not isinstance(arg, bool)]
                assert not any(re.search(rf"\b{re.escape(value)}\b", query) for value in values), query
                assert names[0] not in query or len(blueprint.memory) >= 3


def test_a_value_told_for_later_is_not_said_again():
    told = [
        b for b in blueprints(FAMILY, "short_term", count=15) if b.history[1].content[:4] in ("I wi", "Note", "Alri", "I ha")
    ]
    assert len(told) > 3
    for blueprint in told:
        (intent,) = blueprint.intents
        value, device = intent.plan[-1].args, intent.plan[-1].did
        room, name = next((d["room"], d["name"]) for d in blueprint.home["devices"] if d["did"] == device)
        for query in intent.queries:
            assert name not in query or not (value and re.search(rf"\b{value[0]}\b", query)), (query, room)


def test_the_first_setting_counts_and_not_the_last():
    for home, draft in drafts(FAMILY, "short_term"):
        first, _ = draft.past
        if first.reply is None and draft.before[0].did == draft.before[-1].did and draft.plan[-1].args:
            near = draft.plan[-1].model_copy(update={"args": draft.before[-1].args})
            assert solves(home, draft, draft.plan)
            with suppress(Refused):  # a value of another service may be none of this one's
                assert not solves(home, draft, (*draft.plan[:-1], near))
