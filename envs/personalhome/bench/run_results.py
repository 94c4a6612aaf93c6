"""What the results of PersonalHomeBench hold of an episode, and the figures of a run (Appendix F.2).

An episode has metrics of its task, error types, and cases for a judge. A figure has a number of cases, a mean and a 95 %
interval. `RunResults` reads the folder that `homerl bench run` wrote, as far as this world's figures need it; it writes
nothing, and reads trajectories one at a time.

Invariants:
- What is said of an episode is a pure function of its trajectory, and a figure one of results.
- A task that was not answered has the metrics of an empty answer.
- Only episodes that say something about the agent count. A figure of no cases is left out, never 0.
- Shares have Wilson's intervals, differences have Newcombe's, and all other means have those of a seeded bootstrap over
  episodes, so that equal results give equal digits. Every interval has a width, also where all episodes ended alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.tasks import answer_parser as answers
from homerl.envs.personalhome.tasks import benchmark_metrics as metrics
from homerl.envs.personalhome.tasks.blueprint import CATEGORIES, LEVELS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import judge_plan, static_validity
from homerl.envs.personalhome.tasks.situation import answer_to_part, are_parts_right, is_choice_right
from homerl.play import bench_results as results
from homerl.play.confidence_intervals import SHARES, difference_interval, mean_interval, share_interval
from homerl.play.trajectory import Outcome, Trajectory, read_trajectories
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


Row = Mapping[str, Any]
QUESTIONS = ("IG ACC", "CF ACC", "MC ACC")  # figures that difficulty and naming divide


@dataclass(frozen=True)
class ScoreFigure:
    """The mean of `n` cases, and its 95 % interval."""

    n: int
    mean: float
    low: float
    high: float


Figures = dict[str, ScoreFigure]


@dataclass(frozen=True)
class RunScores:
    """All figures of a run.

    `tasks` has the figures of each task by name, `levels` those of questions by difficulty, and `naming` those of questions
    with names (`personal`), with ids (`generic`), and their `difference`. `errors` and `calls` have numbers of errors and
    of episodes by task.
    """

    episodes: Mapping[str, int]
    left_out: int
    tasks: Figures
    levels: Mapping[str, Figures]
    naming: Mapping[str, Figures]
    errors: Mapping[str, Mapping[str, int]]
    calls: Mapping[str, Mapping[str, int]]


def compute_run_scores(rows: Iterable[Row]) -> RunScores:
    """The scores of a run's results (`results.jsonl`)."""
    rows = list(rows)
    counted = [row for row in rows if Outcome(row["outcome"]).is_counted]
    parts = {task: part for task in CATEGORIES.values() if (part := select_task_rows(counted, task))}
    levels = {level: question_figures([row for row in counted if row["difficulty"] == level]) for level in LEVELS}
    errors, calls = {}, {}
    for task, part in parts.items():
        errors[task] = {name: sum(row["errors"][name] for row in part) for name in metrics.ERRORS}
        calls[task] = {name: sum(row["calls"] == name for row in part) for name in metrics.CALL_CLASSES}
    return RunScores(
        episodes={task: len(part) for task, part in parts.items()},
        left_out=len(rows) - len(counted),
        tasks=question_figures(counted) | ranking_figures(parts.get("FR", ())) | plan_figures(parts.get("PG", ())),
        levels={level: figures for level, figures in levels.items() if figures},
        naming=_compare_naming(counted),
        errors=errors,
        calls=calls,
    )


def select_task_rows(rows: Sequence[Row], task: str) -> list[Row]:
    """The results of a task: IG, MC, FR or PG."""
    return [row for row in rows if row["category"] == task]


def drop_missing_figures(**named: ScoreFigure | None) -> Figures:
    """The figures that there are."""
    return {name: figure for name, figure in named.items() if figure is not None}


def share_figure(cases: Iterable[float]) -> ScoreFigure | None:
    """The share of cases that hold (1, otherwise 0); None for no cases."""
    return _figure_of_values(map(float, cases), share_interval)


def mean_figure(values: Iterable[float], ends: tuple[float, float] = SHARES) -> ScoreFigure | None:
    """The mean of values between `ends`; None for no values."""
    return _figure_of_values(values, partial(mean_interval, ends=ends))


