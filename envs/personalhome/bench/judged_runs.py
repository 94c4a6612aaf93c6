"""What judges are asked about the results of runs, the figures of their stored verdicts, and reflection on plans.

The role-playing judge rates plans (abs mode), and orders those of several runs of one suite (rel mode). Answers to IG and
CF that no rule decides go to the judge of meaning. In reflection (Table 4) an agent reads what the judge and the tools
say of its plan, and revises it once. The paper leaves the number of rounds open. Ours is one, of 15 more turns.

Invariants:
- Figures come from stored verdicts alone; a question without a verdict is counted as missing. A plan of no program is not
  asked about in abs mode, and has the lowest score.
- What is stored is not asked for again, so a run that was killed goes on where it stopped.
- A revision is stored under a hash of all that it depends on. Its episode goes on from where it ended, in the same
  household; one that a server ends is asked for again next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message
from homerl.envs.personalhome.bench.run_results import (
    Figures,
    PlayedTask,
    RunResults,
    ScoreFigure,
    answer_metrics,
    drop_missing_figures,
    final_words,
    mean_figure,
    plan_figures,
    question_figures,
    read_named_results,
    result_key,
    share_figure,
)
from homerl.envs.personalhome.bench.suite import TURNS, household_digest
from homerl.envs.personalhome.judge import answer_and_plan_judge
from homerl.envs.personalhome.judge.answer_and_plan_judge import (
    HOME,
    KEYS,
    decide_answers,
    equivalence_question,
    revision_message,
)
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore, ask_judge, make_judge_client
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks.answer_parser import parse_plan
from homerl.envs.personalhome.tasks.benchmark_metrics import HIGHEST_SCORE, LOWEST_SCORE, kept_order_share
from homerl.envs.personalhome.tasks.blueprint import Grounding
from homerl.envs.personalhome.tasks.plan_rules import try_plan_step
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation, answer_to_part
from homerl.host.progress_bar import progress_bar
from homerl.models.endpoint.endpoint import Endpoint, derive_seed, make_endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.models.endpoint.structured_answers import ask_at_once
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Policy, play
from homerl.play.replay import replay_steps, reply_of_step
from homerl.worlds.contract import Progress
from homerl.worlds.users import ScriptedUser

VERDICTS = "verdicts.jsonl"  # beside the results
Programs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunRatings:
    """What a judge said of a run. `missing` questions have no verdict; of `unsure` answers it could not tell."""

    figures: Figures
    missing: int
    unsure: int


@dataclass(frozen=True)
class RunOrderComparison:
    """The orders of plans of several runs.

    `wins` has the win rates by run, `disagrees` how often the best changed with the letters, and `kept` how much of an order
    was the same both times. `missing` tasks lack a verdict.
    """

    wins: Mapping[str, ScoreFigure]
    disagrees: ScoreFigure | None
    kept: ScoreFigure | None
    missing: int


def merge_verdicts(runs: Sequence[RunResults]) -> VerdictStore:
    """The verdicts beside all runs. What is added goes to the first."""
    first, *others = (VerdictStore(run.folder / VERDICTS) for run in runs)
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


def plan_rating_question(played: PlayedTask) -> JudgeQuestion | None:
    """The question that rates a plan for the household of a task; None for a plan of no program."""
    if not (programs := plan_programs(played)):
        return None
    household = household_shown(played.blueprint.household)
    return answer_and_plan_judge.absolute_question(
        household, household["context"], programs, played.blueprint.language, played.about
    )


def plan_verdict(played: PlayedTask, verdicts: VerdictStore, by: str) -> Mapping[str, Any] | None:
    """The stored verdict on a plan, empty for a plan of no program; None if there is no verdict."""
    asked = plan_rating_question(played)
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
            asked = plan_rating_question(played)
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
    figures = {name: figure for name, figure in question_figures(asked).items() if not name.startswith("MC")}
    given = [plan_verdict(played, verdicts, by) for played in run.played_tasks(("plans",))]
    rated = [verdict for verdict in given if verdict is not None]
    return RunRatings(figures | rating_figures(rated), missing + len(given) - len(rated), unsure)


def rating_figures(rated: Sequence[Mapping[str, Any]]) -> Figures:
    """The mean scores overall, of members and of the home: over programs, then over plans (eq. 14)."""
    scores: dict[str, list[float]] = {"RPJ abs": [], "RPJ members": [], "RPJ home": []}
    for verdict in rated:
        by_part = answer_and_plan_judge.persona_scores(verdict)
        members = [fmean(given) for part, given in by_part.items() if part != HOME]
        for name, values in zip(
            scores, (answer_and_plan_judge.overall_scores(verdict), members, by_part.get(HOME)), strict=True
        ):
            scores[name].append(fmean(values or (LOWEST_SCORE,)))
    ends = (LOWEST_SCORE, HIGHEST_SCORE)
    found = {name: mean_figure(values, ends) for name, values in scores.items()}
    return drop_missing_figures(**found)


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
        asked = answer_and_plan_judge.relative_questions(
            household, household["context"], plans, seed, language, played.about
        )
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
        first, second = answer_and_plan_judge.read_plan_orders(given, names, seed)
        for name in names:
            firsts[name].append(fmean(order[0] == name for order in (first, second)))
        disagrees.append(first[0] != second[0])
        kept.append(kept_order_share(first, second))
    wins = drop_missing_figures(**{name: mean_figure(values) for name, values in firsts.items()})
    return RunOrderComparison(wins, share_figure(disagrees), mean_figure(kept), missing)


REVISIONS = "revisions.jsonl"  # beside the results
LIMITS = EpisodeLimits(turns=2, steps=2 * (TURNS + 1), steps_per_turn=TURNS + 1)


@dataclass(frozen=True)
class ReflectionFigures:
    """Figures of the same plans before and after their revision. `missing` plans were not revised, or not rated."""

    before: Figures
    after: Figures
    missing: int


def plan_feedback_message(played: PlayedTask, verdict: Mapping[str, Any] | None) -> Message:
    """What the agent is told of its plan: which steps were refused, and the judge's verdict if there is one."""
    blueprint, programs, refused = played.blueprint, plan_programs(played), []
    for program in programs:
        state = HouseholdState(blueprint.household)
        for step in program["steps"]:
            if (why := try_plan_step(state, step)) is not None:
                refused.append({"program": program["program_id"], "step": step["step_id"], "message": why})
    names = {member.member_id: member.name for member in blueprint.household.members}
    return revision_message(programs, verdict, refused, names, blueprint.language)


