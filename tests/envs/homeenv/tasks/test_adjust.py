"""What people of few words ask for: relative changes, plain colours, all or any of a kind, the time."""

import asyncio
import colorsys
import random
import re
from datetime import UTC, datetime
from functools import cache

import pytest
from crossed import crossed
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.homeenv.bench.cases import collect_home_cases
from homerl.envs.homeenv.maker.make import make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import actions, home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.envs.homeenv.tasks.intents import Ask, intent_families
from homerl.envs.homeenv.tasks.intents.adjust import Dial, find_dials
from homerl.envs.homeenv.tasks.intents.colour import CODES, HUES, hue_condition
from homerl.envs.homeenv.tasks.situation import writer_of
from homerl.play.loop import play
from homerl.play.situation import Observation, Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.answer_rules import judge_answer_by_rules
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import HOME, PATIENT, TOOLSETS, Idle, drafts, expert_plays, idle_plays, solves

ACTS = ("adjust/step", "adjust/amount", "adjust/limit", "colour/named")
QUESTIONS = ("survey/all", "survey/any", "moment/time", "moment/date", "moment/weekday")


def blueprints(name: str, toolset: str, language: str, count: int = 5) -> list[Blueprint]:
    home = HOME.model_copy(update={"language": language, "devices": (8, 16)})
    recipe = BlueprintRecipe(families={name: 1}, intents=(1, 1), home=home, toolset=toolset, prompt="full")
    return [make_home_blueprint(recipe, "heldout" if seed % 2 else "train", seed) for seed in range(count)]


@crossed(name=ACTS + QUESTIONS, toolset=TOOLSETS, language=["en", "zh"])
def test_the_expert_succeeds_and_idling_fails(name, toolset, language):
    for blueprint in blueprints(name, toolset, language, 2):
        assert expert_plays(blueprint) is Outcome.SUCCESS, (blueprint.intents[0].queries, blueprint.intents[0].reply)
        assert idle_plays(blueprint) is not Outcome.SUCCESS
        assert idle_plays(blueprint, "I do not know.") is not Outcome.SUCCESS


class Meddler:
    """Does what was asked, and one thing on every other device."""

    name = "meddler"

    def __init__(self, blueprint: Blueprint) -> None:
        self.episode = begin_episode(blueprint, PATIENT)
        home, (intent,) = self.episode.situation.home, blueprint.intents
        others = {action.device.did: action for action in actions(home, random.Random(0))}
        extra = [call for did, action in others.items() if did not in intent.devices for call in action.plan]
        self.calls = [*intent.plan, *extra]

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        return [Reply(writer_of(self.episode).write_calls(self.calls))]


@pytest.mark.parametrize("name", ACTS)
def test_touching_everything_fails(name):
    for blueprint in blueprints(name, "smh", "en", 3):
        meddler = Meddler(blueprint)
        assert len(meddler.calls) > len(blueprint.intents[0].plan)
        assert asyncio.run(play(meddler.episode, meddler, ScriptedUser(0))).outcome is not Outcome.SUCCESS


@pytest.mark.parametrize("name", ACTS)
def test_the_plan_solves_the_draft_and_the_state_before_does_not(name):
    proposed = drafts(*name.split("/"), 60)
    assert len(proposed) > 20
    for home, draft in proposed:
        assert solves(home, draft, draft.plan) and not solves(home, draft, ())


# Relative changes


def homes_with_dials(seed: int) -> list[tuple[Home, Dial]]:
    home = make_home(seed, HOME)
    return [(home, dial) for dial in find_dials(home, random.Random(seed), frozenset())]


def holds_at(home: Home, dial: Dial, text: str, value: float) -> bool:
    """Whether the condition holds after the attribute is set to this value."""
    later = home.fork()
    try:
        later.call(dial.device.did, dial.service, (value,))
    except Refused:
        return False
    return compile_condition(text, home.plan).holds_in(later)


@few(30, 100)
@given(seed=st.integers(0, 400), which=st.sampled_from(("amount", "limit")))
def test_an_amount_and_a_limit_are_met_by_one_value_alone(seed, which):
    home = make_home(seed, HOME)
    draft = intent_families()["adjust"][which](home, random.Random(seed), Ask("clear"))
    if draft is None:
        return
    dial, (low, high) = draft.meaning.dial, draft.meaning.dial.type.range
    wanted = {"most": high, "least": low}.get(draft.meaning.way)
    if wanted is None:
        sign = 1 if draft.meaning.way == "up_by" else -1
        wanted = min(high, max(low, dial.now + sign * draft.meaning.by))
    met = [value for value in values_of(dial) if holds_at(home, dial, draft.conditions[0], value)]
    assert met == [pytest.approx(wanted)]


@few(30, 100)
@given(seed=st.integers(0, 400))
def test_a_step_is_met_on_its_side_within_a_quarter_of_the_range(seed):
    home = make_home(seed, HOME)
    draft = intent_families()["adjust"]["step"](home, random.Random(seed), Ask("clear"))
    if draft is None:
        return
    dial, sign = draft.meaning.dial, 1 if draft.meaning.way == "up" else -1
    low, high = dial.type.range
    met = [value for value in values_of(dial) if holds_at(home, dial, draft.conditions[0], value)]
    assert met and all(0 < sign * (value - dial.now) <= max((high - low) / 4, dial.smallest_step) + 1 for value in met)
    assert dial.now not in met


