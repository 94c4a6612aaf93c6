"""Wishes in sentences of Home Assistant's users: each means its wish, and a share of the templates is held out."""

import asyncio
import random
import sys
from collections import Counter
from functools import cache

import pytest
from forked import python

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.agents.matcher_agent import HassilAgent
from homerl.envs.homeenv.diversity import draw_utterances
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence, question_of_sentence
from homerl.envs.homeenv.tasks.sentences.templates import templates_by_intent, templates_of_intent
from homerl.play.loop import play
from homerl.play.spoken_words import asks_about_state
from homerl.play.trajectory import Outcome
from homerl.play.words.answer_rules import judge_answer_by_rules
from homerl.play.words.grammar import split_of
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT, expert_plays

HOME = {"devices": [5, 10], "catalogue": ["homeassistant"], "holds": ["ha_lock", "ha_cover_position"]}
COMMANDS = {"atomic": 3.0, "compositional/batch": 1.0, "adjust": 1.0}
QUESTIONS = {"query": 2.0, "survey": 1.0}


def recipe(**changed):
    given = {"toolset": "assist", "wordings": {"people": 1.0}, "intents": (1, 1), "families": COMMANDS, "home": HOME}
    return BlueprintRecipe.model_validate({"phrasings": 2, **given, **changed})


@cache
def made(seed, language="en", asking=False):
    home = {**HOME, "language": language}
    return make_home_blueprint(recipe(home=home, families=QUESTIONS if asking else COMMANDS), "train", seed)


def meets(home, intent, calls):
    try:
        after = home_after_calls(home, calls)
    except Refused:
        return False
    return all(compile_condition(text, home.plan).holds_in(after) for text in intent.conditions)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_the_matcher_makes_of_a_command_meets_its_goals(language):
    for seed in range(8):
        blueprint = made(seed, language)
        (intent,), home = blueprint.intents, home_from_json(blueprint.home, "home")
        for said in intent.queries:
            assert split_of(said) == "train"
            assert meets(home, intent, calls_of_sentence(home, said, language)), said


def test_home_assistants_own_matcher_plays_them_and_so_does_the_expert():
    for seed in range(8):
        blueprint = made(seed)
        assert expert_plays(blueprint) is Outcome.SUCCESS
        played = asyncio.run(play(begin_episode(blueprint, PATIENT), HassilAgent(), ScriptedUser(0)))
        assert played.outcome is Outcome.SUCCESS, blueprint.intents[0].queries


def test_a_question_is_about_what_is_read_and_has_its_answer():
    kinds = Counter()
    for seed in range(12):
        blueprint = made(seed, asking=True)
        (intent,), home = blueprint.intents, home_from_json(blueprint.home, "home")
        kinds[intent.answer.type] += 1
        for said in intent.queries:
            heard = question_of_sentence(home, said, "en")
            assert heard.devices == {did for did, _ in intent.reads}, said
            assert judge_answer_by_rules(intent.answer, heard.answer) == "right", said
            assert intent.answer.type != "boolean" or asks_about_state(said), "a person hears a command"
        assert expert_plays(blueprint) is Outcome.SUCCESS
    assert len(kinds) > 1


OTHERS = ["de", *(pytest.param(one, marks=pytest.mark.long) for one in ("fr", "es", "nl", "it", "zh"))]


@pytest.mark.parametrize("language", OTHERS)
def test_single_commands_are_said_in_another_language_too(language):
    said = set()
    for seed in range(3):
        asked = recipe(people_languages={language: 1.0}, phrasings=4, families={"atomic": 1.0})
        blueprint = make_home_blueprint(asked, "train", seed)
        (intent,), home = blueprint.intents, home_from_json(blueprint.home, "home")
        assert blueprint.language == "en" and expert_plays(blueprint) is Outcome.SUCCESS
        assert all(meets(home, intent, calls_of_sentence(home, one, language)) for one in intent.queries), intent.queries
        assert not any(calls_of_sentence(home, one, "en") for one in intent.queries), "English has no such sentence"
        said |= {*intent.queries}
    assert len(said) >= 9


def test_several_wishes_and_questions_stay_in_the_language_of_the_home():
    changed = {"families": {"atomic": 1.0, "query": 1.0}, "intents": (2, 2), "wordings": {"people": 4.0, "clear": 1.0}}
    plain, asked = (
        make_home_blueprint(recipe(**changed, **given), "train", 3) for given in ({}, {"people_languages": {"de": 1.0}})
    )
    assert [one.queries for one in asked.intents] == [one.queries for one in plain.intents]


def test_a_wish_whose_tool_has_no_such_sentence_is_said_in_another_wording():
    home = {
        "devices": [4, 4],
        "catalogue": ["homeassistant"],
        "products": ["ha_vacuum", "ha_light_onoff"],
        "holds": ["ha_vacuum"],
    }
    asked = recipe(families={"household/clean": 1.0}, home=home, wordings={"people": 99.0, "clear": 1.0}, phrasings=1)
    assert expert_plays(make_home_blueprint(asked, "train", 1)) is Outcome.SUCCESS