async def ask_for_revision(played: PlayedTask, message: Message, agent: Policy) -> dict[str, Any] | None:
    """The agent's last words after a message about its plan, and how many calls it made; None if a server failed."""
    episode = Episode.from_situation(PersonalHomeSituation.begin(played.blueprint), LIMITS)
    for step in replay_steps(episode, played.trajectory):
        episode.apply_reply(reply_of_step(step))
    episode.outcome, episode.situation.answer = None, None  # type: ignore[attr-defined]  # open again for one more turn
    before = len(episode.steps)
    episode.add_utterance(message["content"])
    trajectory = await play(episode, agent, ScriptedUser())
    if not trajectory.outcome.is_counted:
        return None
    added = replace(trajectory, steps=trajectory.steps[before:])
    return {"text": final_words(added), "tool_calls": added.tool_calls}


def revision_key(played: PlayedTask, message: Message, agent: str) -> str:
    """A hash of all that a revision depends on."""
    # Tasks with tools have equal prompts, so the household must be in the hash.
    household = household_digest(played.blueprint.household)
    said = json.dumps([agent, *played.key, household, played.trajectory.messages, message["content"]], ensure_ascii=False)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def revise_run_plans(
    run: RunResults, agent: Policy, verdicts: VerdictStore, by: str, kept: VerdictStore, progress: Callable[[int, int], None]
) -> int:
    """Ask for each revision that is not kept; return how many are missing still."""
    told = [
        (played, message, revision_key(played, message, agent.name)) for played, message in _tell_plans(run, verdicts, by)
    ]
    todo = [each for each in told if each[2] not in kept.rows]

    async def revise(told: tuple[PlayedTask, Message, str]) -> bool:
        played, message, key = told
        if (found := await ask_for_revision(played, message, agent)) is not None:
            kept.add_row({"key": key, "by": agent.name, "about": played.about, **found})
        return True

    await ask_at_once(todo, revise, progress)
    return sum(key not in kept.rows for _, _, key in todo)


def _tell_plans(run: RunResults, verdicts: VerdictStore, by: str) -> Iterator[tuple[PlayedTask, Message]]:
    """Each plan of a run, with the message about it."""
    for played in run.played_tasks(("plans",)):
        yield played, plan_feedback_message(played, plan_verdict(played, verdicts, by) or None)


