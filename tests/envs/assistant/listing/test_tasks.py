"""Tasks in an imported home, also where values are null, such as the brightness of a light that is off."""

from __future__ import annotations

import ast
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import STATES
from homerl.envs.homeenv.language.meaning import OPERATORS
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.envs.homeenv.sim.values.expressions import COMPARISONS
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, author_candidate, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.envs.homeenv.tasks.goals import sample_home_states
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.envs.homeenv.tasks.intents.ambiguous import bind_to_part
from homerl.envs.homeenv.tasks.intents.device_choice import above_trait, match_devices
from homerl.play.trajectory import Outcome
from tests.envs.assistant.listing.replay import listing, recorded_home
from tests.envs.homeenv.tasks.intents import expert_plays, idle_plays

TASKS, ASKED = 3, 80


@pytest.mark.parametrize("toolset", ["homeflow", pytest.param("smh", marks=pytest.mark.long), "assist"])
def test_the_expert_does_each_task_of_an_imported_home(toolset: str, tmp_path: Path) -> None:
    save_home(recorded_home(), tmp_path / "home.json")
    recipe = BlueprintRecipe(home=HomeRecipe(files=(str(tmp_path / "home.json"),)), toolset=toolset, by_alias=0.5)
    tasks = [make_home_blueprint(recipe, "train", seed) for seed in range(TASKS)]
    assert [expert_plays(task) for task in tasks] == [Outcome.SUCCESS] * TASKS
    assert sum(idle_plays(task) is Outcome.SUCCESS for task in tasks) <= 1  # nearly every task asks for something


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Tasks of single devices in the imported home, as the tools of SMH-Bench can do them."""
    file = tmp_path_factory.mktemp("home") / "home.json"
    save_home(recorded_home(), file)
    recipe = BlueprintRecipe(
        home=HomeRecipe(files=(str(file),)), toolset="smh", intents=(1, 1), families={"atomic/clear": 1}
    )
    return [make_home_blueprint(recipe, "train", seed).intents[0] for seed in range(ASKED)]


def test_what_is_in_no_room_is_called_by_its_name_alone(asked):
    """ "The Walkman", not "the home Walkman"; a player that is called as a room is, such as "Kitchen", is not asked for."""
    said = [query for intent in asked for query in intent.queries]
    assert any("Walkman" in one for one in said) and not any("the home" in one for one in said)
    assert not {"media_player.kitchen", "media_player.bedroom"} & {call.did for intent in asked for call in intent.plan}


def test_people_dim_lights_and_set_temperatures(asked):
    """Values of arguments that may be left out, and of those beside such arguments."""
    calls = [call for intent in asked for call in intent.plan]
    dimmed = [call.args for call in calls if call.service == "turn_on" and call.args]
    assert dimmed and all(first is None and 0 < share <= 100 for first, share in dimmed)
    assert any(call.service == "set_temperature" for call in calls)


NO_DEVICE = ("None.", "None at all.")  # what is said of a question that no device answers
EACH = 3  # most entities of a domain
KINDS = [(family, subcategory) for family, known in sorted(intent_families().items()) for subcategory in sorted(known)]


@cache
def home() -> Home:
    """A part of the recorded home, as it was recorded."""
    taken: Counter[str] = Counter()
    kept = []
    for state in listing().sources[STATES]:
        domain = state["entity_id"].partition(".")[0]
        taken[domain] += 1
        kept += [state] if taken[domain] <= EACH else []
    return import_home(listing().with_sources({STATES: kept})).home


def with_nulls(seed: int) -> Home:
    """The home with about half of the values that may be null made so, or all (seed 0)."""
    rng, forked = random.Random(seed), home().fork()
    for slot, place in enumerate(forked.plan.slots):
        if place.type.nullable and (seed == 0 or rng.random() < 0.5):
            forked.values[slot] = None
    return forked


def drawn(family: str, subcategory: str, of: Home, language: str, seed: int) -> Blueprint | None:
    recipe = BlueprintRecipe(
        intents=(1, 1), families={f"{family}/{subcategory}": 1}, phrasings=1, toolset="smh", prompt="full"
    )
    recipe = recipe.model_copy(update={"home": recipe.home.model_copy(update={"language": language})})
    return author_candidate(recipe, "train", seed, of, random.Random(f"{family} {subcategory} {seed}"), Counter())


def said(blueprint: Blueprint) -> str:
    """All that is said in a blueprint, but for replies that count to none."""
    replies = [i.reply or "" for i in blueprint.intents if not (i.answer and i.answer.value == 0)]
    intents = [text for i in blueprint.intents for text in (*i.queries, i.clarification, i.question or "")] + replies
    return "\n".join([*intents, *blueprint.memory, *(past.content for past in blueprint.history)])


@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.long)])
def test_every_query_type_is_drawn_in_homes_with_nulls_and_none_says_one(language: str) -> None:
    made: Counter[str] = Counter()
    for family, subcategory in KINDS:
        for seed, of in enumerate((with_nulls(0), with_nulls(1))):
            if blueprint := drawn(family, subcategory, of, language, seed):
                made[family] += 1
                assert not any("None" in line for line in said(blueprint).splitlines() if line not in NO_DEVICE)
                if language == "en" and seed == 1:
                    assert expert_plays(blueprint) is Outcome.SUCCESS, said(blueprint)
                    assert idle_plays(blueprint) is not Outcome.SUCCESS, said(blueprint)
    assert {"adjust", "atomic", "automation", "compositional", "multi_turn", "memory", "query"} <= set(made)


def test_no_question_reads_a_null() -> None:
    of = with_nulls(2)
    for seed in range(20):
        if blueprint := drawn("query", "status", of, "en", seed):
            reads = blueprint.intents[0].reads
            off = {did for did, _ in reads if of.state_of(did).get("state") == "off"}
            assert all(of.read_value(did, path) is not None or did in off for did, path in reads)


def test_null_is_neither_less_nor_greater_as_in_conditions() -> None:
    assert not any(OPERATORS[sign](*pair) for sign in ("<", "<=", ">", ">=") for pair in ((None, 5), (5, None)))
    assert OPERATORS["<"] is COMPARISONS[ast.Lt] and OPERATORS["=="](None, None) and OPERATORS["!="](None, 5)


def test_what_depends_on_a_null_is_not_told_unless_the_device_is_off() -> None:
    of = home().fork()
    lamps = [device for device in of.find_devices(category="light") if "brightness" in device.spec.attribute_index]
    for device in lamps:
        of.write_slot(of.plan.slot_of(device.did, "state"), "off")
        of.write_slot(of.plan.slot_of(device.did, "brightness"), None)
    assert match_devices(of, "light", (above_trait("brightness", 50),)).met == ()
    of.write_slot(of.plan.slot_of(lamps[0].did, "state"), "on")
    assert match_devices(of, "light", (above_trait("brightness", 50),)) is None
    assert bind_to_part("self.brightness > {brightness}", of, lamps[0], "") is None


def test_the_states_in_which_rules_are_compared_include_the_null() -> None:
    of = with_nulls(0)
    lamp = next(device for device in of.find_devices(category="light") if "brightness" in device.spec.attribute_index)
    slot = of.plan.slot_of(lamp.did, "brightness")
    text = f'device("{lamp.did}").brightness > 50 and device("{lamp.did}").state == "on"'
    seen = {
        (state.values[slot], state.read_value(lamp.did, "state"))
        for state in sample_home_states(of, [compile_condition(text, of.plan)])
    }
    assert {(None, "on"), (None, "off")} <= seen and any(value is not None and value > 50 for value, _ in seen)
