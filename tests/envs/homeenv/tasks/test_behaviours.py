"""People who tell their wishes other than at once: in parts, with corrections, with second thoughts, beside the point."""

import asyncio
import random
import re
from functools import cache
from itertools import islice

import pytest
from crossed import crossed
from person import content, wishes
from pydantic import ValidationError
from scripted_server import ScriptedServer

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, first_filter_failure
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours, UserSettings
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import first_difference
from homerl.play.situation import BEHAVIOURS, Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import split_of
from homerl.synth.recipe import SynthesisConfig
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import (
    begin_episode,
    blueprint_with_behaviours,
    make_blueprint_of_seed,
    restore_situation,
    world_of,
)
from homerl.worlds.users import ScriptedUser, build_user_prompt, open_user_factory

FAMILIES = {"atomic": 5, "compositional": 2, "ambiguous": 2, "automation": 1, "query": 1, "multi_turn": 1}
ALL = Behaviours(disclosure=0.5, self_correction=0.2, change_of_mind=0.3, beside_the_point=1)
STYLES = {"snippet": 1.0, "stepwise": 1.0, "query_first": 1.0}
COUNT = 40


def recipe_in(language="en", **more):
    return BlueprintRecipe(**({"home": {"language": language}, "families": FAMILIES, "toolset": "smh"} | more))


def alone(behaviour):
    """The behaviour at its highest rate; an answer beside the point needs a wish that is told in parts."""
    return Behaviours(**{behaviour: 1.0}) if behaviour != "beside_the_point" else ALL


@cache
def at_once(language, seed):
    return make_blueprint_of_seed(recipe_in(language), "train", seed)


def changed(language, behaviour, count=COUNT, **more):
    """Blueprints in which some wish is told with the behaviour."""
    recipe = recipe_in(language, **more)
    for seed in range(count):
        plain = make_blueprint_of_seed(recipe, "train", seed) if more else at_once(language, seed)
        blueprint = blueprint_with_behaviours(plain, alone(behaviour), recipe)
        if any(i.aside if behaviour == "beside_the_point" else i.course for i in blueprint.intents):
            yield blueprint


def played(blueprint, limits=EpisodeLimits(), **expert):
    config = ExpertConfig(**({"mistakes": 0.0, "styles": STYLES} | expert))
    return asyncio.run(
        play(begin_episode(blueprint, limits), world_of(blueprint).expert(config, blueprint.seed), ScriptedUser(3), 0)
    )


def said_by(trajectory, role="user"):
    return [m["content"] for m in trajectory.messages if m["role"] == role]


@crossed(behaviour=BEHAVIOURS, language=["en", "zh"])
def test_the_expert_solves_every_episode_within_every_limit(language, behaviour):
    found = list(changed(language, behaviour))
    assert len(found) >= 5
    for limits in (EpisodeLimits(), EpisodeLimits(turns=None)):
        for blueprint in found:
            trajectory = played(blueprint, limits)
            assert trajectory.success, (blueprint.id, said_by(trajectory))
            assert all(f.error is None and not f.blocked for f in (step.facts for step in trajectory.steps))


@pytest.mark.parametrize("toolset", ["homeflow", "direct"])
def test_the_expert_solves_them_with_every_way_to_act(toolset):
    families = {"atomic": 2, "compositional/explicit": 1}
    found = [b for behaviour in BEHAVIOURS for b in changed("en", behaviour, 8, toolset=toolset, families=families)]
    assert len(found) > 10
    assert all(played(blueprint, EpisodeLimits(turns=None)).success for blueprint in found)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_changed_blueprints_pass_the_filters_and_speak_the_sentences_of_their_split(behaviour):
    for blueprint in changed("en", behaviour):
        home = restore_situation(blueprint.model_dump(mode="json")).home
        assert first_filter_failure(blueprint) is None
        spoken = [part.text for i in blueprint.intents for part in i.course] + [
            i.aside for i in blueprint.intents if i.aside
        ]
        assert all(split_of(text) == "train" for text in spoken)
        assert not any(did in text for text in spoken for did in home.plan.devices_by_did)


