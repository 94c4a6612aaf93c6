"""Puts the questions about runs to a judge, and plans to an agent that revises them. All that is answered is stored.

Invariant: what is stored is not asked for again, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import Progress, TaskID

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench import judge_figures as judged
from homerl.envs.personalhome.bench import plan_reflection as reflecting
from homerl.envs.personalhome.bench.episode_results import RunResults, read_named_results
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore, ask_judge, make_judge_client
from homerl.host.progress_bar import progress_bar
from homerl.models.endpoint.endpoint import Endpoint, make_endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.llm_agent import LLMAgent

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
        _ask(judge, list(judged.judge_questions_of_run(run)), VerdictStore(run.folder / judged.FILE), run.name)
        for run in runs
    ]
    if relative:
        pairs = [question for _, _, both in judged.plan_ordering_questions(runs) for question in both]
        heard.append(_ask(judge, pairs, judged.merge_verdicts(runs), "all together"))
    return VerdictCount(sum(one.asked for one in heard), sum(one.answered for one in heard))


def _ask(judge: tuple[str, str], questions: Sequence[JudgeQuestion], verdicts: VerdictStore, note: str) -> VerdictCount:
    """Ask the judge of a URL and a name what has no verdict yet."""
    client = make_judge_client(*judge)
    with progress_bar() as bar:
        task = bar.add_task("judge", total=None, note=note)
        progress = partial(_show, bar, task)
        asyncio.run(_closing(client.endpoint, ask_judge(client, questions, verdicts, progress)))
    by = client.endpoint.model
    return VerdictCount(len(questions), sum(verdicts.stored_verdict(question, by) is not None for question in questions))


def reflect_run(folder: Path, url: str, model: str, judge_url: str, judge_model: str) -> tuple[VerdictCount, int]:
    """Rate the plans of a run, let the agent revise each once, and rate the revisions.

    Return what the judge was asked at last, and how many revisions a server spoiled.
    """
    (run,), judge = read_named_results([folder]), (judge_url, judge_model)
    verdicts, kept = VerdictStore(folder / judged.FILE), VerdictStore(folder / reflecting.FILE)
    before = (judged.plan_rating_question(played, judged.plan_programs(played)) for played in run.played_tasks(("plans",)))
    _ask(judge, [question for question in before if question], verdicts, run.name)
    missing = _revise(run, _agent(url, model), verdicts, judge_model, kept)
    after = reflecting.revision_rating_questions(run, verdicts, judge_model, kept)
    return _ask(judge, after, verdicts, "revised plans"), missing


def _agent(url: str, model: str) -> LLMAgent:
    settings = EndpointSettings(url=tuple(url.split(",")), model=model, temperature=0.0, max_tokens=MOST_TOKENS)
    return LLMAgent(make_endpoint(settings), max_tokens=MOST_TOKENS)


def _revise(run: RunResults, agent: LLMAgent, verdicts: VerdictStore, by: str, kept: VerdictStore) -> int:
    with progress_bar() as bar:
        task = bar.add_task("revise", total=None, note=agent.name)
        asked = reflecting.revise_run_plans(run, agent, verdicts, by, kept, partial(_show, bar, task))
        return asyncio.run(_closing(agent.endpoint, asked))


def _show(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


async def _closing(endpoint: Endpoint, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and close the connections in the loop in which they were opened."""
    try:
        return await work
    finally:
        await endpoint.close()
