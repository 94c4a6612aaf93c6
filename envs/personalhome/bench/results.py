"""What the results of PersonalHomeBench hold of an episode: metrics of the task, error types, and cases for a judge.

Invariants: everything is a pure function of a trajectory; metrics of a task that was not answered are those of no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.sim.state import HouseholdState
from homerl.envs.personalhome.tasks.answers import (
    FORMAT_ERROR,
    decide_by_rules,
    parse_counterfactual_answers,
    parse_final_answer,
    parse_ranking,
)
from homerl.envs.personalhome.tasks.blueprint import Choice, Features, Grounding, PersonalHomeBlueprint, Plans
from homerl.envs.personalhome.tasks.metrics import CUTS, average_precision, call_class, count_error_types, rank_deviation
from homerl.envs.personalhome.tasks.plan_rules import judge_plan, static_validity
from homerl.envs.personalhome.tasks.plans import parse_plan
from homerl.envs.personalhome.tasks.verdicts import answer_to_part, are_parts_right, is_choice_right
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import EpisodeFailure, JudgeCase

DIMENSIONS = {
    "FORMAT": "the answer has no readable form, or there is none (UPSTREAM_FORMAT_ERROR, EMPTY_OUTPUT)",
    "TOOLS": "calls were refused (EXECUTION_ERROR, MISSING_ARGUMENTS, UNEXPECTED_ARGUMENTS, INVALID_TOOL_NAME)",
    "READING": "the answer is wrong, and not all that it rests on was read, or far too much",
    "REASONING": "the answer is wrong, although all that it rests on was read",
}
RUBRIC = (
    "You compare an answer with the right one. They are equal if they mean the same; case, articles, punctuation, spelling "
    "of numbers and added explanation do not matter. A part of the right answer is not equal to it."
)


def blueprint_of_trajectory(trajectory: Trajectory) -> PersonalHomeBlueprint:
    """The blueprint of a trajectory."""
    return PersonalHomeBlueprint.model_validate(trajectory.blueprint)


def final_words(trajectory: Trajectory) -> str:
    """The agent's answer; empty if it gave none."""
    for step in reversed(trajectory.steps):
        if "answer" in step.facts.changed:
            return step.message.get("content") or ""
    return ""


def extra_results(trajectory: Trajectory) -> dict[str, Any]:
    """Metrics of the task by name, `errors` by type, and the class of the number of calls."""
    blueprint, text = blueprint_of_trajectory(trajectory), final_words(trajectory)
    rules = [rule for step in trajectory.steps for rule in step.facts.blocked]
    return {
        **answer_metrics(blueprint, text),
        "personal": getattr(blueprint.task, "personal", None),
        "errors": count_error_types(rules, [_form(blueprint, text)]),
        "calls": call_class(trajectory.tool_calls),
    }


def _form(blueprint: PersonalHomeBlueprint, text: str) -> str | None:
    """The error of the answer's form, if it has one."""
    task = blueprint.task
    if isinstance(task, Grounding):
        return parse_counterfactual_answers(text).error if len(task.parts) > 1 else parse_final_answer(text).error
    if isinstance(task, Choice):
        return parse_final_answer(text).error
    return (parse_ranking if isinstance(task, Features) else parse_plan)(text).error


def answer_metrics(blueprint: PersonalHomeBlueprint, text: str) -> dict[str, Any]:
    """The metrics of a task for an answer, by name."""
    task = blueprint.task
    if isinstance(task, Grounding):
        right = are_parts_right(task, text)
        return {
            "right": {part.key: ok for part, ok in zip(task.parts, right, strict=True)},
            "changed": {part.key: part.changed for part in task.parts if part.changed is not None},
        }
    if isinstance(task, Choice):
        return {"right": {"original": is_choice_right(task, text)}}
    if isinstance(task, Features):
        ranking = parse_ranking(text).value or ()
        return {
            "average_precision": [average_precision(ranking, task.ranking[:3], k) for k in CUTS],
            "rank_deviation": rank_deviation(ranking, task.ranking[:3]),
        }
    return _of_plan(blueprint, task, text)


def _of_plan(blueprint: PersonalHomeBlueprint, task: Plans, text: str) -> dict[str, Any]:
    programs = parse_plan(text).value or ()
    verdict = judge_plan(blueprint.household, task.situations, programs)
    start = HouseholdState(blueprint.household)
    static = [ok for program in programs for ok in static_validity(start, program["steps"])]
    rules = ("kept", "ordered", "compatible", "reasoned", "sized")
    return {
        "validity": sum(static) / len(static) if static else 0.0,
        "executed": sum(verdict.runs) / len(verdict.runs) if verdict.runs else 0.0,
        "settled": dict(verdict.settled),
        "rules": {name: getattr(verdict, name) for name in rules},
    }


def personalhome_failure(trajectory: Trajectory) -> EpisodeFailure | None:
    """Why an episode failed: the form of its answer, refused calls, what was not read, or the reasoning."""
    if trajectory.success or not trajectory.outcome.is_counted:
        return None
    blueprint, text = blueprint_of_trajectory(trajectory), final_words(trajectory)
    if (form := _form(blueprint, text)) and (form != FORMAT_ERROR or not text):
        return EpisodeFailure("FORMAT", form)
    errors = count_error_types([rule for step in trajectory.steps for rule in step.facts.blocked], [])
    if any(errors.values()) and not text:
        return EpisodeFailure("TOOLS", max(errors, key=lambda name: errors[name]))
    read = _evidence_read(trajectory, blueprint)
    return (
        EpisodeFailure("REASONING", "a wrong answer")
        if read
        else EpisodeFailure("READING", "evidence not read, or not sparingly")
    )


def _evidence_read(trajectory: Trajectory, blueprint: PersonalHomeBlueprint) -> bool:
    """Whether all evidence was shown at some time: the goals of the evidence are the first ones."""
    if blueprint.setting == "sole":
        return True
    met = {goal for step in trajectory.steps for goal in step.facts.met}
    return met >= set(range(len(blueprint.task.evidence)))


def grounding_cases(trajectory: Trajectory) -> list[JudgeCase]:
    """A case for each part of a grounding task. `step` is the last one, and `intent` the number of the part."""
    blueprint, text = blueprint_of_trajectory(trajectory), final_words(trajectory)
    task = blueprint.task
    if not isinstance(task, Grounding) or not text:
        return []
    return [
        JudgeCase(
            len(trajectory.steps) - 1,
            number,
            "meaning",
            f"{task.question} {part.condition}".strip(),
            " / ".join(part.variants),
            str(said),
            decide_by_rules(said, part.variants),
            RUBRIC,
        )
        for number, part in enumerate(task.parts)
        if (said := answer_to_part(task, part.key, text)) is not None
    ]


def is_grounding_right(trajectory: Trajectory, right: Mapping[int, int]) -> bool:
    """Whether every part is right, by rule or by the judge."""
    task = blueprint_of_trajectory(trajectory).task
    if not isinstance(task, Grounding):
        return trajectory.success
    by_rule = are_parts_right(task, final_words(trajectory))
    return all(ok or number in right for number, ok in enumerate(by_rule))