def test_rates_are_shares_of_the_wishes_that_allow_the_behaviour():
    recipe = recipe_in(families={"atomic": 1}, intents=(1, 1))
    rates = Behaviours(disclosure=0.3, self_correction=0.3)
    wishes = [
        blueprint_with_behaviours(make_blueprint_of_seed(recipe, "train", s), rates, recipe).intents[0] for s in range(200)
    ]
    drawn = [wish.course[0].behaviour if wish.course else None for wish in wishes]
    assert 0.2 < drawn.count("disclosure") / 200 < 0.4
    assert 0.2 < drawn.count("self_correction") / 200 <= 0.4


def test_without_rates_a_blueprint_and_its_bytes_are_as_before():
    blueprint = make_blueprint_of_seed(recipe_in(), "train", 0)
    assert blueprint_with_behaviours(blueprint, AT_ONCE) is blueprint
    assert not {"course", "aside"} & set().union(*(intent.keys() for intent in blueprint.model_dump()["intents"]))
    assert "behaviours" not in UserSettings().model_dump()
    assert "behaviours" not in SynthesisConfig().identity
    assert SynthesisConfig(user={"behaviours": {"disclosure": 0.1}}).digest != SynthesisConfig().digest


def test_a_question_about_no_device_is_not_told_in_parts():
    """The clock belongs to the home as a whole."""
    recipe = BlueprintRecipe(toolset="assist", families={"moment": 1}, intents=(1, 1))
    for seed in range(5):
        blueprint = make_blueprint_of_seed(recipe, "train", seed)
        assert {did for did, _ in blueprint.intents[0].reads} == {""}
        assert blueprint_with_behaviours(blueprint, Behaviours(disclosure=1), recipe) == blueprint


def test_the_same_seed_gives_the_same_course():
    once, again = (list(changed("en", "beside_the_point", 10)) for _ in range(2))
    assert once == again


def test_the_rate_of_one_behaviour_does_not_change_who_shows_another():
    recipe = recipe_in(families={"ambiguous/slot_missing": 1})
    made = [make_blueprint_of_seed(recipe, "train", seed) for seed in range(6)]
    asides = [blueprint_with_behaviours(b, Behaviours(beside_the_point=0.5), recipe).intents[0].aside for b in made]
    both = [
        blueprint_with_behaviours(b, Behaviours(beside_the_point=0.5, disclosure=1), recipe).intents[0].aside for b in made
    ]
    assert asides == both and any(asides) and not all(asides)


def test_a_wish_has_one_of_three_behaviours():
    with pytest.raises(ValidationError, match="at most 1"):
        Behaviours(disclosure=0.6, change_of_mind=0.5)


# what each behaviour does


class Silent:
    """An agent that says the same words whatever it hears."""

    name = "silent"

    def __init__(self, words):
        self.words = words

    async def propose(self, observation, n=1):
        return [Reply({"role": "assistant", "content": self.words})]


def heard_by(blueprint, words, turns=4):
    episode = begin_episode(blueprint, EpisodeLimits(turns=turns, steps=20))
    return said_by(asyncio.run(play(episode, Silent(words), ScriptedUser(0), 0)))


@pytest.mark.parametrize("words", ["Which one?", "Done."])
def test_what_was_left_out_comes_when_asked_and_also_unasked(words):
    for blueprint in changed("en", "disclosure", 10):
        first = blueprint.intents[0]
        if first.course:
            parts = [part.text for part in first.course]
            assert heard_by(blueprint, words)[: len(parts)] == parts


def test_after_its_course_a_wish_is_said_whole():
    blueprint = next(b for b in changed("en", "self_correction") if b.intents[0].course)
    first = blueprint.intents[0]
    assert heard_by(blueprint, "Which one?")[1] == first.clarification
    assert heard_by(blueprint, "Done.")[1] in first.queries