def _figure_of_values(values: Iterable[float], interval: Callable[[np.ndarray], tuple[float, float]]) -> ScoreFigure | None:
    array = np.array(list(values), dtype=float)
    if not array.size:
        return None
    mean, (low, high) = float(array.mean()), interval(array)
    return ScoreFigure(array.size, mean, min(low, mean), max(high, mean))  # a mean of equal values may round past its end


def difference_figure(ours: ScoreFigure | None, theirs: ScoreFigure | None) -> ScoreFigure | None:
    """A mean less another one, of other episodes; None without either."""
    if ours is None or theirs is None:
        return None
    low, high = difference_interval((ours.mean, ours.low, ours.high), (theirs.mean, theirs.low, theirs.high))
    return ScoreFigure(ours.n + theirs.n, ours.mean - theirs.mean, low, high)


# Questions


def question_figures(rows: Sequence[Row]) -> Figures:
    """The accuracies of IG (its original question), CF (macro, and where the answer changes or not) and MC (eq. 3-6)."""
    asked = accuracy_cases(rows)
    counterfactuals = [
        (row["right"][key], moved) for row in select_task_rows(rows, "IG") for key, moved in row["changed"].items()
    ]
    figures = {
        "IG ACC": share_figure(asked["IG ACC"]),
        "CF ACC": mean_figure(asked["CF ACC"]),
        "CF ACC changed": share_figure(right for right, moved in counterfactuals if moved),
        "CF ACC unchanged": share_figure(right for right, moved in counterfactuals if not moved),
        "MC ACC": share_figure(asked["MC ACC"]),
    }
    return drop_missing_figures(**figures)


def accuracy_cases(rows: Sequence[Row]) -> dict[str, list[float]]:
    """For each accuracy its cases, one for each episode: 0 or 1, and for CF the accuracy of its counterfactuals.

    An episode has one counterfactual that changes the answer and one that does not, so the mean is that of eq. 4.
    """
    grounding = select_task_rows(rows, "IG")
    both = ([row["right"][key] for key in row["changed"]] for row in grounding)
    return {
        "IG ACC": [float(row["right"]["original"]) for row in grounding],
        "CF ACC": [fmean(right) for right in both if right],
        "MC ACC": [float(row["right"]["original"]) for row in select_task_rows(rows, "MC")],
    }


def _compare_naming(rows: Sequence[Row]) -> dict[str, Figures]:
    """The accuracies with names and with ids, and what names gain; only of what was asked in both ways."""
    named, generic = ([row for row in rows if row["personal"] is way] for way in (True, False))
    found, theirs = {}, accuracy_cases(generic)
    for name, ours in accuracy_cases(named).items():
        figure = mean_figure if name == "CF ACC" else share_figure
        one, other = figure(ours), figure(theirs[name])
        if (gain := difference_figure(one, other)) is not None:
            found[name] = drop_missing_figures(personal=one, generic=other, difference=gain)
    return found


# Proactive tasks


def ranking_figures(rows: Sequence[Row]) -> Figures:
    """MAP@k (eq. 9) and RRS (eq. 13)."""
    found = {f"MAP@{k}": mean_figure(row["average_precision"][at] for row in rows) for at, k in enumerate(metrics.CUTS)}
    sums = mean_figure((row["rank_deviation"] for row in rows), (0.0, metrics.WORST_RANK_SUM))
    return drop_missing_figures(**found, RRS=sums)


def plan_figures(rows: Sequence[Row]) -> Figures:
    """Validity (eq. 11) static and executed, the share of situations that are settled, and of plans that keep each rule.

    A plan that settles nothing keeps no rule, as in `plan_rules.PlanVerdict.goals_met`.
    """
    useful = [(any(row["settled"].values()), row["rules"]) for row in rows]
    kept = {rule: share_figure(some and rules[rule] for some, rules in useful) for rule in metrics.RULES}
    return drop_missing_figures(
        validity=mean_figure(row["validity"] for row in rows),
        executed=mean_figure(row["executed"] for row in rows),
        settled=mean_figure(sum(row["settled"].values()) / len(row["settled"]) for row in rows),
        **kept,
    )
