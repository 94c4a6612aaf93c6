"""Compositional intents: the devices that the words mean change as asked, and no others."""

import asyncio
import random
from collections import Counter
from functools import cache

import pytest
from crossed import crossed

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import Act, AttributeComparison, AttributeRank, Target, denoted_devices
from homerl.envs.homeenv.language.speaker import Speaker, is_heavy_phrase
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, first_filter_failure, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.intents import Ask, Draft, intent_families
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import Voice
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

SETS = ("batch", "state_dependent", "room_dependent", "top_n")
TOOLSETS = ("homeflow", "smh", "direct")
FEW, MANY = 12, 250  # homes
LIMITS = EpisodeLimits(turns=5, steps=12)


@cache
def homes(count: int) -> tuple[Home, ...]:
    return tuple(make_home(seed, HomeRecipe(devices=(24, 44))) for seed in range(count))


@cache
def drafts(name: str, count: int) -> tuple[tuple[Home, Draft], ...]:
    """Several of each home."""
    propose = intent_families()["compositional"][name]
    found = []
    for number, home in enumerate(homes(count)):
        rng = random.Random(number)
        asks = (Ask("clear", briefed=True) for _ in range(8))
        found += [(home, draft) for ask in asks if (draft := propose(home, rng, ask)) is not None]
    return tuple(found)


@cache
def blueprints(name: str) -> tuple[Blueprint, ...]:
    recipe = BlueprintRecipe.model_validate(
        {"home": {"devices": (16, 34)}, "families": {f"compositional/{name}": 1}, "intents": (1, 1), "phrasings": 1}
    )
    return tuple(make_home_blueprint(recipe, "train", seed) for seed in range(5))


def target_of(draft: Draft) -> Target:
    return draft.meaning.acts[0].target


def outcome(blueprint: Blueprint, calls: list[Call]) -> Outcome | None:
    """What comes of these calls, and a last word if all of Φ is met by them."""
    episode = begin_episode(blueprint)
    episode.add_utterance(blueprint.intents[0].queries[0], 1)
    episode.apply_reply(Reply(pyexec_message("\n".join(call.code for call in calls) or "pass")))
    if episode.progress == 1.0:
        episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
    return episode.outcome


# Another reading of what the words mean, from the specifications alone.


def kinds_of(kind: str) -> set[str]:
    return {"fan", "ceiling_fan"} if kind == "fan" else {kind}


def read(home: Home, did: str, kind: str, name: str) -> list:
    """The attribute in the parts of the kind."""
    spec = home.plan.devices_by_did[did].spec
    prefixes = [prefix for prefix, found in spec.part_kinds if found in kinds_of(kind)]
    return [home.read_value(did, prefix + name) for prefix in prefixes if prefix + name in spec.attribute_index]


def is_so(value, comparison: AttributeComparison) -> bool:
    wanted = comparison.value
    return {"==": value == wanted, ">": wanted != value and _larger(value, wanted), "<": _larger(wanted, value)}[
        comparison.operator
    ]


def _larger(one, other) -> bool:
    return isinstance(one, (int, float)) and isinstance(other, (int, float)) and one > other


def meant(target: Target, home: Home) -> set[str]:
    found = {d.did for d in home.plan.devices if kinds_of(target.kind) & {kind for _, kind in d.spec.part_kinds}}
    rooms = {room.id for room in (target.rooms or home.plan.rooms)} - {room.id for room in target.excluding}
    rooms &= {room.id for room in home.plan.rooms if target.floor in (None, room.floor)}
    if target.rooms_where:
        kind, comparison = target.rooms_where
        shown = {
            d.room.id
            for d in home.plan.devices
            if any(is_so(v, comparison) for v in read(home, d.did, kind, comparison.attribute))
        }
        rooms = rooms - shown if target.elsewhere else rooms & shown
    found = {did for did in found if home.plan.devices_by_did[did].room.id in rooms}
    if (where := target.where) is not None:
        found = {did for did in found if any(is_so(v, where) for v in read(home, did, target.kind, where.attribute))}
    if (rank := target.rank) is not None:
        values = {did: read(home, did, target.kind, rank.attribute) for did in found}
        order = sorted((did for did in found if values[did]), key=lambda did: max(values[did]), reverse=rank.highest)
        found = set(order[: rank.count])
    return found


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SETS)
def test_a_set_is_what_its_words_mean(name, count):
    assert len(drafts(name, count)) > 3 * count
    for home, draft in drafts(name, count):
        target = target_of(draft)
        assert {device.did for device in target.devices} == meant(target, home)
        assert target.devices == denoted_devices(target, home)
        touched = {*draft.devices, *(clause.split('"')[1] for clause in draft.keeps)}
        assert touched == {device.did for device in target.devices}


