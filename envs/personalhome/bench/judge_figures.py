"""What judges are asked about the results of runs, and the figures of their stored verdicts.

The role-playing judge rates plans (abs mode), and orders those of several runs of one suite (rel mode). Answers to IG and CF
that no rule decides go to the judge of meaning.

Invariants: figures come from stored verdicts alone; a question without a verdict is counted as missing; a plan of no program
is not asked about in abs mode, and has the lowest score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.episode_results import Key, PlayedTask, RunResults, result_key
from homerl.envs.personalhome.bench.score_figures import (
    Figures,
    ScoreFigure,
    drop_missing_figures,
    mean_figure,
    question_figures,
    share_figure,
)
from homerl.envs.personalhome.bench.suite import household_digest
from homerl.envs.personalhome.judge.answer_judge import KEYS, decide_answers, equivalence_question
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore
from homerl.envs.personalhome.judge.judge_prompts import HOME
from homerl.envs.personalhome.judge.plan_judge import (
    absolute_question,
    overall_scores,
    persona_scores,
    read_plan_ranking,
    relative_questions,
)
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks.answer_parser import parse_plan
from homerl.envs.personalhome.tasks.benchmark_metrics import HIGHEST_SCORE, LOWEST_SCORE, kept_order_share, mean_value
from homerl.envs.personalhome.tasks.blueprint import Grounding
from homerl.envs.personalhome.tasks.task_goals import answer_to_part
from homerl.models.endpoint.endpoint import derive_seed

FILE = "verdicts.jsonl"  # beside the results
Programs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunRatings:
    """What the judge `by` said of a run. `missing` questions have no verdict, and of `unsure` answers it could not tell."""

    by: str
    figures: Figures
    missing: int
    unsure: int


@dataclass(frozen=True)
class RunOrderComparison:
    """The orders of plans of several runs: win rates by run, how often the best changed with the letters, and how much of
    an order was the same both times. `missing` questions have no verdict."""

    wins: Mapping[str, ScoreFigure]
    disagrees: ScoreFigure | None
    kept: ScoreFigure | None
    missing: int


def merge_verdicts(runs: Sequence[RunResults]) -> VerdictStore:
    """The verdicts beside all runs. What is added goes to the first."""
    first, *others = (VerdictStore(run.folder / FILE) for run in runs)
    for other in others:
        first.rows.update({key: row for key, row in other.rows.items() if "verdict" not in first.rows.get(key, {})})
    return first


def choose_judge(verdicts: VerdictStore, asked: str | None = None) -> str | None:
    """The judge whose verdicts are meant: the one asked for, or the only one; None if there are no verdicts.

    Raises `InputError` if there are several, or another than was asked for.
    """
    known: list[str] = sorted({row["by"] for row in verdicts.rows.values()})
    if asked in known or not known:
        return asked if known else None
    if asked is not None or len(known) > 1:
        what = f"the judge '{asked}' has given no verdict" if asked else "several judges have given verdicts"
        raise InputError(what, str(verdicts.path), f"name one with --judge-model: {', '.join(known)}")
    return known[0]


# One run


def plan_programs(played: PlayedTask) -> Programs:
    """The programs of a plan; none if it cannot be read."""
    return parse_plan(played.text).value or ()


def plan_rating_question(played: PlayedTask, programs: Programs) -> JudgeQuestion | None:
    """The question that rates a plan for the household of a task; None for a plan of no program."""
    if not programs:
        return None
    household = household_shown(played.blueprint.household)
    return absolute_question(household, household["context"], programs, played.blueprint.language, _about(played))


def answer_meaning_question(played: PlayedTask) -> JudgeQuestion | None:
    """The question about the answers to a grounding task that no rule decides; None if rules decide them all."""
    asked, said, variants = _answers(played)
    return equivalence_question(asked, said, variants, played.blueprint.language, _about(played))


def _answers(played: PlayedTask) -> tuple[dict[str, str], dict[str, Any], dict[str, tuple[str, ...]]]:
    """What was asked, what was answered and the right answers, by the judge's keys."""
    task = played.blueprint.task
    assert isinstance(task, Grounding)
    parts = dict(zip(KEYS, task.parts))
    return (
        {key: f"{task.question} {part.condition}".strip() for key, part in parts.items()},
        {key: answer_to_part(task, part.key, played.text) for key, part in parts.items()},
        {key: part.variants for key, part in parts.items()},
    )


def _about(played: PlayedTask) -> dict[str, Any]:
    return {"id": played.key[0], "run": played.key[1]}


def judge_questions_of_run(run: RunResults) -> Iterator[JudgeQuestion]:
    """All that the judges are asked about one run."""
    for played in run.played_tasks(("grounding", "plans")):
        asked = (
            answer_meaning_question(played)
            if isinstance(played.blueprint.task, Grounding)
            else plan_rating_question(played, plan_programs(played))
        )
        if asked is not None:
            yield asked