def pair_revised_plans(
    run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore
) -> Iterator[tuple[PlayedTask, PlayedTask]]:
    """Each task whose plan was revised: as it was, and with the revision as its last words."""
    agents = {row["by"] for row in kept.rows.values()}
    for played, message in _tell_plans(run, verdicts, by):
        for agent in sorted(agents):
            if (found := kept.rows.get(revision_key(played, message, agent))) is not None:
                yield played, replace(played, text=found["text"])
                break


def revision_rating_questions(run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore) -> list[JudgeQuestion]:
    """What the judge is asked about the revised plans."""
    asked = (plan_rating_question(after) for _, after in pair_revised_plans(run, verdicts, by, kept))
    return [question for question in asked if question is not None]


def compute_reflection_figures(run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore) -> ReflectionFigures:
    """The figures of plans before and after, of those plans that were revised and rated both times."""
    both = list(pair_revised_plans(run, verdicts, by, kept))
    sides = []
    rated = [[plan_verdict(played, verdicts, by) for played in pair] for pair in both]
    whole = [at for at, pair in enumerate(rated) if None not in pair]
    for side in (0, 1):
        metrics = [answer_metrics(both[at][side].blueprint, both[at][side].text) for at in whole]
        sides.append(plan_figures(metrics) | rating_figures([rated[at][side] or {} for at in whole]))
    return ReflectionFigures(sides[0], sides[1], sum(1 for _ in run.played_tasks(("plans",))) - len(whole))


T = TypeVar("T")
MOST_TOKENS = 2048  # of an agent's message


@dataclass(frozen=True)
class VerdictCount:
    """How many questions there are, and how many of them have a verdict now."""

    asked: int
    answered: int


def judge_runs(folders: Sequence[Path], url: str, model: str, relative: bool) -> VerdictCount:
    """Ask about each run; with `relative` also about all runs together.

    Raises `InputError` for a single run with `relative`.
    """
    runs, judge = read_named_results(folders), (url, model)
    if relative and len(runs) < 2:
        raise InputError("the plans of one run cannot be compared", "--relative", "name the results of several runs")
    heard = [
        _ask_with_progress(judge, list(judge_questions_of_run(run)), VerdictStore(run.folder / VERDICTS), run.name)
        for run in runs
    ]
    if relative:
        pairs = [question for _, _, both in plan_ordering_questions(runs) for question in both]
        heard.append(_ask_with_progress(judge, pairs, merge_verdicts(runs), "all together"))
    return VerdictCount(sum(one.asked for one in heard), sum(one.answered for one in heard))


def reflect_run(folder: Path, url: str, model: str, judge_url: str, judge_model: str) -> tuple[VerdictCount, int]:
    """Rate the plans of a run, let the agent revise each once, and rate the revisions.

    Return what the judge was asked at last, and how many revisions a server spoiled.
    """
    (run,), judge = read_named_results([folder]), (judge_url, judge_model)
    verdicts, kept = VerdictStore(folder / VERDICTS), VerdictStore(folder / REVISIONS)
    before = (plan_rating_question(played) for played in run.played_tasks(("plans",)))
    _ask_with_progress(judge, [question for question in before if question], verdicts, run.name)
    settings = EndpointSettings(url=tuple(url.split(",")), model=model, temperature=0.0, max_tokens=MOST_TOKENS)
    agent = LLMAgent(make_endpoint(settings), max_tokens=MOST_TOKENS)
    revise = partial(revise_run_plans, run, agent, verdicts, judge_model, kept)
    missing = _run_with_progress("revise", agent.name, agent.endpoint, revise)
    after = revision_rating_questions(run, verdicts, judge_model, kept)
    return _ask_with_progress(judge, after, verdicts, "revised plans"), missing


def _ask_with_progress(
    judge: tuple[str, str], questions: Sequence[JudgeQuestion], verdicts: VerdictStore, note: str
) -> VerdictCount:
    """Ask the judge of a URL and a name what has no verdict yet."""
    client = make_judge_client(*judge)
    _run_with_progress("judge", note, client.endpoint, partial(ask_judge, client, questions, verdicts))
    by = client.endpoint.model
    return VerdictCount(len(questions), sum(verdicts.stored_verdict(question, by) is not None for question in questions))


def _run_with_progress(name: str, note: str, endpoint: Endpoint, work: Callable[[Progress], Coroutine[Any, Any, T]]) -> T:
    """Do the work, which is given its progress to call, and close the connections in the loop that opened them."""

    async def work_and_close() -> T:
        try:
            return await work(lambda done, total: bar.update(task, completed=done, total=total))
        finally:
            await endpoint.close()

    with progress_bar() as bar:
        task = bar.add_task(name, total=None, note=note)
        return asyncio.run(work_and_close())