def values_of(dial: Dial) -> list[float]:
    """Every value that people could set, and the present one."""
    low, high = dial.type.range
    grain = 1 if high - low <= 400 else 10
    grid = {*(low + grain * at for at in range(int((high - low) / grain) + 1)), high, dial.now}
    grid |= {min(high, max(low, dial.now + sign * dial.smallest_step * by)) for sign in (1, -1) for by in range(1, 6)}
    return sorted(int(value) if dial.type.type == "int" else float(value) for value in grid)


# Colours


def test_the_codes_of_a_colour_lie_in_its_region_and_include_the_usual_ones():
    usual = {
        "red": "#ff0000",
        "orange": "#ffa500",
        "yellow": "#ffff00",
        "green": "#008000",
        "turquoise": "#40e0d0",
        "blue": "#0000ff",
        "purple": "#800080",
        "pink": "#ffc0cb",
    }
    assert usual.keys() == CODES.keys()
    for colour, codes in CODES.items():
        assert usual[colour] in codes and not {code for other, code in usual.items() if other != colour} & set(codes)
        for code in codes:
            hue, *_ = colorsys.rgb_to_hsv(*(int(code[at : at + 2], 16) / 255 for at in (1, 3, 5)))
            assert any(low - 1 <= 360 * hue <= high + 1 for low, high in HUES[colour]), (colour, code)


@few(30, 100)
@given(colour=st.sampled_from(sorted(HUES)), hue=st.floats(0, 360), saturation=st.floats(0, 100))
def test_a_pair_of_hue_and_saturation_is_in_a_region_as_its_numbers_say(colour, hue, saturation):
    made, did = coloured_home()
    home = made.fork()
    text = hue_condition(colour, f'device("{did}").hs_color')
    home.call(did, "turn_on", ())
    home.call(did, "set_hs_color", ((hue, saturation),))
    inside = any(low <= hue <= high for low, high in HUES[colour])
    if compile_condition(text, home.plan).holds_in(home):
        assert inside and saturation >= (20 if colour == "pink" else min(45, hue))
    elif inside and saturation < 100:
        assert saturation < 50


@cache
def coloured_home() -> tuple[Home, str]:
    for seed in range(50):
        home = make_home(seed, HOME)
        for device in home.plan.devices:
            if "set_hs_color" in device.spec.service_index:
                return home, device.did
    raise AssertionError("no home has a light with hue and saturation")


# Questions


@pytest.mark.parametrize("name", ["all", "any"])
def test_surveys_are_answered_both_ways(name):
    truths = [draft.answer.value for _, draft in drafts("survey", name, 150)]
    assert len(truths) > 20 and 0.1 < sum(truths) / len(truths) < 0.9


def test_the_clock_is_asked_of_agents_that_know_it_only():
    home = make_home(0, HOME)
    for propose in intent_families()["moment"].values():
        assert propose(home, random.Random(0), Ask("clear")) is None
        assert propose(home, random.Random(0), Ask("clear", timed=True)) is not None


@few(30, 100)
@given(clock=st.integers(0, 4_000_000_000))
def test_the_reply_is_the_answer_and_another_moment_is_not(clock):
    home = make_home(0, HOME)
    home.clock = clock
    later = home.fork()
    later.clock = clock + 86400 + 3600 + 300
    now = datetime.fromtimestamp(clock, UTC)
    said = {"time": f"{now:%H:%M}", "date": f"{now:%Y-%m-%d}", "weekday": f"{now:%A}"}
    for name, propose in intent_families()["moment"].items():
        ask = Ask("clear", timed=True)
        answer = propose(home, random.Random(0), ask).answer
        assert judge_answer_by_rules(answer, f"It is {said[name]}.") == "right"
        assert judge_answer_by_rules(propose(later, random.Random(0), ask).answer, f"It is {said[name]}.") == "wrong"
        assert judge_answer_by_rules(answer, "Done.") == "silent"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("time", r"\d\d:\d\d"), ("date", r"\d{4}-\d\d-\d\d"), ("weekday", "(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day")],
)
def test_a_judge_reads_the_right_moment_beside_a_wrong_one(kind, wanted):
    recipe = BlueprintRecipe(families={f"moment/{kind}": 1}, intents=(1, 1), home=HOME, toolset="smh", prompt="full")
    for seed in range(7):
        blueprint = make_home_blueprint(recipe, "train", seed)
        says = Idle("It is Monday, the 2nd of January 1998, and it is 03:33.")
        (case, *_) = collect_home_cases(asyncio.run(play(begin_episode(blueprint, PATIENT), says, ScriptedUser(0))))
        assert re.fullmatch(wanted, case.wanted) and case.rule == ("right" if case.wanted == "Monday" else "wrong")


def test_what_was_done_before_is_what_the_condition_counts_from():
    """An amount that is added twice is too much."""
    for home, draft in drafts("adjust", "amount", 40):
        dial, sign = draft.meaning.dial, 1 if draft.meaning.way == "up_by" else -1
        once = home_after_calls(home, draft.plan).read_value(dial.device.did, dial.path)
        low, high = dial.type.range
        twice = min(high, max(low, once + sign * draft.meaning.by))
        if twice != once:
            call = draft.plan[-1].model_copy(update={"args": (type(once)(twice),)})
            assert not solves(home, draft, (*draft.plan, call))
