"""What the results of PersonalHomeBench hold of an episode: metrics of the task, error types, and cases for a judge.

Beside it stands what reads the folder that `homerl bench run` wrote, as far as this world's figures need it. It writes
nothing, and reads trajectories one at a time.

Invariants: what is said of an episode is a pure function of its trajectory; a task that was not answered has the metrics of
an empty answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.tasks import answer_parser as answers
from homerl.envs.personalhome.tasks import benchmark_metrics as metrics
from homerl.envs.personalhome.tasks.blueprint import Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import judge_plan, static_validity
from homerl.envs.personalhome.tasks.situation import answer_to_part, are_parts_right, is_choice_right
from homerl.play import bench_results as results
from homerl.play.trajectory import Trajectory, read_trajectories
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
        "errors": metrics.count_error_types(rules, [_format_error(blueprint, text)]),
        "calls": metrics.call_class(trajectory.tool_calls),
    }


def _format_error(blueprint: PersonalHomeBlueprint, text: str) -> str | None:
    """The error of the answer's form, if it has one."""
    task = blueprint.task
    if isinstance(task, Grounding) and len(task.parts) > 1:
        return answers.parse_counterfactual_answers(text).error
    if isinstance(task, Grounding | Choice):
        return answers.parse_final_answer(text).error
    return (answers.parse_ranking if isinstance(task, Features) else answers.parse_plan)(text).error


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
        ranking = answers.parse_ranking(text).value or ()
        return {
            "average_precision": [metrics.average_precision(ranking, task.ranking[:3], k) for k in metrics.CUTS],
            "rank_deviation": metrics.rank_deviation(ranking, task.ranking[:3]),
        }
    programs = answers.parse_plan(text).value or ()
    verdict = judge_plan(blueprint.household, task.situations, programs)
    start = HouseholdState(blueprint.household)
    static = [ok for program in programs for ok in static_validity(start, program["steps"])]
    return {
        "validity": sum(static) / len(static) if static else 0.0,
        "executed": sum(verdict.runs) / len(verdict.runs) if verdict.runs else 0.0,
        "settled": dict(verdict.settled),
        "rules": {name: getattr(verdict, name) for name in metrics.RULES},
    }


def personalhome_failure(trajectory: Trajectory) -> EpisodeFailure | None:
    """Why an episode failed: the form of its answer, refused calls, what was not read, or the reasoning."""
    if trajectory.success or not trajectory.outcome.is_counted:
        return None
    blueprint, text = blueprint_of_trajectory(trajectory), final_words(trajectory)
    if (error := _format_error(blueprint, text)) and (error != answers.FORMAT_ERROR or not text):
        return EpisodeFailure("FORMAT", error)
    # An agent that answers in spite of refused calls failed by its answer.
    errors = metrics.count_error_types([rule for step in trajectory.steps for rule in step.facts.blocked], [])
    if any(errors.values()) and not text:
        return EpisodeFailure("TOOLS", max(errors, key=lambda name: errors[name]))
    # The goals of the evidence are the first ones. Each must have been met at some time.
    met = {goal for step in trajectory.steps for goal in step.facts.met}
    if blueprint.setting == "sole" or met >= set(range(len(blueprint.task.evidence))):
        return EpisodeFailure("REASONING", "a wrong answer")
    return EpisodeFailure("READING", "evidence not read, or not sparingly")


def grounding_cases(trajectory: Trajectory) -> list[JudgeCase]:
    """A case for each part of a grounding task. `step` is the last one, and `intent` the number of the part."""
    blueprint, text = blueprint_of_trajectory(trajectory), final_words(trajectory)
    task = blueprint.task
    if not isinstance(task, Grounding) or not text:
        return []
    cases, last = [], len(trajectory.steps) - 1
    for number, part in enumerate(task.parts):
        if (said := answer_to_part(task, part.key, text)) is not None:
            asked, wanted = f"{task.question} {part.condition}".strip(), " / ".join(part.variants)
            rule = answers.decide_by_rules(said, part.variants)
            cases.append(JudgeCase(last, number, "meaning", asked, wanted, str(said), rule, RUBRIC))
    return cases


def is_grounding_right(trajectory: Trajectory, right: Mapping[int, int]) -> bool:
    """Whether every part is right, by rule or by the judge."""
    task = blueprint_of_trajectory(trajectory).task
    if not isinstance(task, Grounding):
        return trajectory.success
    by_rule = are_parts_right(task, final_words(trajectory))
    return all(ok or number in right for number, ok in enumerate(by_rule))


Key = tuple[str, int]  # the id of an instance, and the number of the run


@dataclass(frozen=True)
class PlayedTask:
    """A played task: its blueprint, and the agent's last words."""

    key: Key
    blueprint: PersonalHomeBlueprint
    text: str
    trajectory: Trajectory

    @property
    def about(self) -> dict[str, Any]:
        """What is stored beside an answer about the task."""
        return {"id": self.key[0], "run": self.key[1]}


@dataclass(frozen=True)
class RunResults:
    """A run's folder. `name` tells it from the others beside it."""

    folder: Path
    rows: tuple[Mapping[str, Any], ...]
    name: str

    def played_tasks(self, kinds: Sequence[str]) -> Iterator[PlayedTask]:
        """The tasks of some kinds, such as `plans`, whose outcomes say something about the agent."""
        path = self.folder / "trajectories.jsonl"
        for row, trajectory in zip(self.rows, read_trajectories(path), strict=True):
            if row["families"][0] in kinds and trajectory.outcome.is_counted:
                yield PlayedTask(result_key(row), blueprint_of_trajectory(trajectory), final_words(trajectory), trajectory)


def result_key(row: Mapping[str, Any]) -> Key:
    """What tells a result from the others of its run."""
    return row["id"], row.get("run", 0)


def read_named_results(folders: Sequence[Path]) -> list[RunResults]:
    """The results in some folders, under names that differ: model, setting, and the folder where these are equal.

    Raises `InputError` for a folder that has no results of this world.
    """
    found = []
    for folder in folders:
        run, rows = results.read_run_facts(folder, "run.json"), results.read_bench_results(folder)
        if not all({"category", "calls", "errors"} <= set(row) for row in rows):
            raise InputError("these are results of another world", str(folder), "name runs of personalhome-bench")
        found.append(RunResults(folder, rows, f"{run.get('served') or run['model']}, {run['setting']}"))
    names = [result.name for result in found]
    found = [replace(one, name=f"{one.name}, {one.folder}") if names.count(one.name) > 1 else one for one in found]
    if len({one.name for one in found}) < len(found):
        raise InputError("one folder is named twice", str(folders[0]), "name each folder once")
    return found
