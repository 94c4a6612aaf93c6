"""Agents without a language model: their answers have the right form, they are deterministic, and they may only guess."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from crossed import crossed

from homerl.envs.personalhome.bench.run_results import personalhome_failure
from homerl.envs.personalhome.bench.suite import PersonalHomeInstance, build_household_instances
from homerl.envs.personalhome.bench.suite import build_scene_instances as scene_instances
from homerl.envs.personalhome.tasks.blueprint import LETTERS
from homerl.envs.personalhome.tasks.expert import BASELINES
from homerl.play.loop import play
from homerl.play.trajectory import Trajectory
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser


@pytest.fixture(scope="module", params=("en", "zh"))
def instances(request) -> list[PersonalHomeInstance]:
    return list(build_household_instances(0, request.param, Counter(), 3))


@pytest.fixture(scope="module")
def scenes():
    made = scene_instances(0, "en", Counter())
    return [one for one, _ in zip(made, range(40), strict=False)]


def played(instance, agent: str, setting: str = "agentic") -> Trajectory:
    episode = begin_episode(instance.blueprint_for(setting), instance.limits_for(setting))
    return asyncio.run(play(episode, BASELINES[agent](), ScriptedUser()))


@crossed(agent=["random", "keywords"], setting=["agentic", "sole"])
def test_answers_can_be_read_and_are_the_same_again(instances, agent, setting):
    for instance in instances[::2]:
        first = played(instance, agent, setting)
        failure = personalhome_failure(first)
        assert failure is None or failure.dimension in ("READING", "REASONING"), (instance.id, failure)
        assert played(instance, agent, setting).messages == first.messages


def reads_all_evidence(instance) -> bool:
    """Whether the baseline reads it, without an error of a tool."""
    episode = begin_episode(instance.blueprint, instance.limits_for("agentic"))
    trajectory = asyncio.run(play(episode, BASELINES["keywords"](), ScriptedUser()))
    errors = any("error" in json.loads(one["content"]) for one in trajectory.messages if one["role"] == "tool")
    return set(instance.task.evidence) <= episode.world.state.seen and not errors


def test_keywords_reads_all_evidence_of_any_task(instances):
    assert not [instance.id for instance in instances if not reads_all_evidence(instance)]


def test_keywords_reads_all_evidence_of_scenes(scenes):
    assert scenes and not [instance.id for instance in scenes if not reads_all_evidence(instance)]


def test_keywords_finds_what_one_row_says(instances):
    """A question about one row, in its words, is all that it can answer."""
    told = "Dana sold the canoe."
    household = instances[0].blueprint.household
    memory = household.memories[0].model_copy(update={"memory": told})
    task = next(one.task for one in instances if one.task.kind == "choice").model_copy(
        update={"question": "What did Dana sell, the canoe or what?", "choices": ("lamp", "sofa", "canoe", "tent", "boat")}
    )
    blueprint = instances[0].blueprint.model_copy(
        update={"household": household.model_copy(update={"memories": (memory, *household.memories[1:])}), "task": task}
    )
    answer = asyncio.run(
        play(begin_episode(blueprint, instances[0].limits_for("agentic")), BASELINES["keywords"](), ScriptedUser())
    )
    assert json.loads(answer.messages[-1]["content"]) == {"answer": "C"}


def test_a_guess_is_each_letter(instances):
    guesses = set()
    for number in range(60):
        choice = next(one for one in instances if one.task.kind == "choice").blueprint.model_copy(update={"id": str(number)})
        episode = begin_episode(choice, instances[0].limits_for("agentic"))
        said = asyncio.run(play(episode, BASELINES["random"](), ScriptedUser())).messages[-1]["content"]
        guesses.add(json.loads(said)["answer"])
    assert guesses == set(LETTERS)
