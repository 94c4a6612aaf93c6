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
from homerl.envs.personalhome.bench.figures import Figure, Figures, average, figures, questions, share
from homerl.envs.personalhome.bench.stored import Key, Played, Results, key_of
from homerl.envs.personalhome.bench.suite import digest_of
from homerl.envs.personalhome.judge.absolute import absolute_question, overall_scores, persona_scores
from homerl.envs.personalhome.judge.equivalence import KEYS, decide, equivalence_question
from homerl.envs.personalhome.judge.hearing import Question, Verdicts
from homerl.envs.personalhome.judge.household import HOME
from homerl.envs.personalhome.judge.relative import ranking, relative_questions
from homerl.envs.personalhome.sim.shown import shown
from homerl.envs.personalhome.tasks.blueprint import Grounding
from homerl.envs.personalhome.tasks.metrics import HIGHEST_SCORE, LOWEST_SCORE, kept_order, mean
from homerl.envs.personalhome.tasks.plans import read_plan
from homerl.envs.personalhome.tasks.verdicts import said_to
from homerl.models.endpoint.endpoint import derived_seed

FILE = "verdicts.jsonl"  # beside the results
Programs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Judged:
    """What the judge `by` said of a run. `missing` questions have no verdict, and of `unsure` answers it could not tell."""

    by: str
    figures: Figures
    missing: int
    unsure: int


@dataclass(frozen=True)
class Compared:
    """The orders of plans of several runs: win rates by run, how often the best changed with the letters, and how much of
    an order was the same both times. `missing` questions have no verdict."""

    wins: Mapping[str, Figure]
    disagrees: Figure | None
    kept: Figure | None
    missing: int


def together(runs: Sequence[Results]) -> Verdicts:
    """The verdicts beside all runs. What is added goes to the first."""
    first, *others = (Verdicts(run.folder / FILE) for run in runs)
    for other in others:
        first.rows.update({key: row for key, row in other.rows.items() if "verdict" not in first.rows.get(key, {})})
    return first


def judge_in(verdicts: Verdicts, asked: str | None = None) -> str | None:
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


def programs_of(played: Played) -> Programs:
    """The programs of a plan; none if it cannot be read."""
    return read_plan(played.text).value or ()


def rating(played: Played, programs: Programs) -> Question | None:
    """The question that rates a plan for the household of a task; None for a plan of no program."""
    if not programs:
        return None
    household = shown(played.blueprint.household)
    return absolute_question(household, household["context"], programs, played.blueprint.language, _about(played))


def meaning(played: Played) -> Question | None:
    """The question about the answers to a grounding task that no rule decides; None if rules decide them all."""
    asked, said, variants = _answers(played)
    return equivalence_question(asked, said, variants, played.blueprint.language, _about(played))


def _answers(played: Played) -> tuple[dict[str, str], dict[str, Any], dict[str, tuple[str, ...]]]:
    """What was asked, what was answered and the right answers, by the judge's keys."""
    task = played.blueprint.task
    assert isinstance(task, Grounding)
    parts = dict(zip(KEYS, task.parts))
    return (
        {key: f"{task.question} {part.condition}".strip() for key, part in parts.items()},
        {key: said_to(task, part.key, played.text) for key, part in parts.items()},
        {key: part.variants for key, part in parts.items()},
    )


def _about(played: Played) -> dict[str, Any]:
    return {"id": played.key[0], "run": played.key[1]}


def questions_of(run: Results) -> Iterator[Question]:
    """All that the judges are asked about one run."""
    for played in run.played(("grounding", "plans")):
        asked = meaning(played) if isinstance(played.blueprint.task, Grounding) else rating(played, programs_of(played))
        if asked is not None:
            yield asked


def judged(run: Results, verdicts: Verdicts, by: str) -> Judged:
    """The mean scores of plans in abs mode, and the accuracies with the judge of meaning (eq. 3)."""
    rows, unsure, meant_missing = _with_meaning(run, verdicts, by)
    rated, missing = ratings(run, verdicts, by)
    of_questions = {name: figure for name, figure in questions(rows).items() if not name.startswith("MC")}
    return Judged(by, {**of_questions, **figures_of_ratings(rated)}, missing + meant_missing, unsure)


