"""Puts the questions about runs to a judge, and plans to an agent that revises them. All that is answered is stored.

Invariant: what is stored is not asked for again, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench import judge_figures as judged
from homerl.envs.personalhome.bench import plan_reflection as reflecting
from homerl.envs.personalhome.bench.episode_results import read_named_results
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore, ask_judge, make_judge_client
from homerl.host.progress_bar import progress_bar
from homerl.models.endpoint.endpoint import Endpoint, make_endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.worlds.contract import Progress

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
        _ask_with_progress(judge, list(judged.judge_questions_of_run(run)), VerdictStore(run.folder / judged.FILE), run.name)
        for run in runs
    ]
    if relative:
        pairs = [question for _, _, both in judged.plan_ordering_questions(runs) for question in both]
        heard.append(_ask_with_progress(judge, pairs, judged.merge_verdicts(runs), "all together"))
    return VerdictCount(sum(one.asked for one in heard), sum(one.answered for one in heard))


def reflect_run(folder: Path, url: str, model: str, judge_url: str, judge_model: str) -> tuple[VerdictCount, int]:
    """Rate the plans of a run, let the agent revise each once, and rate the revisions.

    Return what the judge was asked at last, and how many revisions a server spoiled.
    """
    (run,), judge = read_named_results([folder]), (judge_url, judge_model)
    verdicts, kept = VerdictStore(folder / judged.FILE), VerdictStore(folder / reflecting.FILE)
    before = (judged.plan_rating_question(played, judged.plan_programs(played)) for played in run.played_tasks(("plans",)))
    _ask_with_progress(judge, [question for question in before if question], verdicts, run.name)
    settings = EndpointSettings(url=tuple(url.split(",")), model=model, temperature=0.0, max_tokens=MOST_TOKENS)
    agent = LLMAgent(make_endpoint(settings), max_tokens=MOST_TOKENS)
    revise = partial(reflecting.revise_run_plans, run, agent, verdicts, judge_model, kept)
    missing = _run_with_progress("revise", agent.name, agent.endpoint, revise)
    after = reflecting.revision_rating_questions(run, verdicts, judge_model, kept)
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