def test_the_first_question_gets_an_answer_beside_the_point_and_the_second_one_a_proper_one():
    blueprint = next(b for b in changed("en", "beside_the_point") if b.intents[0].clarify and b.intents[0].aside)
    first = blueprint.intents[0]
    assert heard_by(blueprint, "Which one?")[1:4] == [first.aside, first.clarification, first.clarification]
    assert first.aside not in heard_by(blueprint, "Done.")


def test_a_corrected_wish_names_the_right_thing_last():
    recipe = recipe_in(families={"atomic": 1}, intents=(1, 1))
    for seed in range(20):
        blueprint = blueprint_with_behaviours(
            make_blueprint_of_seed(recipe, "train", seed), Behaviours(self_correction=1), recipe
        )
        (wish,) = blueprint.intents
        assert [part.plan for part in wish.course] in ([], [()])
        assert HomeSituation.from_blueprint(blueprint).added.turns == 0
        assert wish.conditions == make_blueprint_of_seed(recipe, "train", seed).intents[0].conditions


def minds_changed(count=60, family="atomic", **more):
    recipe = recipe_in(families={family: 1}, intents=(1, 1), **more)
    for seed in range(count):
        plain = make_blueprint_of_seed(recipe, "train", seed)
        blueprint = blueprint_with_behaviours(plain, Behaviours(change_of_mind=1), recipe)
        if blueprint.intents[0].course:
            yield plain, blueprint


def test_what_is_asked_last_counts():
    for _, blueprint in minds_changed():
        (wish,), situation = blueprint.intents, restore_situation(blueprint.model_dump(mode="json"))
        conditions = [compile_condition(text, situation.home.plan) for text in wish.conditions]
        first, last = wish.course
        obeyed = home_after_calls(situation.home, first.plan)
        assert not all(condition.holds_in(obeyed) for condition in conditions)
        assert all(condition.holds_in(home_after_calls(obeyed, last.plan)) for condition in conditions)


def test_whoever_does_all_that_is_said_last_is_right_also_where_something_toggles_or_counts():
    home = {"devices": (6, 14), "catalogue": ("homeassistant",)}
    found = [blueprint for _, blueprint in minds_changed(40, "compositional/explicit", home=home)]
    assert len(found) > 10
    for blueprint in found:
        (wish,), start = blueprint.intents, home_from_json(blueprint.home)
        end = home_after_calls(start, (*wish.course[0].plan, *wish.plan))
        assert all(compile_condition(text, start.plan).holds_in(end) for text in wish.conditions), wish.course


def test_a_changed_wish_is_said_in_full():
    """Whoever hears "forget that, ..." may forget what was said before."""
    found = [blueprint for _, blueprint in minds_changed(30, "compositional/explicit")]
    assert len(found) > 5
    for blueprint in found:
        (wish,), home = blueprint.intents, home_from_json(blueprint.home)
        for device in (home.plan.devices_by_did[did] for did in wish.devices):
            assert device.name.split()[0] in wish.course[-1].text, wish.course


def test_a_device_that_a_change_of_mind_leaves_must_be_as_it_was():
    pairs = [(old, new) for old, new in minds_changed() if len(new.intents[0].devices) > len(old.intents[0].devices)]
    assert pairs
    for _, blueprint in pairs:
        (wish,) = blueprint.intents
        episode = begin_episode(blueprint)
        left = wish.course[0].plan[-1].did
        for call in (*wish.course[0].plan, *(call for call in wish.plan if call.did != left)):
            episode.situation.home.call(call.did, call.service, call.args)
        assert episode.side_effects() == 0  # it was asked for once, so it is no side effect
        assert not all(episode.situation.met())  # but it must not stay so


def test_limits_grow_by_the_turns_that_behaviours_add_and_by_no_more():
    for _, blueprint in minds_changed(20):
        episode = begin_episode(blueprint, EpisodeLimits(turns=1, steps=2, steps_per_turn=2, calls=1))
        assert (episode.most_turns, episode.most_steps) == (2, 4)
        assert episode.most_calls == 1 + sum(len(part.plan) for part in blueprint.intents[0].course)
        assert played(blueprint, EpisodeLimits(turns=1, steps=4, steps_per_turn=4), styles={"snippet": 1.0}).success
        assert len(heard_by(blueprint, "Done.", turns=1)) == 2


