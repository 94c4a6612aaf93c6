"""Questions: answered from the home, unambiguous, and never by touching anything."""

import asyncio
import random

from crossed import crossed

from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.tasks.actions import actions, home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.goals import HeardReplies
from homerl.envs.homeenv.tasks.intents import Ask, intent_families
from homerl.envs.homeenv.tasks.intents.device_choice import OFF, ON, above_trait, match_devices
from homerl.envs.homeenv.tasks.intents.query import ask_how_warm, ask_warmer_room
from homerl.envs.homeenv.tasks.situation import writer_of
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.spoken_words import SpokenWords
from homerl.play.trajectory import Outcome
from homerl.play.words.answer_rules import Answer, judge_answer_by_rules
from homerl.play.words.grammar import Voice
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT, TOOLSETS, Idle, blueprints, drafts, expert_plays, idle_plays

FAMILY = "query"
SUBCATEGORIES = ("status", "quantity")


def everything():
    return [blueprint for subcategory in SUBCATEGORIES for blueprint in blueprints(FAMILY, subcategory, count=40)]


def test_the_subcategories_are_those_of_the_papers():
    assert tuple(intent_families()[FAMILY]) == SUBCATEGORIES


@crossed(subcategory=SUBCATEGORIES, toolset=TOOLSETS)
def test_the_expert_succeeds_and_idling_fails(subcategory, toolset):
    for blueprint in blueprints(FAMILY, subcategory, toolset, 8):
        assert expert_plays(blueprint) is Outcome.SUCCESS, (blueprint.id, blueprint.intents[0].reply)
        assert idle_plays(blueprint) is not Outcome.SUCCESS
        assert idle_plays(blueprint, "I do not know.") is not Outcome.SUCCESS


def test_what_the_expert_says_is_right_and_nothing_is_to_change():
    for blueprint in everything():
        (intent,) = blueprint.intents
        assert judge_answer_by_rules(intent.answer, intent.reply) == "right", (intent.answer, intent.reply)
        assert not (intent.devices or intent.plan or intent.conditions) and len(intent.reads) <= 25


def test_numbers_in_the_names_of_rooms_and_devices_are_no_answers():
    """ "Dinette 2" and "two-door oven"."""
    blueprint = make_home_blueprint(BlueprintRecipe(families={"multi_turn": 1, "query": 1}, intents=(2, 2)), "train", 73)
    assert "two-door oven" in blueprint.intents[1].reply and expert_plays(blueprint) is Outcome.SUCCESS
    told = home_to_json(make_home(3, HomeRecipe(scale="complex")))
    rooms = [room | {"name": f"dinette {number}"} for number, room in enumerate(told["rooms"], 1)]
    home, asked = home_from_json(told | {"rooms": rooms}, "numbered"), 0
    for seed in range(12):
        for way in (ask_how_warm, ask_warmer_room):
            draft = next(way(home, random.Random(seed)), None)
            if draft is not None:
                said = draft.reply.words(Speaker(home, Voice(), "clear", random.Random(seed)))
                assert judge_answer_by_rules(draft.answer, said) == "right", (draft.answer, said)
                asked += 1
    assert asked >= 12


def test_what_is_near_is_wrong():
    seen = set()
    for blueprint in everything():
        answer = blueprint.intents[0].answer
        seen.add(answer.type)
        for near in near_misses(answer, blueprint):
            assert judge_answer_by_rules(answer, near) != "right", (answer, near)
    assert seen == {"number", "boolean", "text", "names"}


def near_misses(answer: Answer, blueprint) -> list[str]:
    names = [f"{d['name']} in the {room}" for room, d in rooms_and_devices(blueprint)]
    match answer.type:
        case "number":
            off = max(1, 2 * answer.tolerance)
            return [str(answer.value + off), str(answer.value - off), "1, 2, 3", f"{answer.value} or {answer.value + off}"]
        case "boolean":
            return ["No." if answer.value else "Yes.", "Yes and no.", "Maybe."]
        case "text":
            return [", ".join((answer.value, *answer.distractors)), *answer.distractors] if answer.distractors else []
        case _:
            kept = [way for ways in answer.accepted[:-1] for way in ways[:1]]
            return [", ".join(kept), *([", ".join(names)] if answer.distractors else [])]


def rooms_and_devices(blueprint) -> list[tuple[str, dict]]:
    rooms = {room["id"]: room["name"] for room in blueprint.home["rooms"]}
    return [(rooms[device["room"]], device) for device in blueprint.home["devices"]]


def test_a_question_names_what_is_there_and_every_read_can_be_read():
    for blueprint in everything():
        episode = begin_episode(blueprint)
        assert all(episode.situation.home.read_value(did, path) is not None for did, path in blueprint.intents[0].reads)


