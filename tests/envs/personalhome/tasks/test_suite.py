"""The suite of PersonalHomeBench: the same bytes from a seed, held-out words, and tasks that only a right answer passes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.suite import PersonalHomeInstance, build_household_instances
from homerl.envs.personalhome.sim.vocabulary import load_fact_words
from homerl.envs.personalhome.tasks.blueprint import KINDS, LEVELS
from homerl.envs.personalhome.tasks.expert import BASELINES
from homerl.play.loop import play
from homerl.play.trajectory import Trajectory
from homerl.play.words.grammar import split_of
from homerl.worlds.registry import begin_episode, known_suites
from homerl.worlds.users import ScriptedUser

LANGUAGES = ("en", "zh")
HOUSEHOLDS = 3


@pytest.fixture(scope="module", params=LANGUAGES)
def instances(request) -> list[PersonalHomeInstance]:
    return list(build_household_instances(0, request.param, Counter(), HOUSEHOLDS))


def played(instance: PersonalHomeInstance, agent: str, setting: str = "agentic") -> Trajectory:
    episode = begin_episode(instance.blueprint_for(setting), instance.limits_for(setting))
    return asyncio.run(play(episode, BASELINES[agent](), ScriptedUser()))


def test_each_household_has_one_task_of_each_kind(instances):
    assert [one.task.kind for one in instances] == list(KINDS) * HOUSEHOLDS
    assert [one.difficulty for one in instances[::4]] == list(LEVELS), "in turn"
    assert len({one.id for one in instances}) == len(instances)


def test_the_same_seed_gives_the_same_bytes(instances):
    again = build_household_instances(0, instances[0].language, Counter(), HOUSEHOLDS)
    assert [one.model_dump_json() for one in again] == [one.model_dump_json() for one in instances]


def test_only_the_expert_succeeds(instances):
    for instance in instances:
        for setting in ("agentic", "sole"):
            assert played(instance, "expert", setting).success, (instance.id, setting)
        for agent in ("nothing", "unknown"):
            assert played(instance, agent).progress == 0, (instance.id, agent)


def test_names_and_questions_are_held_out(instances):
    words = load_fact_words(instances[0].language)
    train = {name for halves in words.people.values() for name in halves.entries_of("train")}
    for instance in instances:
        assert train.isdisjoint(member.name for member in instance.blueprint.household.members)
        if hasattr(instance.task, "question"):
            assert split_of(instance.task.question) == "heldout"


def test_the_setting_decides_what_is_shown(instances):
    sole, agentic = (begin_episode(instances[0].blueprint_for(setting)) for setting in ("sole", "agentic"))
    name = instances[0].blueprint.household.members[0].name
    assert name in sole.messages[0]["content"] and not sole.world.tools
    assert name not in agentic.messages[0]["content"] and len(agentic.world.tools) == 17, "28 with those of scenes"


def test_a_household_that_came_out_otherwise_is_refused(instances):
    changed = instances[0].model_copy(update={"digest": "0" * 16})
    with pytest.raises(InputError, match="build the suite again"):
        changed.blueprint_for("agentic")


def test_the_suite_is_registered():
    world, suite = known_suites()["personalhome-bench"]
    assert world.name == "personalhome" and suite.settings == ("agentic", "sole")
