"""Ambiguous intents: complaints that are true, scenes that are spelled when asked, slots that must be asked for."""

import asyncio
import random
from collections import Counter
from functools import cache
from types import SimpleNamespace

import pytest
from crossed import crossed

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import devices_of_kind
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, first_filter_failure, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.goals import names_what_is_open
from homerl.envs.homeenv.tasks.intents import Ask, Draft, intent_families
from homerl.envs.homeenv.tasks.intents.ambiguous import (
    AnyDeviceRequest,
    UnvaluedRequest,
    find_remedies,
    is_complaint_true,
    load_complaints,
    load_scenes,
)
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.spoken_words import spoken_words_of
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import Voice
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

NAMES = ("state_level", "scene_level", "slot_missing")
TOOLSETS = ("homeflow", "smh", "direct")
FEW, MANY = 12, 300
LIMITS = EpisodeLimits(turns=5, steps=12)


@cache
def homes(count: int) -> tuple[Home, ...]:
    return tuple(make_home(seed, HomeRecipe(devices=(20, 40), entrance=True)) for seed in range(count))


@cache
def drafts(name: str, count: int) -> tuple[tuple[Home, Draft], ...]:
    propose = intent_families()["ambiguous"][name]
    found = []
    for number, home in enumerate(homes(count)):
        rng = random.Random(number)
        asks = (Ask("clear", briefed=n % 2 == 0) for n in range(6))
        found += [(home, draft) for ask in asks if (draft := propose(home, rng, ask)) is not None]
    return tuple(found)


def complaint_or_scene(draft: Draft) -> tuple[str, Room | None]:
    """The name of a complaint or of a scene, and the room that is named, from the frame that says it."""
    return draft.meaning.frame.split(".")[-2], dict(draft.meaning.slots).get("room")


