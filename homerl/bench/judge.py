"""An LLM judge for answers that no rule can decide, and how far it agrees with the rules where they can (SMH-Bench 3.4).

What a rule has decided stays decided. Of an intent's answers the first that no rule decides is put to the judge, if
none was wrong before; if it is right, and all else that was wanted held when it was given, the episode succeeded. A
sample of what the rules did decide is put to it too, answers and questions asked back, to report its agreement.

Invariants: the judge sees what was asked, what is true and what was said, never who said it or what the rules made of
it; a verdict is stored with all that it was made from, and asked for once; where the judge gives none, the episode is
left out like one that a server spoiled.
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

from envs.documents import write_atomic
from envs.homeenv.home_file import home_from_json
from envs.model import Model
from homerl.bench import simuhome_cases
from homerl.bench.cases import Case, cases
from homerl.bench.journal import Journal
from homerl.bench.score import score, share_interval
from homerl.blueprints.blueprint import Blueprint
from homerl.blueprints.goals import goals
from homerl.endpoint import Endpoint
from homerl.play import InfraError
from homerl.settings import EndpointSettings
from homerl.structured import Asker, Unreadable
from homerl.trajectory import Outcome, Trajectory, from_row, read_rows, write_rows
from homerl.worlds import is_simuhome

AT_ONCE = 16
FILE = "judgements.jsonl"
TELL = {
    "answer": "You check what a smart-home assistant answered. You are given the question, the true answer, and what the "
    "assistant said. It is right if it gives the true answer, in any words or units, and claims nothing against it. It "
    "is wrong if it gives another, several to choose from, or none.",
    "clarification": "You check whether a smart-home assistant asked back. You are given what the user said, what the user "
    "meant but left open, and what the assistant said. It is right if it asks the user for what was left open. It is "
    "wrong if it asks for nothing, for something else, or only offers more help.",
}
TELL |= {
    kind: f"You check how a smart-home agent ended a task. You are given the user's request, what is true, and the agent's "
    f"tool calls with its final answer, which alone you judge. {text} Otherwise it is wrong."
    for kind, text in simuhome_cases.TELL.items()
}
FORM = 'Answer with one JSON object: {"why": "a few words", "verdict": "right" or "wrong"}.'


class Vote(Model):
    """What a judge answers."""

    why: str
    verdict: Literal["right", "wrong"]


@dataclass(frozen=True)
class JudgeSettings:
    """An endpoint, pinned by URL and model; how many votes it has on a case, and how many decided cases it is shown."""

    url: str
    model: str
    votes: int = 1
    sample: int = 200


def judge_run(folder: Path, settings: JudgeSettings, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Put a run's cases to the judge; write `judgements.jsonl`, and results and score again; return the score."""
    asked = EndpointSettings(url=tuple(settings.url.split(",")), model=settings.model, max_tokens=400)
    judge = Judge(Asker(Endpoint(asked.urls, settings.model), asked), settings.votes)
    found = [case for row in read_rows(folder / "trajectories.jsonl") for case in cases(from_row(row))]
    (folder / FILE).touch()
    journal = Journal(folder / FILE)
    asyncio.run(hear(judge, to_hear(found, settings.sample), journal, progress))
    rows = list(judged_rows(read_rows(folder / "results.jsonl"), folder, judge.name))
    write_rows(folder / "results.jsonl", rows)
    scored = score(rows) | {"judge": agreement(journal.rows(), judge.name)}
    write_atomic(folder / "score.json", json.dumps(scored, indent=1) + "\n")
    return scored


def judged_rows(rows: Iterable[Mapping[str, Any]], folder: Path, by: str) -> Iterator[dict[str, Any]]:
    """Results by rule, with the stored verdicts of a judge."""
    verdicts = {row["index"]: row["verdict"] for row in read_rows(folder / FILE)}
    for row, stored in zip(rows, read_rows(folder / "trajectories.jsonl"), strict=True):
        yield judged(row, from_row(stored), verdicts, by) if row["undecided"] else dict(row)


