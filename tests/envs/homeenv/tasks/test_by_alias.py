"""People who call things by an alias: always the same, only where agents are told it, and the expert knows what is meant."""

import asyncio
import json
import re

import pytest

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import aliases_of, spoken_name_of
from homerl.envs.homeenv.maker.home_names import load_lexicon
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT

HOME = {"devices": (5, 9), "catalogue": ("homeassistant",), "aliased": 1.0}
FAMILIES = {"atomic": 1.0, "compositional": 1.0, "multi_turn": 1.0, "query": 1.0}


def made(seed, **changed):
    recipe = {"toolset": "assist", "families": FAMILIES, "intents": (1, 2), "home": HOME, "by_alias": 1.0} | changed
    return make_home_blueprint(BlueprintRecipe(**recipe), "train", seed)


def said(blueprint):
    """All that the user may say."""
    sayings = [text for one in blueprint.intents for text in (*one.queries, one.clarification)]
    return " | ".join([*sayings, *(past.content for past in blueprint.history if past.role == "user")]).lower()


def heard(name, text):
    return re.search(rf"(?<![a-z-]){re.escape(name.lower())}(?![a-z-])", text)


def test_the_expert_does_what_is_said_by_alias_and_calls_it_by_the_first_name():
    by_alias = 0
    for seed in range(12):
        blueprint = made(seed)
        trajectory = asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0, 0.0, {"snippet": 1.0}), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS, trajectory.messages
        found = entities_of_plan(home_from_json(blueprint.home, "home").plan)
        calls = [call["function"] for step in trajectory.steps for call in step.message.get("tool_calls") or ()]
        named = {name for call in calls if (name := json.loads(call["arguments"]).get("name"))}
        assert named <= {entity.name for entity in found}
        by_alias += any(
            entity.name in named and heard(alias, said(blueprint)) for entity in found for alias in entity.names[1:]
        )
    assert by_alias > 2


def test_a_thing_is_called_the_same_all_the_time():
    drawn = set()
    for seed in range(12):
        blueprint = made(seed, families={"atomic/clear": 1.0}, phrasings=4, intents=(1, 1))
        home = home_from_json(blueprint.home, "home")
        (device,) = (home.plan.devices_by_did[did] for did in blueprint.intents[0].devices)
        word = spoken_name_of(device, home, 1.0)
        assert word in (aliases_of(device, home) or (device.name,))
        assert all(heard(word, text.lower()) for text in (*blueprint.intents[0].queries, blueprint.intents[0].clarification))
        drawn.update((word == device.name, spoken_name_of(one, home, 0.5) == one.name) for one in home.plan.devices)
    assert drawn >= {(False, False), (False, True)}, "a share of those with an alias"


def test_tools_that_tell_no_aliases_hear_none():
    for seed in range(6):
        aliased, plain = (made(seed, toolset="homeflow", by_alias=share) for share in (1.0, 0.0))
        assert aliased == plain


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_alias_is_what_people_call_a_kind_of_devices(language):
    known = home_grammar(language)
    kinds = [key for key in known.keys("") if re.fullmatch(r"(query\.)?kind\.\w+\.(wide\.)?(one|many)", key)]
    nouns = {text for key in kinds for text in known.plain_texts(key)}
    assert len(nouns) > 20
    for half in load_lexicon(language).aliases.values():
        for words in (*half.rooms.values(), *half.devices.values()):
            assert not set(words) & nouns
            assert all(re.fullmatch(r"[a-z][a-z-]*( [a-z-]+)?|[\u4e00-\u9fff]{1,8}", word) for word in words)