@cache
def blueprints(name: str, intents: int = 1) -> tuple[Blueprint, ...]:
    recipe = BlueprintRecipe.model_validate(
        {
            "home": {"devices": (16, 34)},
            "families": {f"ambiguous/{name}": 1},
            "intents": (intents, intents),
            "phrasings": 1,
            "prompt": "full",
        }
    )
    return tuple(make_home_blueprint(recipe, "train", seed) for seed in range(6 // intents))


def after(home: Home, calls) -> Home:
    then = home.fork()
    for call in calls:
        then.call(call.did, call.service, call.args)
    return then


def holds(draft: Draft, home: Home) -> bool:
    return all(compile_condition(text, home.plan).holds_in(home) for text in draft.conditions)


def said(name: str, draft: Draft, home: Home, language: str = "en", seed: int = 0) -> str:
    return getattr(draft, name).words(Speaker(home, Voice(language), "clear", random.Random(seed)))


@crossed(toolset=TOOLSETS, name=NAMES)
def test_the_expert_succeeds(name, toolset):
    for blueprint in blueprints(name):
        assert first_filter_failure(blueprint) is None
        one = blueprint.model_copy(update={"toolset": toolset})
        trajectory = asyncio.run(play(begin_episode(one, LIMITS), Expert(0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.clean
        assert len(trajectory.turns()) == (2 if blueprint.intents[0].clarify else 1)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_drafts_are_solved_by_their_plan_and_by_nothing_less(name, count):
    assert len(drafts(name, count)) > 4 * count
    for home, draft in drafts(name, count):
        then = after(home, draft.plan)
        assert holds(draft, then) and not holds(draft, home)
        kept = [compile_condition(text, home.plan) for text in draft.keeps]
        assert all(condition.holds_in(state) for condition in kept for state in (home, then))
        assert {home.plan.slots[change.slot].owner for change in home.diff(then)} <= set(draft.devices)
        clarity = "missing_slot" if name == "slot_missing" else "ambiguous"
        assert draft.factors.clarity == clarity and draft.clarify == (name == "slot_missing") and draft.plainly


# Complaints


def test_complaints_are_true_and_concern_one_room():
    seen = Counter()
    for home, draft in drafts("state_level", FEW):
        rooms = {home.plan.devices_by_did[did].room for did in draft.devices}
        assert len(rooms) == 1 and len(draft.conditions) == 1
        room = rooms.pop()
        name, told = complaint_or_scene(draft)
        assert told in (None, room) and is_complaint_true(home, room, load_complaints()[name])
        if told is None:
            assert home.plan.devices_by_did[home.plan.entrance].room == room
        seen[name] += 1
        seen["here"] += told is None
    assert len(seen) > 6 and seen["here"] > 2


def test_without_a_briefing_the_room_is_named():
    propose = intent_families()["ambiguous"]["state_level"]
    for number, home in enumerate(homes(FEW)):
        draft = propose(home, random.Random(number), Ask("clear"))
        assert draft is None or complaint_or_scene(draft)[1] is not None


def test_any_remedy_counts_and_its_opposite_does_not():
    """Of "too dark": lamps on, brighter, curtains open; of "too hot": no heating."""
    counted = 0
    for home, draft in drafts("state_level", FEW):
        if complaint_or_scene(draft)[0] == "dark":
            for did in draft.devices:
                for path in home.plan.devices_by_did[did].spec.service_index:
                    service = path.rpartition(".")[2]
                    if path.removesuffix(service) not in ("", "light.", "sheer.", "drape."):
                        continue
                    if service in ("turn_on", "open", "turn_off", "close"):
                        then = tried(home, Call(did=did, service=path))
                        helped = then is not None and bool(home.diff(then)) and service in ("turn_on", "open")
                        assert then is None or holds(draft, then) == helped or service == "open"
                        counted += helped
        for did in draft.devices if complaint_or_scene(draft)[0] == "hot" else ():
            spec = home.plan.devices_by_did[did].spec
            if "heat" in str(spec.attribute_index.get("ac_mode", ("", ""))[1]):
                then = tried(home, Call(did=did, service="turn_on"), Call(did=did, service="set_ac_mode", args=("heat",)))
                assert then is None or not holds(draft, then)
    assert counted > 5


@pytest.mark.parametrize(("name", "kind", "level"), [("cold", "heater", "power_level"), ("hot", "fan", "speed_level")])
def test_one_level_more_helps_as_the_highest_does(name, kind, level):
    found = 0
    for seed in range(40):
        home = make_home(seed, HomeRecipe(categories=(kind,), devices=(2, 4)))
        for device in home.find_devices(category=kind):
            if f"set_{level}" not in device.spec.service_index:
                continue
            low = after(home, [Call(did=device.did, service="turn_on"), set_to(device, level, "low")])
            found += 1
            better = [
                remedy.better
                for remedy in find_remedies(low, device.room, load_complaints()[name])
                if remedy.device == device
            ]
            helped = {
                value: any(one.holds_in(after(low, [set_to(device, level, value)])) for one in better)
                for value in ("low", "medium", "high")
            }
            assert helped == {"low": False, "medium": True, "high": True}
    assert found > 3


def set_to(device: Device, level: str, value: str) -> Call:
    return Call(did=device.did, service=f"set_{level}", args=(value,))


def tried(home: Home, *calls: Call) -> Home | None:
    try:
        return after(home, calls)
    except Refused:
        return None


@pytest.mark.parametrize("name", NAMES[:2])
def test_one_may_ask_and_is_told_plainly(name):
    for blueprint in blueprints(name):
        intent = blueprint.intents[0]
        episode = begin_episode(blueprint)
        episode.add_utterance(intent.queries[0], 1)
        episode.apply_reply(Reply({"role": "assistant", "content": "What would you like?"}))
        told = asyncio.run(ScriptedUser(0).speak(episode)).text
        assert told == intent.clarification and told not in intent.queries
        episode.add_utterance(told, 1)
        episode.apply_reply(Reply(pyexec_message("\n".join(call.code for call in intent.plan))))
        episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
        assert episode.outcome is Outcome.SUCCESS


# Scenes


def test_scenes_fit_their_room_and_spell_all_wishes():
    seen = Counter()
    for home, draft in drafts("scene_level", FEW):
        name, told = complaint_or_scene(draft)
        scene = load_scenes()[name]
        rooms = {home.plan.devices_by_did[did].room for did in draft.devices}
        assert draft.meaning.frame.endswith(".home") == (not scene.rooms)
        if scene.rooms:
            assert len(rooms) == 1 and told in (None, *rooms) and {room.type for room in rooms} <= set(scene.rooms)
        spelled = {device.did for act in draft.plainly.acts for device in act.target.devices}
        assert set(draft.devices) <= spelled
        seen[name] += 1
    assert len(seen) > 7


def test_part_of_a_scene_is_not_enough():
    tried_ = 0
    for home, draft in drafts("scene_level", FEW):
        if len(draft.conditions) > 1:
            last = draft.plan[-1]
            assert not holds(draft, after(home, [c for c in draft.plan if c.did != last.did]))
            tried_ += 1
    assert tried_ > 15


# Missing slots


def test_slots_are_truly_open():
    seen = Counter()
    for home, draft in drafts("slot_missing", FEW):
        (did,) = draft.devices
        device, meaning = home.plan.devices_by_did[did], draft.meaning
        seen[type(meaning).__name__] += 1
        if isinstance(meaning, UnvaluedRequest):
            assert meaning.act.value is not None and device.name in said("meaning", draft, home)
            continue
        assert isinstance(meaning, AnyDeviceRequest) and meaning.room in (None, device.room)
        others = [d for d in devices_of_kind(home, meaning.kind) if d.did != did]
        others = [d for d in others if meaning.room in (None, d.room)]
        assert others, "nobody else could be meant"
        entrance = home.plan.devices_by_did[home.plan.entrance]
        if meaning.room is None:
            near = [d for d in (device, *others) if d.room == entrance.room]
            assert len(near) != 1, "where the person is tells which"
    assert min(seen.values()) > 5


def test_the_question_is_about_what_is_missing_and_the_answer_tells_it():
    for number, (home, draft) in enumerate(drafts("slot_missing", FEW)):
        for language in ("en", "zh"):
            question = said("question", draft, home, language, number)
            assert spoken_words_of({"role": "assistant", "content": question}).question
        if isinstance(draft.meaning, AnyDeviceRequest):
            device = home.plan.devices_by_did[draft.devices[0]]
            plain = said("plainly", draft, home, "en", number)
            assert device.name.split()[0] in plain and device.room.name in plain


def test_the_question_names_what_is_open_in_every_way_to_put_it():
    for number, (home, draft) in enumerate(drafts("slot_missing", FEW)):
        for language in ("en", "zh"):
            names = draft.names(Speaker(home, Voice(language), "clear", random.Random(0)))
            intent = SimpleNamespace(names=tuple(names))
            for seed in range(6):
                question = said("question", draft, home, language, 10 * number + seed)
                assert names_what_is_open(question, intent), question
            for empty in ("?", "Hm?", "What?", "Which one do you mean?", "Please say that again?", "您指的是哪一个？"):
                assert not names_what_is_open(empty, intent), empty


@pytest.mark.parametrize("empty", ["?", "Which one do you mean?", "What would you like?"])
def test_a_question_that_names_nothing_earns_nothing(empty):
    for blueprint in blueprints("slot_missing"):
        intent = blueprint.intents[0]
        older = blueprint.model_copy(update={"intents": (intent.model_copy(update={"names": ()}),)})
        for task, gains in ((blueprint, False), (older, True)):  # stored trajectories are verified by their own rule
            episode = begin_episode(task)
            episode.add_utterance(intent.queries[0], 1)
            step = episode.apply_reply(Reply({"role": "assistant", "content": empty}))
            assert (step.facts.progress_after > 0) == gains
        assert "names" in blueprint.model_dump()["intents"][0] and "names" not in older.model_dump()["intents"][0]


def test_acting_before_asking_fails_and_so_does_asking_after():
    for blueprint in blueprints("slot_missing"):
        intent = blueprint.intents[0]
        act = Reply(pyexec_message("\n".join(call.code for call in intent.plan)))
        ask = Reply({"role": "assistant", "content": intent.question})
        done = Reply({"role": "assistant", "content": "Done."})
        for replies, outcome in (([act], None), ([act, ask], None), ([ask], None), ([ask, act], Outcome.SUCCESS)):
            episode = begin_episode(blueprint)
            for reply in replies:
                episode.add_utterance(intent.queries[0], 1)
                episode.apply_reply(reply)
            if replies[-1] is act:
                episode.apply_reply(done)
            assert episode.outcome is outcome


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_what_was_done_for_another_intent_is_no_acting_before_asking(toolset):
    for blueprint in blueprints("slot_missing", 2):
        one = blueprint.model_copy(update={"toolset": toolset})
        trajectory = asyncio.run(play(begin_episode(one, LIMITS), Expert(0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS and len(trajectory.turns()) == 4


# Words


def test_every_complaint_and_scene_has_its_words():
    for language in ("en", "zh"):
        keys = set(home_grammar(language).keys())
        assert {f"ambiguous.{name}.{way}" for name in load_complaints() for way in ("in", "here")} <= keys
        for name, scene in load_scenes().items():
            assert {f"ambiguous.scene.{name}.{way}" for way in (("in", "here") if scene.rooms else ("home",))} <= keys


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_leaks_nothing(name):
    for number, (home, draft) in enumerate(drafts(name, FEW)):
        for language in ("en", "zh"):
            words = said("meaning", draft, home, language, number)
            assert words and not any(mark in words for mark in "_{}<>[]|")
            assert not {device.did for device in home.plan.devices} & set(words.split())