def ratings(run: Results, verdicts: Verdicts, by: str) -> tuple[dict[Key, Mapping[str, Any]], int]:
    """The verdict on each rated plan, empty for a plan of no program; and how many plans have none."""
    found: dict[Key, Mapping[str, Any]] = {}
    missing = 0
    for played in run.played(("plans",)):
        asked = rating(played, programs_of(played))
        verdict = {} if asked is None else verdicts.verdict(asked, by)
        if verdict is None:
            missing += 1
        else:
            found[played.key] = verdict
    return found, missing


def figures_of_ratings(rated: Mapping[Key, Mapping[str, Any]]) -> Figures:
    """The mean scores overall, of members and of the home: over programs, then over plans (eq. 14)."""
    whole, people, home = [], [], []
    for verdict in rated.values():
        by_part = persona_scores(verdict)
        whole.append(mean(overall_scores(verdict) or (LOWEST_SCORE,)))
        people.append(mean([mean(scores) for part, scores in by_part.items() if part != HOME] or (LOWEST_SCORE,)))
        home.append(mean(by_part.get(HOME, (LOWEST_SCORE,))))
    scores = {"RPJ abs": whole, "RPJ members": people, "RPJ home": home}
    return figures(**{name: average(values, (LOWEST_SCORE, HIGHEST_SCORE)) for name, values in scores.items()})


def _with_meaning(run: Results, verdicts: Verdicts, by: str) -> tuple[list[dict[str, Any]], int, int]:
    """The results of IG with the judge's verdicts in them, and the numbers of unsure and of missing ones."""
    rows = {key_of(row): dict(row) for row in run.rows}
    found, unsure, missing = [], 0, 0
    for played in run.played(("grounding",)):
        asked, (_, said, variants) = meaning(played), _answers(played)
        verdict = None if asked is None else verdicts.verdict(asked, by)
        decision = decide(said, variants, verdict)
        keys = (part.key for part in played.blueprint.task.parts)  # type: ignore[union-attr]
        found.append(rows[played.key] | {"right": dict(zip(keys, decision.correct.values(), strict=True))})
        unsure, missing = unsure + len(decision.unsure), missing + bool(decision.open)
    return found, unsure, missing


# Several runs


def orderings(runs: Sequence[Results]) -> Iterator[tuple[tuple[str, ...], int, tuple[Question, Question]]]:
    """(names of the runs, seed of the letters, both questions) for each plan task that all runs have played.

    Raises `InputError` if the runs have other households under one id.
    """
    others = [
        {one.key: (digest_of(one.blueprint.household), programs_of(one)) for one in run.played(("plans",))}
        for run in runs[1:]
    ]
    names = tuple(run.name for run in runs)
    for played in runs[0].played(("plans",)):
        if not all(played.key in plans for plans in others):
            continue
        digests, theirs = zip(*(plans[played.key] for plans in others), strict=True)
        if set(digests) != {digest_of(played.blueprint.household)}:
            raise InputError("the runs have other households", played.key[0], "compare runs of one file of instances")
        household, seed = shown(played.blueprint.household), derived_seed(*played.key)
        plans = dict(zip(names, (programs_of(played), *theirs), strict=True))
        yield (
            names,
            seed,
            relative_questions(household, household["context"], plans, seed, played.blueprint.language, _about(played)),
        )


def compared(runs: Sequence[Results], verdicts: Verdicts, by: str) -> Compared:
    """Win rates of runs in rel mode, from the stored orders."""
    firsts: dict[str, list[float]] = {run.name: [] for run in runs}
    disagrees, kept, missing = [], [], 0
    for names, seed, asked in orderings(runs):
        given = [verdicts.verdict(question, by) for question in asked]
        if None in given:
            missing += 1
            continue
        order = ranking([verdict for verdict in given if verdict is not None], names, seed)
        for name in names:
            firsts[name].append(mean([float(one[0] == name) for one in order.overall]))
        disagrees.append(order.disagrees)
        kept.append(kept_order(*order.overall))
    wins = figures(**{name: average(values) for name, values in firsts.items()})
    return Compared(wins, share(disagrees), average(kept), missing)