def test_a_recipe_says_what_is_wrong_with_a_language():
    with pytest.raises(ValueError, match="tlh"):
        recipe(people_languages={"tlh": 1.0})
    with pytest.raises(ValueError, match="`people`"):
        recipe(people_languages={"de": 1.0}, wordings={"clear": 1.0})
    assert "people_languages" not in recipe().model_dump(), "digests of recipes are older"


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "nl", "it", "zh"])
def test_a_quarter_of_the_templates_of_an_intent_is_held_out(language):
    held = every = 0
    for intent, templates in templates_by_intent(language).items():
        train, heldout = (
            {str(one.expression) for one in templates_of_intent(language, intent, pool)} for pool in ("train", "heldout")
        )
        if len({str(one.expression) for one in templates}) >= 3:
            assert not train & heldout and train and heldout, intent
        held, every = held + len(heldout - train), every + len(train | heldout)
    assert 0.2 < held / every < 0.3


def test_a_wish_is_said_in_templates_of_its_pool():
    """Those of `lock` differ: each pool says some sentence that the other never says."""
    said = {}
    for pool in ("train", "heldout"):
        wishes = recipe(families={"atomic": 1.0}, frames=pool, phrasings=4)
        blueprints = [make_home_blueprint(wishes, "train", seed) for seed in range(6)]
        said[pool] = {text.split()[0] for one in blueprints for text in one.intents[0].queries}
    assert said["train"] - said["heldout"] and said["heldout"] - said["train"]


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_in_every_process():
    line = (
        "import sys; sys.path.append('tests/helpers'); from tests.envs.homeenv.tasks.test_people_sentences import made; "
        "print([made(seed).model_dump_json() for seed in range(2)])"
    )
    told = python(line)
    assert told.stdout == f"{[made(seed).model_dump_json() for seed in range(2)]}\n"


def test_a_wish_without_such_a_sentence_is_said_in_our_words_or_not_made():
    """Nobody corrects themselves in Home Assistant's sentences."""
    ours = recipe(families={"multi_turn/correction": 1.0}, wordings={"people": 9.0, "clear": 1.0})
    assert make_home_blueprint(ours, "train", 0).intents[0].family == "multi_turn"
    with pytest.raises(InputError, match="no sentence of this split"):
        make_home_blueprint(recipe(families={"multi_turn/correction": 1.0}), "train", 0)


def test_a_name_alone_asks_for_nothing_but_a_scene_or_a_script():
    alone = [one for templates in templates_by_intent("en").values() for one in templates if one.names_alone]
    assert {one.intent for one in alone} == {"HassTurnOn"}
    assert any("scene" in (one.required_values("domain") or ()) for one in alone)
    for seed in range(8):
        home = home_from_json(made(seed).home, "home")
        names = {entity.name.lower() for entity in entities_of_plan(home.plan) if entity.domain not in ("scene", "script")}
        assert not names & {text.removeprefix("the ").lower() for text in made(seed).intents[0].queries}


def test_a_step_is_never_said_as_a_value():
    """ "Louder" is no "volume to 60"; only what goes to the end of its range may be."""
    steps = recipe(families={"adjust/step": 1.0}, home={**HOME, "holds": ["ha_media_player_speaker"]})
    for seed in range(4):
        (intent,) = make_home_blueprint(steps, "train", seed).intents
        assert not any(letter.isdigit() for text in intent.queries for letter in text), intent.queries


def test_sloppy_people_slip_in_any_wording_and_keep_the_values():
    plain, sloppy = ([made_sloppy(seed, share) for seed in range(8)] for share in (0.0, 1.0))
    assert sum(one.intents[0].queries != other.intents[0].queries for one, other in zip(plain, sloppy)) > 5
    assert all(expert_plays(one) is Outcome.SUCCESS for one in sloppy)
    spoken = " ".join(text for one in sloppy for text in one.intents[0].queries)
    assert any(f" {filler} " in f" {spoken} " for filler in ("um", "uh", "er", "hmm", "erm"))


def made_sloppy(seed, share):
    writing = {"sloppy": share}
    return make_home_blueprint(recipe(writing=writing, families={"atomic": 1.0}), "train", seed)


def test_the_report_of_diversity_draws_them():
    drawn = dict(draw_utterances(recipe(families={"atomic": 1.0}), random.Random(3), 6))
    assert drawn and all(text for text in drawn.values())


def test_a_recipe_that_knows_neither_key_is_written_as_before():
    told = recipe(wordings={"clear": 1.0}, writing={"short": 0.5}).model_dump(mode="json")
    assert told["writing"] == {"capitalised": 0.0, "lowered": 0.0, "punctuated": 0.0, "short": 0.5}


def test_without_its_package_the_remedy_is_said(monkeypatch):
    for module in ("sentences.matching", "sentences.templates", "people_wording"):
        monkeypatch.delitem(sys.modules, f"homerl.envs.homeenv.tasks.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "home_assistant_intents", None)
    with pytest.raises(InputError, match="home_assistant_intents is not installed") as missing:
        make_home_blueprint(recipe(), "train", 0)
    assert "homerl[serve]" in str(missing.value)