def test_touching_something_while_answering_fails():
    blueprint = next(b for b in everything() if b.intents[0].answer.type == "number")
    episode = begin_episode(blueprint)
    call = next(actions(episode.situation.home, random.Random(0))).plan
    episode.add_utterance(blueprint.intents[0].queries[0], 1)
    episode.apply_reply(Reply(writer_of(episode).write_calls(call)))
    episode.apply_reply(Reply(writer_of(episode).write_reply(blueprint.intents[0].reply)))
    assert episode.outcome is Outcome.AGENT_FAILURE


def test_an_answer_once_given_stands():
    """Nobody may try one answer after the other; what claims nothing may be followed by an answer."""
    (intent,) = next(b for b in everything() if b.intents[0].answer.type == "boolean").intents
    right, wrong = ("Yes.", "No.") if intent.answer.value else ("No.", "Yes.")
    right, wrong, silence = (SpokenWords(text, text, False) for text in (right, wrong, "Let me have a look."))
    silent = HeardReplies().after_message(intent, silence, True)
    assert silent.after_message(intent, right, True).answered == {intent.id}
    assert not HeardReplies().after_message(intent, wrong, True).after_message(intent, right, True).answered
    kept = HeardReplies().after_message(intent, right, True).after_message(intent, wrong, True)
    assert kept.answered == {intent.id}


def test_shotguns_fail():
    for blueprint in everything()[::6]:
        text = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, yes, no, none, all of them"
        agent = Idle(text)
        assert asyncio.run(play(begin_episode(blueprint, PATIENT), agent, ScriptedUser(0))).outcome is not Outcome.SUCCESS


def test_answers_vary():
    counts = [d.answer.value for _, d in drafts(FAMILY, "quantity", 120) if d.answer.unit == "count"]
    truths = [d.answer.value for _, d in drafts(FAMILY, "status", 120) if d.answer.type == "boolean"]
    assert 0 in counts and max(counts) >= 3 and len(set(counts)) >= 4
    assert 0.2 < sum(truths) / len(truths) < 0.8


def small_home(**states: dict) -> Home:
    """Lights and a ceiling fan in two rooms, as given."""
    rooms = [Room("a", "study", "study"), Room("b", "bedroom", "bedroom")]
    specs = {spec.name: spec for spec in Catalogue.load_shipped().values()}
    parts = [("1", "dimmable_light", 0), ("2", "dimmable_light", 1), ("3", "ceiling_fan", 1)]
    devices = [Device(did, f"thing {did}", rooms[room], specs[name]) for did, name, room in parts]
    air = {"temperature": 20.0, "humidity": 50.0, "brightness": 10.0}
    fan = {
        "light.brightness": 50,
        "light.color_temperature": 4000,
        "fan.speed": 1,
        "fan.direction": "up",
        "fan.state": "off",
    }
    state = {
        "1": {"state": "on", "brightness": 80},
        "2": {"state": "off", "brightness": 80},
        "3": {"light.state": "off", **fan},
        OUTDOORS: air,
        "a": air,
        "b": air,
    }
    return Home.build_home(rooms, devices, {key: values | states.get(f"d{key}", {}) for key, values in state.items()})


def test_a_survey_counts_what_meets_all_traits():
    home = small_home()
    assert [d.did for d in match_devices(home, "light", (ON,)).met] == ["1"]
    assert [d.did for d in match_devices(home, "light", (above_trait("brightness", 50),)).met] == ["1", "2"]
    assert [d.did for d in match_devices(home, "light", (ON, above_trait("brightness", 50))).met] == ["1"]
    assert match_devices(home, "light", (ON,), home.plan.rooms[1]).met == ()
    assert ("3", "light.state") in match_devices(home, "light", (ON,)).reads


def test_the_brightness_of_a_lamp_that_is_off_decides_no_answer():
    asked = 0
    for home, draft in drafts(FAMILY, "quantity", 150):
        then = home_after_calls(home, draft.before)
        lamps = [(did, path) for did, path in draft.reads if path.endswith("brightness")]
        off = [did for did, path in lamps if then.read_value(did, path.replace("brightness", "state")) == "off"]
        if lamps and draft.meaning.frame.startswith(("query.most", "query.average", "query.highest", "query.lowest")):
            assert not off
            asked += 1
        elif lamps and len({path for _, path in draft.reads}) == 1:
            assert not {device.did for device in getattr(draft.reply, "devices", ())} & {*off}
    assert asked > 5


def test_what_could_be_understood_in_two_ways_is_not_asked():
    assert match_devices(small_home(d3={"light.state": "on"}), "light", (ON,)) is None, "is a ceiling fan's light a light?"
    assert match_devices(small_home(), "light", (OFF,)) is None
    assert match_devices(small_home(), "light", ()) is None


def test_large_homes_are_asked_about_too():
    home = make_home(3, HomeRecipe(scale="complex"))
    found = [
        intent_families()[FAMILY][s](home, random.Random(seed), Ask("clear")) for s in SUBCATEGORIES for seed in range(20)
    ]
    assert sum(draft is not None for draft in found) > 25
