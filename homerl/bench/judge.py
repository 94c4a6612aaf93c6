"""An LLM judge for answers that no rule decides, and its agreement with the rules where they decide (SMH-Bench 3.4).

The decision of a rule is final. For each intent, the judge gets the first answer that no rule decides, unless an earlier
answer was wrong. If the judge finds it right, and everything else that was asked for held at that moment, the episode
succeeded. To report agreement, the judge also gets a sample of the cases that rules decided, answers and questions alike.

Invariants:
- The judge sees the request, the truth and the answer, but not who gave it nor what the rules decided.
- A verdict is stored with everything it depends on, and is requested once.
- If the judge gives no verdict, its fault is stored in the verdict's place, and the episode is left out, like one that a
  server spoiled.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from homerl.bench.runner import BenchJournal
from homerl.bench.scores import score_results
from homerl.bench.suites import labels_in_trajectories
from homerl.envs.core.documents import write_atomic
from homerl.envs.core.model import Model
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.structured_answers import StructuredClient, UnreadableAnswer, ask_at_once, judge_fault
from homerl.play.bench_results import SCORED, read_results_file
from homerl.play.confidence_intervals import cohen_kappa, share_interval
from homerl.play.faults import Boundary, Fault, InfraError
from homerl.play.trajectory import FAULT_OUTCOMES, Outcome, Trajectory, read_rows, read_trajectories, write_rows
from homerl.worlds.contract import JudgeCase
from homerl.worlds.registry import world_of

FILE = "judgements.jsonl"
STORED = ("kind", "asked", "wanted", "said", "rule")  # what a judgement keeps of its case
FORM = 'Answer with one JSON object: {"why": "a few words", "verdict": "right" or "wrong"}.'


class Vote(Model):
    """What a judge answers."""

    why: str
    verdict: Literal["right", "wrong"]


@dataclass(frozen=True)
class JudgeSettings:
    """The judge's endpoint (URLs separated by commas) and model, its votes on a case, and the size of the sample.

    `votes` is None for the suite's own number.
    """

    url: str
    model: str
    votes: int | None = None
    sample: int = 200


def judge_bench_run(folder: Path, settings: JudgeSettings, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Judge the cases of a run in `folder`; write `judgements.jsonl`, results and score; return the score."""
    asked = EndpointSettings(url=tuple(settings.url.split(",")), model=settings.model, max_tokens=400)
    judge = Judge(StructuredClient(Endpoint(asked.urls, settings.model), asked), settings.votes or 1)
    found = [
        case
        for played in read_trajectories(folder / "trajectories.jsonl")
        for case in world_of(played.blueprint).cases(played)
    ]
    (folder / FILE).touch()
    journal = BenchJournal(folder / FILE)
    asyncio.run(judge_cases(judge, select_judge_cases(found, settings.sample), journal, progress))
    rows = list(apply_stored_verdicts(read_results_file(folder / "results.jsonl", SCORED), folder, judge.name))
    write_rows(folder / "results.jsonl", rows)
    scored = score_results(rows, labels_in_trajectories(folder / "trajectories.jsonl")) | {
        "judge": judge_agreement(journal.sorted_rows(), judge.name)
    }
    write_atomic(folder / "score.json", json.dumps(scored, indent=1) + "\n")
    return scored


def apply_stored_verdicts(rows: Iterable[Mapping[str, Any]], folder: Path, by: str) -> Iterator[dict[str, Any]]:
    """The results by rule, with the stored verdicts of the judge named `by` applied."""
    judgements = {row["index"]: row for row in read_rows(folder / FILE)}  # a verdict comes after the judge's faults
    for row, played in zip(rows, read_trajectories(folder / "trajectories.jsonl"), strict=True):
        yield apply_judgements(row, played, judgements, by) if row.get("undecided") else dict(row)