def test_replaying_a_stored_trajectory_finds_the_same_course():
    blueprint = next(iter(changed("en", "change_of_mind")))
    assert first_difference(played(blueprint), restore_situation) is None


def test_an_agent_that_gives_up_the_first_wish_is_a_failure_of_the_agent():
    _, blueprint = next(minds_changed())
    episode = begin_episode(blueprint, EpisodeLimits(turns=1))
    assert asyncio.run(play(episode, Silent("Done."), ScriptedUser(0), 0)).outcome is Outcome.TURN_LIMIT


def test_a_world_whose_people_tell_all_at_once_refuses_behaviours():
    with pytest.raises(ValidationError, match="people tell all at once"):
        SynthesisConfig(recipe={"world": "simuhome"}, user={"behaviours": {"disclosure": 0.1}})
    recipe = SynthesisConfig(recipe={"world": "simuhome"}).recipe
    blueprint = make_blueprint_of_seed(recipe, "train", 0)
    with pytest.raises(InputError, match="people tell all at once"):
        blueprint_with_behaviours(blueprint, Behaviours(disclosure=0.1))


def test_a_text_role_play_has_no_wishes_to_tell():
    agent = {"url": "http://localhost:1/v1", "model": "m"}
    with pytest.raises(ValidationError, match="no blueprint"):
        SynthesisConfig(strategy="m1", agent=agent, user={"behaviours": {"disclosure": 0.1}})


def test_mistakes_of_the_expert_can_be_mended_by_asking_again():
    rng = random.Random(0)
    found = list(changed("en", "disclosure", 20))
    ends = [played(blueprint, EpisodeLimits(turns=8, steps=40), mistakes=0.2) for blueprint in rng.sample(found, 8)]
    assert sum(trajectory.success for trajectory in ends) >= 4


# an LLM in the role of the user


def follows_its_prompt(request):
    """An answer that says what the prompt quotes for the first wish, else the wish."""
    number, wish = wishes(request)[0]
    quoted = re.search(rf"^.*(?:wish |愿望){number}(?!\d).*?[\"“](.+)[\"”]$", request["messages"][1]["content"], re.M)
    said = quoted[1] if quoted else wish
    return content(say=said + " please" * request["messages"][1]["content"].count(": " + said), about=number)


@crossed(behaviour=BEHAVIOURS, language=["en", "zh"])
def test_an_llm_that_does_as_told_follows_the_course_of_the_scripted_user(language, behaviour):
    found = list(islice(changed(language, behaviour, 20), 4))
    with ScriptedServer(answer=follows_its_prompt) as server:
        settings = UserSettings(kind="llm", url=server.url, model="scripted", patience=1)
        with open_user_factory(settings) as users:
            for blueprint in found:
                expert = world_of(blueprint).expert(ExpertConfig(mistakes=0.0), blueprint.seed)
                end = asyncio.run(play(begin_episode(blueprint), expert, users(0)))
                assert end.success, (end.fault, said_by(end))
                course = [part.text for i in blueprint.intents for part in i.course]
                assert set(course) <= set(said_by(end))
            assert not users.usage_totals()["errors"]


def test_before_a_change_of_mind_the_person_is_not_told_what_it_will_want():
    _, blueprint = next(minds_changed())
    episode, (wish,) = begin_episode(blueprint), blueprint.intents
    persona = world_of(blueprint).persona(episode)
    before = build_user_prompt(episode, persona, blueprint.intents, UserSettings(), 0)[1]["content"]
    assert wish.course[0].text in before and wish.clarification not in before
    episode.add_utterance(wish.course[0].text, wish.id)
    episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
    now = build_user_prompt(episode, persona, blueprint.intents, UserSettings(), 0)[1]["content"]
    assert wish.clarification in now and f'"{wish.course[1].text}"' in now