@pytest.mark.parametrize("name", SETS[1:])
def test_others_of_the_kind_are_left_out_and_what_decides_is_read_first(name):
    for home, draft in drafts(name, FEW):
        target = target_of(draft)
        bare = Target((), target.kind, target.rooms, target.floor, target.excluding)
        assert set(target.devices) < set(denoted_devices(bare, home))
        assert draft.reads and draft.factors.dependency == "dependent" and draft.factors.scope == "batch_device"
        for did, path in draft.reads:
            home.read_value(did, path)


def test_ranks_have_no_ties_at_the_cut():
    seen = Counter()
    for home, draft in drafts("top_n", FEW):
        target = target_of(draft)
        whole = denoted_devices(Target((), target.kind, target.rooms, target.floor, target.excluding, target.where), home)
        inside = [max(read(home, d.did, target.kind, target.rank.attribute)) for d in target.devices]
        values = (read(home, d.did, target.kind, target.rank.attribute) for d in whole if d not in target.devices)
        outside = [max(value) for value in values if value]
        assert len(inside) == target.rank.count and outside
        assert min(inside) > max(outside) if target.rank.highest else max(inside) < min(outside)
        seen[target.rank.highest] += 1
    assert min(seen.values()) > 5


def test_equal_ranks_denote_nothing():
    home = next(home for home in homes(FEW) if len(denoted_devices(Target((), "light"), home)) > 3)
    lights = [d for d in denoted_devices(Target((), "light"), home) if "brightness" in d.spec.attribute_index]
    alike = home.fork()
    for device in lights:
        alike.write_slot(alike.plan.slot_of(device.did, "brightness"), 50)
    rooms = tuple(dict.fromkeys(device.room for device in lights))
    assert denoted_devices(Target((), "light", rooms, rank=AttributeRank(1, "brightness", True)), alike) == ()


def test_lamps_that_are_off_never_decide():
    """Whether a lamp that is off but was left bright counts as bright is open, so it is never asked."""
    for home, draft in drafts("state_dependent", FEW):
        target = target_of(draft)
        if target.where.attribute == "brightness":
            states = [state for d in target.devices for state in read(home, d.did, target.kind, "state")]
            assert "off" not in states