class Judge:
    """Requests verdicts from an endpoint; the majority of its votes counts, so `votes` must be odd (`ValueError`)."""

    def __init__(self, client: StructuredClient, votes: int = 1) -> None:
        if votes % 2 == 0:
            raise ValueError("an even number of votes may be a tie")
        self.client, self.votes = client, votes
        self.name = f"{client.endpoint.model}, {votes} {'vote' if votes == 1 else 'votes'}"

    async def request_verdict(self, system: str, told: Mapping[str, str]) -> Vote:
        """A vote of the majority. A single vote is sampled at temperature 0, several at temperature 1.

        Raises `InfraError` or `UnreadableAnswer` if a vote fails.
        """
        text, heat = json.dumps(told, ensure_ascii=False, indent=1), float(self.votes > 1)
        asked = (self.client.ask(f"{system} {FORM}", text, Vote, n, heat) for n in range(self.votes))
        votes = sorted(await asyncio.gather(*asked), key=lambda vote: vote.verdict)
        return votes[len(votes) // 2]


async def judge_cases(
    judge: Judge,
    todo: Sequence[JudgeCase],
    journal: BenchJournal,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Judge each case that is not in the journal, and add the verdicts; a judge that fails leaves its fault there."""
    missing = {key: case for case in todo if not journal.is_settled(key := judgement_key(case, judge.name))}

    async def judge_case(keyed: tuple[str, JudgeCase]) -> bool:
        key, case = keyed
        told = {case.asked_as: case.asked, "truth": case.wanted, "assistant": case.said}
        try:
            found: Vote | Fault = await judge.request_verdict(case.rubric, told)
        except (InfraError, UnreadableAnswer) as error:
            found = judge_fault(error)
        about = {name: value for name, value in asdict(case).items() if name in STORED}
        given = found.model_dump() if isinstance(found, Vote) else {"fault": asdict(found)}
        journal.append_rows([{"index": key, "counts": isinstance(found, Vote), "by": judge.name} | about | given])
        return isinstance(found, Vote)

    await ask_at_once(missing.items(), judge_case, progress)


def judgement_key(case: JudgeCase, by: str) -> str:
    """A key that is equal for cases that the judge named `by` cannot tell apart."""
    told = [by, case.rubric, case.kind, case.asked, case.wanted, case.said]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=12).hexdigest()


def select_judge_cases(found: Iterable[JudgeCase], sample: int) -> list[JudgeCase]:
    """All cases that no rule decides, and a random sample of the others."""
    found = list(found)
    decided = [case for case in found if case.rule != "undecided"]
    return [case for case in found if case.rule == "undecided"] + random.Random(0).sample(decided, min(sample, len(decided)))


def apply_judgements(
    row: Mapping[str, Any], trajectory: Trajectory, judgements: Mapping[str, Mapping[str, Any]], by: str
) -> dict[str, Any]:
    """The result of an undecided episode with its verdicts: a success, the failure as it was, or left out."""
    world = world_of(trajectory.blueprint)
    open_cases = [case for case in world.cases(trajectory) if case.rule == "undecided"]
    given = [judgements.get(judgement_key(case, by), {}) for case in open_cases]
    if missing := [found for found in given if "verdict" not in found]:
        why = [{"fault": found["fault"]} for found in missing if "fault" in found][:1]  # none was stored at first
        return {**row, "outcome": str(FAULT_OUTCOMES[Boundary.JUDGE]), "error": None, **(why[0] if why else {})}
    right = {case.intent: case.step for case, found in zip(open_cases, given, strict=True) if found["verdict"] == "right"}
    if not world.holds_with(trajectory, right):
        return dict(row)
    return {**row, "outcome": str(Outcome.SUCCESS), "success": True, "phi": True, "progress": 1.0, "error": None}


def judge_agreement(judgements: Iterable[Mapping[str, Any]], by: str) -> dict[str, Any]:
    """What the judge decided, and its agreement with the rules: share, 95 % interval, kappa."""
    rows = [row for row in judgements if row["by"] == by and "verdict" in row]
    ours = [row for row in rows if row["rule"] == "undecided"]
    both = [(row["rule"] == "right", row["verdict"] == "right") for row in rows if row["rule"] != "undecided"]
    found: dict[str, Any] = {
        "by": by,
        "decided": len(ours),
        "right": sum(row["verdict"] == "right" for row in ours),
    }
    if both:
        same = np.array([a == b for a, b in both], dtype=float)
        found["agreement"] = {"n": len(both), "share": float(same.mean()), "interval": share_interval(same)}
        found["agreement"]["kappa"] = cohen_kappa(both)
    return found
