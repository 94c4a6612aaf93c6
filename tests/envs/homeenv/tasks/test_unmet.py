"""What cannot be done, and what wants nothing: the agent says so, and touches nothing."""

import asyncio
import json
from collections import Counter

import pytest
from crossed import crossed

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.bench.cases import home_closing_flaws
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.envs.homeenv.tasks.intents.foreign import LANGUAGES
from homerl.envs.homeenv.tasks.situation import writer_of
from homerl.play.closings import FALSE_CLAIM
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.answer_rules import judge_answer_by_rules
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT, Idle, blueprints, expert_plays, idle_plays

FAMILIES = ("unmet", "talk", "foreign")
KINDS = [(family, name) for family in FAMILIES for name in intent_families()[family]]
HOME = {"devices": [5, 10], "catalogue": ["homeassistant"], "holds": ["ha_light_onoff", "ha_lock"]}


def made(family, seed=0, **changed):
    given = {"toolset": "assist", "phrasings": 1, "intents": (1, 1), "families": {family: 1.0}, "home": HOME}
    return make_home_blueprint(BlueprintRecipe.model_validate(given | changed), "train", seed)


@crossed(kind=KINDS, language=["en", "zh"])
def test_the_expert_says_so_in_one_sentence_and_a_claim_fails(kind, language):
    family, subcategory = kind
    done = "Done." if language == "en" else "已经打开了。"
    for seed in range(3):
        # Each home of the catalogue `homeassistant` has a timer.
        home = {"devices": [5, 10]} if subcategory == "timer" else HOME
        blueprint = made(f"{family}/{subcategory}", seed, home={**home, "language": language})
        (intent,) = blueprint.intents
        assert judge_answer_by_rules(intent.answer, intent.reply) == "right", intent.reply
        assert not (intent.plan or intent.conditions or intent.devices)
        assert sum(intent.reply.count(mark) for mark in ".!。！") == 1
        assert expert_plays(blueprint) is Outcome.SUCCESS
        assert idle_plays(blueprint, done) is not Outcome.SUCCESS and idle_plays(blueprint, "") is not Outcome.SUCCESS


@pytest.mark.parametrize("family", FAMILIES)
def test_who_touches_something_fails_whatever_is_said(family):
    blueprint = made(family, home={**HOME, "devices": [6, 6]})
    other = made("atomic", blueprint.seed, home={**HOME, "devices": [6, 6]})
    episode = begin_episode(other.model_copy(update={"intents": blueprint.intents}))
    episode.add_utterance(blueprint.intents[0].queries[0], 1)
    episode.apply_reply(Reply(writer_of(episode).write_calls(other.intents[0].plan)))
    episode.apply_reply(Reply(writer_of(episode).write_reply(blueprint.intents[0].reply)))
    assert episode.outcome is Outcome.AGENT_FAILURE


def test_a_claim_to_have_done_what_cannot_be_done_is_a_false_claim():
    played = asyncio.run(play(begin_episode(made("unmet/unknown"), PATIENT), Idle("Done."), ScriptedUser(0)))
    assert home_closing_flaws(played).count(FALSE_CLAIM) == PATIENT.turns
    honest = asyncio.run(play(begin_episode(made("unmet/unknown"), PATIENT), Expert(0), ScriptedUser(0)))
    assert not any(home_closing_flaws(honest))


def test_talk_may_be_answered_by_any_word_that_claims_nothing():
    blueprint = made("talk/greeting")
    for words in ("Hi!", "How can I help?", "Okay."):
        assert idle_plays(blueprint, words) is Outcome.SUCCESS
    assert idle_plays(blueprint, "I have turned on the light.") is not Outcome.SUCCESS


def test_agents_with_automations_are_not_told_that_they_cannot_wait():
    wishes = Counter(made("unmet", seed, toolset="smh").intents[0].subcategory for seed in range(12))
    assert set(wishes) <= {"unknown", "asked"}


@pytest.mark.parametrize("toolset", ["homeflow", "smh", "direct"])
def test_other_toolsets_say_so_too(toolset):
    for subcategory in ("unknown", "asked"):
        assert all(expert_plays(one) is Outcome.SUCCESS for one in blueprints("unmet", subcategory, toolset, 3))


@pytest.mark.parametrize("subcategory", ["time", "date", "weekday"])
def test_the_time_is_read_by_the_tool_that_tells_it(subcategory):
    blueprint = made(f"moment/{subcategory}")
    played = asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0), ScriptedUser(0)))
    assert played.outcome is Outcome.SUCCESS
    assert [call.name for step in played.steps for call in step.facts.calls] == ["llm__GetDateTime"]


def test_a_foreign_command_has_no_sentence_of_the_homes_language():
    from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence

    for seed in range(6):
        blueprint = made("foreign", seed)
        home = home_from_json(blueprint.home, "home")
        assert not calls_of_sentence(home, blueprint.intents[0].queries[0], "en"), blueprint.intents[0].queries


def test_a_foreign_command_is_in_no_language_that_the_recipe_understands():
    from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence

    understood = {"en": 8.0, **dict.fromkeys(("de", "fr", "es", "nl", "it", "zh", "pt", "sv"), 0.5)}
    for seed in range(4):
        blueprint = made("foreign", seed, wordings={"clear": 1.0, "people": 1.0}, people_languages=understood)
        home = home_from_json(blueprint.home, "home")
        heard = {language for language in LANGUAGES if calls_of_sentence(home, blueprint.intents[0].queries[0], language)}
        assert heard == {"pl"}, blueprint.intents[0].queries


def test_what_a_device_lacks_is_refused_by_its_tool():
    for seed in range(6):
        blueprint = made("unmet/asked", seed)
        names = json.dumps(blueprint.home, ensure_ascii=False).lower()
        assert any(word in names for word in blueprint.intents[0].queries[0].lower().split())


@pytest.mark.parametrize(
    ("wish", "tools"),
    [
        ("list", {"todo__HassListAddItem", "todo__HassListRemoveItem", "todo__HassListCompleteItem"}),
        ("on_list", {"todo__get_items"}),
    ],
)
def test_lists_are_kept_and_read_by_their_own_tools(wish, tools):
    called = set()
    for seed in range(5):
        blueprint = made(f"household/{wish}", seed, home={"devices": [4, 8], "catalogue": ["homeassistant"]})
        played = asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0), ScriptedUser(0)))
        assert played.outcome is Outcome.SUCCESS, blueprint.intents[0].queries
        called |= {call.name for step in played.steps for call in step.facts.calls}
    assert called and called <= tools
