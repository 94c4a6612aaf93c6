"""The suite with videos: it can be built again, its tasks are right, and its expert looks at what they rest on."""

import asyncio
import json
import random
from collections import Counter
from functools import lru_cache

import pytest
from forked import python

from homerl.bench.suites import instance_to_line
from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.suite import (
    QUESTIONS,
    RECIPE,
    SCENE_HOUSEHOLDS,
    build_scene_instances,
    draw_question_tasks,
    make_filmed_household,
    question_difficulties,
)
from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.scene_scripts import DOMAINS, situation_domain
from homerl.envs.personalhome.sim.tools.scene_tools import readable_ids
from homerl.envs.personalhome.tasks.author import (
    make_features_task,
    make_personalhome_blueprint,
    make_plans_task,
    scene_signs,
    task_to_blueprint,
)
from homerl.envs.personalhome.tasks.blueprint import KINDS, PersonalHomeRecipe
from homerl.envs.personalhome.tasks.expert import BASELINES, evidence_calls, scene_reads
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation, personalhome_system_prompt
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.worlds.users import ScriptedUser

BUILD = """
from collections import Counter
from homerl.bench.suites import instance_to_line
from homerl.envs.personalhome.bench.suite import build_scene_instances
instances = build_scene_instances(5, "en", Counter(), 3)
print("".join(map(instance_to_line, instances)), end="")
"""
DOMAIN = tuple(DOMAINS)


@lru_cache
def built():
    """The instances of three households."""
    return tuple(build_scene_instances(5, "en", Counter(), 3))


@lru_cache
def blueprints(language):
    """A task of each of 20 households, the kinds in turn; a household without it is left out, and the next is taken."""
    found, seed = [], 0
    while len(found) < 20:
        household = make_filmed_household(seed, language, DOMAIN[seed % 3])
        task = household and task_of(KINDS[len(found) % 4], household, seed)
        if task is not None:
            found.append(task_to_blueprint(household, task, f"h{seed}", seed, "heldout", RECIPE))
        seed += 1
    return found


def task_of(kind, household, seed):
    """A task of a kind, if the household has one."""
    rng = random.Random(seed)
    if kind in ("features", "plans"):
        return make_features_task(household, rng) if kind == "features" else make_plans_task(household)
    tasks = draw_question_tasks(kind, [("simple", "medium", "hard")[seed % 3]], household, rng)
    return tasks[0] if tasks else None


def played(blueprint, name):
    """The trajectory of a baseline on a blueprint."""
    episode = Episode.from_situation(PersonalHomeSituation.begin(blueprint), EpisodeLimits(1, 16, 16))
    return asyncio.run(play(episode, BASELINES[name](), ScriptedUser()))


@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.long)])
def test_the_expert_sees_all_evidence_and_is_right_and_lazy_agents_are_not(language):
    for blueprint in blueprints(language):
        trajectory = played(blueprint, "expert")
        assert trajectory.success, (blueprint.id, trajectory.outcome)
        shown = {id for step in trajectory.steps for id in step.facts.changed}
        assert {f"seen.{id}" for id in blueprint.task.evidence} <= shown, blueprint.id
        assert not any(step.facts.blocked for step in trajectory.steps)
        assert not played(blueprint, "nothing").success
        if blueprint.task.kind in ("grounding", "choice"):
            assert not played(blueprint, "unknown").success


@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.long)])
def test_evidence_of_scenes_can_be_shown_and_proactive_tasks_begin_with_the_summary(language):
    for blueprint in blueprints(language):
        scene = {id for id in blueprint.task.evidence if id.startswith("scene:")}
        assert scene and scene <= readable_ids(blueprint.household.transcript)
        if blueprint.task.kind in ("features", "plans"):
            assert evidence_calls(blueprint)[0] == ("get_scene_summary", {})
            assert {*scene_signs(blueprint.household)} == scene


def test_the_expert_takes_one_call_where_one_is_enough():
    blueprint = blueprints("en")[0]
    state, transcript = HouseholdState(blueprint.household), blueprint.household.transcript
    look = next(fact for fact in transcript.facts if fact.attribute == "hair")
    assert scene_reads(state, "Which hair?", [f"scene:{look.id}"]) == [
        ("get_members_appearance", {"member_ids": [look.actor]})
    ]
    acts = [f"scene:{fact.id}.time" for fact in transcript.facts if fact.action]
    assert scene_reads(state, "", acts) == [("extract_captions", {})]
    with pytest.raises(ValueError, match="no scene tool shows scene:f0"):
        scene_reads(state, "", ["scene:f0"])


@pytest.mark.long
def test_three_households_give_the_same_bytes_in_another_process():
    lines = "".join(map(instance_to_line, built()))
    assert python(BUILD).stdout == lines


def test_each_domain_has_a_household_whose_video_is_of_it():
    assert [one.domain for one in built() if one.task.kind == "plans"] == [*DOMAIN]
    for one in built():
        assert situation_domain(one.remake_household().transcript.situation) == one.domain


def test_an_instance_makes_its_household_again_and_refuses_another():
    one = built()[0]
    assert one.blueprint.household == make_filmed_household(one.household, "en", one.domain)
    with pytest.raises(InputError, match="homerl bench build personalhome-scenes"):
        _ = one.model_copy(update={"digest": "0" * 16}).blueprint


def test_ids_and_questions_of_a_household_differ():
    assert len({one.id for one in built()}) == len(built())
    for kind in ("grounding", "choice"):
        asked = Counter((one.household, one.task.question) for one in built() if one.task.kind == kind)
        assert set(asked.values()) == {1}


def test_all_households_together_ask_as_much_as_the_paper_and_of_each_difficulty_alike():
    levels = Counter(level for number in range(SCENE_HOUSEHOLDS) for level in question_difficulties(number))
    assert levels.total() == QUESTIONS
    assert max(levels.values()) - min(levels.values()) <= 2


def test_a_grounding_task_has_an_assumption_that_changes_the_answer_and_one_that_does_not():
    for one in built():
        if one.task.kind == "grounding":
            assert {part.changed for part in one.task.parts[1:]} == {True, False}


def test_who_is_told_everything_is_told_the_video_but_not_what_it_is_of():
    one = next(one for one in built() if one.task.kind == "plans")
    prompt = personalhome_system_prompt(one.blueprint_for("sole"))
    transcript = one.remake_household().transcript
    assert json.dumps(transcript.video_description.scene.summary, ensure_ascii=False) in prompt
    assert transcript.datapoint_id not in prompt and transcript.inferred[0].text not in prompt


def test_training_households_have_videos_where_the_recipe_wants_them():
    recipe = PersonalHomeRecipe(world="personalhome", scenes=True, tasks={"plans": 1.0})
    blueprint = make_personalhome_blueprint(recipe, "train", 3)
    assert blueprint.household.transcript is not None
    assert {*scene_signs(blueprint.household)} <= {*blueprint.task.evidence}
    assert make_personalhome_blueprint(recipe, "train", 3) == blueprint
    state = HouseholdState(blueprint.household)
    for name, arguments in evidence_calls(blueprint):
        call_household_tool(state, name, arguments)
    assert state.seen >= {*blueprint.task.evidence}
    plain = make_personalhome_blueprint(recipe.model_copy(update={"scenes": False}), "train", 3)
    assert plain.household.transcript is None