@crossed(name=("explicit", *SETS), toolset=TOOLSETS)
def test_the_expert_succeeds_and_looks_first(name, toolset):
    for blueprint in blueprints(name):
        assert first_filter_failure(blueprint) is None
        one = blueprint.model_copy(update={"toolset": toolset})
        trajectory = asyncio.run(play(begin_episode(one, LIMITS), Expert(0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.clean
        looks = blueprint.intents[0].reads and toolset != "direct"
        says = toolset != "direct"  # one answer is call and word at once
        assert len(trajectory.steps) == 1 + bool(looks) + says


@pytest.mark.parametrize("name", SETS)
def test_too_little_and_too_much_fail(name):
    """Nothing, all but one, and the same of one more device of the kind that would change."""
    widened = 0
    for blueprint in blueprints(name):
        intent = blueprint.intents[0]
        assert outcome(blueprint, []) is None
        if len(intent.devices) > 1:
            assert outcome(blueprint, [call for call in intent.plan if call.did != intent.devices[0]]) is None
        for call in one_more(blueprint):
            assert outcome(blueprint, [*call, *intent.plan]) is Outcome.AGENT_FAILURE
            widened += 1
    assert widened > 1


def one_more(blueprint: Blueprint) -> list[list[Call]]:
    """The same calls of other devices that know them, which they would change."""
    intent, home = blueprint.intents[0], begin_episode(blueprint).situation.home
    first = [call for call in intent.plan if call.did == intent.devices[0]]
    found = []
    for device in home.plan.devices:
        calls = [call.model_copy(update={"did": device.did}) for call in first]
        knows = all(call.service in device.spec.service_index for call in calls)
        if device.did not in intent.devices and knows and moves(home, calls):
            found.append(calls)
    return found[:2]


def moves(home: Home, calls: list[Call]) -> bool:
    after = home.fork()
    try:
        for call in calls:
            after.call(call.did, call.service, call.args)
    except Exception:
        return False
    return bool(home.diff(after))


def test_a_device_of_several_parts_keeps_what_nobody_spoke_of():
    cases = 0
    for _, draft in (pair for name in SETS for pair in drafts(name, FEW)):
        kinds = dict.fromkeys(draft.devices)
        for text in draft.keeps:
            if text.split('"')[1] in kinds and ".state ==" in text:
                written = {path.strip() for clause in draft.conditions for path in clause.replace(" and ", "\n").split("\n")}
                assert text not in written
                cases += 1
    assert cases > 10


# Words


def speaker(home: Home, language: str = "en", seed: int = 0, temperature: float = 0.0) -> Speaker:
    return Speaker(home, Voice(language, temperature), "clear", random.Random(seed))


def test_noun_phrases_at_their_plainest():
    home = homes(FEW)[0]
    kitchen, other = home.plan.rooms[:2]
    state = AttributeComparison("state", "==", "on", next(iter(home.plan.slots)).type)
    say = speaker(home).say_target
    everywhere = "light" if len(denoted_devices(Target((), "light"), home)) else "curtain"
    assert say(Target((), everywhere)) == f"all the {everywhere}s"
    assert say(Target((), "light", (kitchen,))) == f"all the lights in the {kitchen.name}"
    both = f"the {kitchen.name} and the {other.name}"
    assert say(Target((), "light", (kitchen, other))) == f"all the lights in {both}"
    assert say(Target((), "light", excluding=(kitchen,))) == f"all the lights except in the {kitchen.name}"
    assert say(Target((), "light", (kitchen,), where=state)) == f"the lights in the {kitchen.name} that are on"
    two = Target((), "light", (kitchen,), rank=AttributeRank(2, "brightness", True))
    assert say(two) == f"the two brightest lights in the {kitchen.name}"
    signs = Target((), "light", rooms_where=("air_conditioner", state))
    assert say(signs) == "all the lights in rooms where the air conditioner is on"
    assert is_heavy_phrase(two) and is_heavy_phrase(signs) and not is_heavy_phrase(Target((), "light", (kitchen,)))


def test_floors_are_named_by_their_place_among_floors():
    said = {
        speaker(home).say_target(Target((), "light", floor=floor))
        for home in homes(FEW)
        for floor in {r.floor for r in home.plan.rooms}
    }
    assert {"all the lights upstairs", "all the lights downstairs"} <= said


def test_long_phrases_stand_where_verbs_do_not_go_around_them():
    home = homes(FEW)[0]
    state = AttributeComparison("state", "==", "on", next(iter(home.plan.slots)).type)
    for seed in range(60):
        words = speaker(home, seed=seed, temperature=1.0).act(Act("turn_off", Target((), "light", where=state)))
        assert not words.endswith(" off")


def test_both_languages_have_the_same_keys_and_say_every_draft():
    own = ("noun.", "kind.", "number.", "ambiguous.", "compositional.")
    keys = [[key for key in list(home_grammar(language).keys()) if key.startswith(own)] for language in ("en", "zh")]
    assert keys[0] == keys[1]
    for name in SETS:
        for number, (home, draft) in enumerate(drafts(name, FEW)[:30]):
            for language in ("en", "zh"):
                words = draft.meaning.words(speaker(home, language, number, 1.0))
                assert words and "_" not in words and "{" not in words and "device(" not in words


def test_phrases_do_not_run_together():
    for home, draft in (pair for name in SETS for pair in drafts(name, FEW)):
        words = draft.meaning.words(speaker(home, "en", len(draft.plan), 1.0)).split()
        assert all(one != other for one, other in zip(words, words[1:]) if one not in ("that",)), words