class Judge:
    """Asks an endpoint for verdicts; the majority of its votes counts."""

    def __init__(self, asker: Asker, votes: int = 1) -> None:
        if votes % 2 == 0:
            raise ValueError("an even number of votes may be a tie")
        self.asker, self.votes = asker, votes
        self.name = f"{asker.endpoint.model}, {votes} {'vote' if votes == 1 else 'votes'}"

    async def verdict(self, system: str, told: Mapping[str, str], seed: int = 0) -> Vote:
        """A vote of the majority; `InfraError` or `Unreadable` if one fails. One is taken at temperature 0, several at 1."""
        text, heat = json.dumps(told, ensure_ascii=False, indent=1), float(self.votes > 1)
        asked = (self.asker.ask(f"{system} {FORM}", text, Vote, seed + n, heat) for n in range(self.votes))
        votes = sorted(await asyncio.gather(*asked), key=lambda vote: vote.verdict)
        return votes[len(votes) // 2]


async def hear(
    judge: Judge, todo: Sequence[Case], journal: Journal, progress: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Add verdicts to the journal, each case once; a judge that fails leaves a case out."""
    missing = {key: case for case in todo if not journal.done(key := key_of(case, judge.name))}
    gate, heard = asyncio.Semaphore(AT_ONCE), 0

    async def one(key: str, case: Case) -> None:
        nonlocal heard
        told = {"question" if case.kind == "answer" else "user": case.asked, "truth": case.wanted, "assistant": case.said}
        async with gate:
            try:
                vote = await judge.verdict(TELL[case.kind], told)
            except (InfraError, Unreadable):
                return
        about = {name: value for name, value in asdict(case).items() if name not in ("step", "intent")}
        journal.add([{"index": key, "counts": True, "by": judge.name} | about | vote.model_dump()])
        heard += 1
        progress(heard, len(missing))

    await asyncio.gather(*(one(key, case) for key, case in missing.items()))


def key_of(case: Case, by: str) -> str:
    """Equal for what a judge cannot tell apart; `by` names the judge."""
    told = [by, TELL[case.kind], case.kind, case.asked, case.wanted, case.said]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=12).hexdigest()


def to_hear(found: Iterable[Case], sample: int, seed: int = 0) -> list[Case]:
    """All that no rule decides, and a sample of the rest, answers and questions alike."""
    found = list(found)
    decided = [case for case in found if case.rule != "undecided"]
    return [case for case in found if case.rule == "undecided"] + random.Random(seed).sample(
        decided, min(sample, len(decided))
    )


def judged(row: Mapping[str, Any], trajectory: Trajectory, verdicts: Mapping[str, str], by: str) -> dict[str, Any]:
    """An undecided result with the verdicts on it: a success, a failure as it was, or left out."""
    open_cases = [case for case in cases(trajectory) if case.rule == "undecided"]
    given = [verdicts.get(key_of(case, by)) for case in open_cases]
    if None in given:
        return row | {"outcome": str(Outcome.INFRA_ERROR), "error": None}
    right = {case.intent: case.step for case, verdict in zip(open_cases, given, strict=True) if verdict == "right"}
    if not _holds_with(trajectory, right):
        return dict(row)
    return row | {"outcome": str(Outcome.SUCCESS), "success": True, "phi": True, "progress": 1.0, "error": None}


def _holds_with(trajectory: Trajectory, right: Mapping[int, int]) -> bool:
    """Whether at some step all was met, counting the answers that were judged right by then."""
    if is_simuhome(trajectory.blueprint):
        return bool(right)  # all else was looked at by rule
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    wanted = goals(blueprint, home_from_json(blueprint.home, f"home of blueprint {blueprint.id}"))
    for at, step in enumerate(trajectory.steps):
        answered = {i for i, goal in enumerate(wanted) if goal.answer and right.get(goal.intent, at + 1) <= at}
        clean = not blueprint.preserve or step.facts.strayed_after == 0
        if clean and len(answered | set(step.facts.met)) == len(wanted):
            return True
    return False


def agreement(judgements: Iterable[Mapping[str, Any]], by: str) -> dict[str, Any]:
    """What the judge decided, and how often it agreed with the rules where they decide: share, its interval, kappa."""
    rows = [row for row in judgements if row["by"] == by]
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
        found["agreement"]["kappa"] = kappa(both)
    return found


def kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Cohen's: agreement beyond what chance would give; 1 where both say but one thing, and the same."""
    ours, theirs = (float(np.mean([pair[i] for pair in pairs])) for i in (0, 1))
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    seen = float(np.mean([a == b for a, b in pairs]))
    return 1.0 if chance == 1.0 else (seen - chance) / (1 - chance)
