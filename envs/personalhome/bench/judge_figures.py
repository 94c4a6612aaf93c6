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
from homerl.envs.personalhome.bench import score_figures
from homerl.envs.personalhome.bench.episode_results import PlayedTask, RunResults, result_key
from homerl.envs.personalhome.bench.suite import household_digest
from homerl.envs.personalhome.judge import judge_questions
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore
from homerl.envs.personalhome.judge.judge_questions import HOME, KEYS, decide_answers, equivalence_question
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks.answer_parser import parse_plan
from homerl.envs.personalhome.tasks.benchmark_metrics import HIGHEST_SCORE, LOWEST_SCORE, kept_order_share, mean_value
from homerl.envs.personalhome.tasks.blueprint import Grounding
from homerl.envs.personalhome.tasks.situation import answer_to_part
from homerl.models.endpoint.endpoint import derive_seed

FILE = "verdicts.jsonl"  # beside the results
Programs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunRatings:
    """What the judge `by` said of a run. `missing` questions have no verdict; of `unsure` answers it could not tell."""

    by: str
    figures: score_figures.Figures
    missing: int
    unsure: int


@dataclass(frozen=True)
class RunOrderComparison:
    """The orders of plans of several runs.

    `wins` has the win rates by run, `disagrees` how often the best changed with the letters, and `kept` how much of an order
    was the same both times. `missing` tasks lack a verdict.
    """

    wins: Mapping[str, score_figures.ScoreFigure]
    disagrees: score_figures.ScoreFigure | None
    kept: score_figures.ScoreFigure | None
    missing: int


def merge_verdicts(runs: Sequence[RunResults]) -> VerdictStore:
    """The verdicts beside all runs. What is added goes to the first."""
    first, *others = (VerdictStore(run.folder / FILE) for run in runs)
    for other in others:
        first.rows |= {key: row for key, row in other.rows.items() if "verdict" not in first.rows.get(key, {})}
    return first


def choose_judge(verdicts: VerdictStore, asked: str | None = None) -> str | None:
    """The judge whose verdicts are meant: the one asked for, or the only one; None if there are no verdicts.

    Raises `InputError` if there are several, or another than was asked for.
    """
    known: list[str] = sorted({row["by"] for row in verdicts.rows.values()})
    if not known or asked in known:
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
    return judge_questions.absolute_question(
        household, household["context"], programs, played.blueprint.language, played.about
    )


def plan_verdict(played: PlayedTask, verdicts: VerdictStore, by: str) -> Mapping[str, Any] | None:
    """The stored verdict on a plan, empty for a plan of no program; None if there is no verdict."""
    asked = plan_rating_question(played, plan_programs(played))
    return {} if asked is None else verdicts.stored_verdict(asked, by)


def _meaning_question(played: PlayedTask) -> tuple[JudgeQuestion | None, dict[str, Any], dict[str, tuple[str, ...]]]:
    """(question, answers, right answers) of a grounding task. The question is None if rules decide all answers."""
    task = played.blueprint.task
    assert isinstance(task, Grounding)
    parts = dict(zip(KEYS, task.parts))
    asked = {key: f"{task.question} {part.condition}".strip() for key, part in parts.items()}
    said = {key: answer_to_part(task, part.key, played.text) for key, part in parts.items()}
    variants = {key: part.variants for key, part in parts.items()}
    return equivalence_question(asked, said, variants, played.blueprint.language, played.about), said, variants


def judge_questions_of_run(run: RunResults) -> Iterator[JudgeQuestion]:
    """All that the judges are asked about one run."""
    for played in run.played_tasks(("grounding", "plans")):
        if isinstance(played.blueprint.task, Grounding):
            asked = _meaning_question(played)[0]
        else:
            asked = plan_rating_question(played, plan_programs(played))
        if asked is not None:
            yield asked


def compute_run_ratings(run: RunResults, verdicts: VerdictStore, by: str) -> RunRatings:
    """The mean scores of plans in abs mode, and the accuracies with the judge of meaning (eq. 3)."""
    rows = {result_key(row): dict(row) for row in run.rows}
    asked, unsure, missing = [], 0, 0
    for played in run.played_tasks(("grounding",)):
        question, said, variants = _meaning_question(played)
        decision = decide_answers(said, variants, verdicts.stored_verdict(question, by) if question else None)
        keys = (part.key for part in played.blueprint.task.parts)  # type: ignore[union-attr]
        asked.append(rows[played.key] | {"right": dict(zip(keys, decision.correct.values(), strict=True))})
        unsure, missing = unsure + len(decision.unsure), missing + bool(decision.open)
    figures = {name: figure for name, figure in score_figures.question_figures(asked).items() if not name.startswith("MC")}
    given = [plan_verdict(played, verdicts, by) for played in run.played_tasks(("plans",))]
    rated = [verdict for verdict in given if verdict is not None]
    return RunRatings(by, figures | rating_figures(rated), missing + len(given) - len(rated), unsure)


def rating_figures(rated: Sequence[Mapping[str, Any]]) -> score_figures.Figures:
    """The mean scores overall, of members and of the home: over programs, then over plans (eq. 14)."""
    scores: dict[str, list[float]] = {"RPJ abs": [], "RPJ members": [], "RPJ home": []}
    for verdict in rated:
        by_part = judge_questions.persona_scores(verdict)
        members = [mean_value(given) for part, given in by_part.items() if part != HOME]
        for name, values in zip(scores, (judge_questions.overall_scores(verdict), members, by_part.get(HOME)), strict=True):
            scores[name].append(mean_value(values or (LOWEST_SCORE,)))
    ends = (LOWEST_SCORE, HIGHEST_SCORE)
    found = {name: score_figures.mean_figure(values, ends) for name, values in scores.items()}
    return score_figures.drop_missing_figures(**found)


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
        plans, language = dict(zip(names, (plan_programs(played), *theirs), strict=True)), played.blueprint.language
        asked = judge_questions.relative_questions(household, household["context"], plans, seed, language, played.about)
        yield names, seed, asked


def compare_ranked_runs(runs: Sequence[RunResults], verdicts: VerdictStore, by: str) -> RunOrderComparison:
    """Win rates of runs in rel mode, from the stored orders."""
    firsts: dict[str, list[float]] = {run.name: [] for run in runs}
    disagrees, kept, missing = [], [], 0
    for names, seed, asked in plan_ordering_questions(runs):
        given = [verdict for question in asked if (verdict := verdicts.stored_verdict(question, by)) is not None]
        if len(given) < len(asked):
            missing += 1
            continue
        order = judge_questions.read_plan_ranking(given, names, seed)
        for name in names:
            firsts[name].append(mean_value([float(one[0] == name) for one in order.overall]))
        disagrees.append(order.has_unstable_best)
        kept.append(kept_order_share(*order.overall))
    wins = score_figures.drop_missing_figures(**{name: score_figures.mean_figure(values) for name, values in firsts.items()})
    return RunOrderComparison(wins, score_figures.share_figure(disagrees), score_figures.mean_figure(kept), missing)