def compute_run_ratings(run: RunResults, verdicts: VerdictStore, by: str) -> RunRatings:
    """The mean scores of plans in abs mode, and the accuracies with the judge of meaning (eq. 3)."""
    rows, unsure, meant_missing = _with_meaning(run, verdicts, by)
    rated, missing = collect_plan_verdicts(run, verdicts, by)
    of_questions = {name: figure for name, figure in question_figures(rows).items() if not name.startswith("MC")}
    return RunRatings(by, {**of_questions, **rating_figures(rated)}, missing + meant_missing, unsure)


def collect_plan_verdicts(run: RunResults, verdicts: VerdictStore, by: str) -> tuple[dict[Key, Mapping[str, Any]], int]:
    """The verdict on each rated plan, empty for a plan of no program; and how many plans have none."""
    found: dict[Key, Mapping[str, Any]] = {}
    missing = 0
    for played in run.played_tasks(("plans",)):
        asked = plan_rating_question(played, plan_programs(played))
        verdict = {} if asked is None else verdicts.stored_verdict(asked, by)
        if verdict is None:
            missing += 1
        else:
            found[played.key] = verdict
    return found, missing


def rating_figures(rated: Mapping[Key, Mapping[str, Any]]) -> Figures:
    """The mean scores overall, of members and of the home: over programs, then over plans (eq. 14)."""
    whole, people, home = [], [], []
    for verdict in rated.values():
        by_part = persona_scores(verdict)
        whole.append(mean_value(overall_scores(verdict) or (LOWEST_SCORE,)))
        people.append(
            mean_value([mean_value(scores) for part, scores in by_part.items() if part != HOME] or (LOWEST_SCORE,))
        )
        home.append(mean_value(by_part.get(HOME, (LOWEST_SCORE,))))
    scores = {"RPJ abs": whole, "RPJ members": people, "RPJ home": home}
    return drop_missing_figures(
        **{name: mean_figure(values, (LOWEST_SCORE, HIGHEST_SCORE)) for name, values in scores.items()}
    )


def _with_meaning(run: RunResults, verdicts: VerdictStore, by: str) -> tuple[list[dict[str, Any]], int, int]:
    """The results of IG with the judge's verdicts in them, and the numbers of unsure and of missing ones."""
    rows = {result_key(row): dict(row) for row in run.rows}
    found, unsure, missing = [], 0, 0
    for played in run.played_tasks(("grounding",)):
        asked, (_, said, variants) = answer_meaning_question(played), _answers(played)
        verdict = None if asked is None else verdicts.stored_verdict(asked, by)
        decision = decide_answers(said, variants, verdict)
        keys = (part.key for part in played.blueprint.task.parts)  # type: ignore[union-attr]
        found.append(rows[played.key] | {"right": dict(zip(keys, decision.correct.values(), strict=True))})
        unsure, missing = unsure + len(decision.unsure), missing + bool(decision.open)
    return found, unsure, missing


# Several runs


def plan_ordering_questions(
    runs: Sequence[RunResults],
) -> Iterator[tuple[tuple[str, ...], int, tuple[JudgeQuestion, JudgeQuestion]]]:
    """(names of the runs, seed of the letters, both questions) for each plan task that all runs have played.

    Raises `InputError` if the runs have other households under one id.
    """
    others = [
        {one.key: (household_digest(one.blueprint.household), plan_programs(one)) for one in run.played_tasks(("plans",))}
        for run in runs[1:]
    ]
    names = tuple(run.name for run in runs)
    for played in runs[0].played_tasks(("plans",)):
        if not all(played.key in plans for plans in others):
            continue
        digests, theirs = zip(*(plans[played.key] for plans in others), strict=True)
        if set(digests) != {household_digest(played.blueprint.household)}:
            raise InputError("the runs have other households", played.key[0], "compare runs of one file of instances")
        household, seed = household_shown(played.blueprint.household), derive_seed(*played.key)
        plans = dict(zip(names, (plan_programs(played), *theirs), strict=True))
        yield (
            names,
            seed,
            relative_questions(household, household["context"], plans, seed, played.blueprint.language, _about(played)),
        )


def compare_ranked_runs(runs: Sequence[RunResults], verdicts: VerdictStore, by: str) -> RunOrderComparison:
    """Win rates of runs in rel mode, from the stored orders."""
    firsts: dict[str, list[float]] = {run.name: [] for run in runs}
    disagrees, kept, missing = [], [], 0
    for names, seed, asked in plan_ordering_questions(runs):
        given = [verdicts.stored_verdict(question, by) for question in asked]
        if None in given:
            missing += 1
            continue
        order = read_plan_ranking([verdict for verdict in given if verdict is not None], names, seed)
        for name in names:
            firsts[name].append(mean_value([float(one[0] == name) for one in order.overall]))
        disagrees.append(order.has_unstable_best)
        kept.append(kept_order_share(*order.overall))
    wins = drop_missing_figures(**{name: mean_figure(values) for name, values in firsts.items()})
    return RunOrderComparison(wins, share_figure(disagrees), mean_figure(kept), missing)
