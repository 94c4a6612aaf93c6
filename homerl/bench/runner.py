"""Plays a suite with an agent, many episodes at a time, resumable.

Invariants: an instance is a pure function of (suite, index) and comes from the held-out split; a finished chunk
is never played again, nor taken for one of another suite, limits or agent (`identity`); faults of servers, users or
worlds are retried in a fresh world, then left out and counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envs.documents import write_atomic
from homerl.bench.score import result_row, score
from homerl.blueprints.author import make_blueprint
from homerl.blueprints.blueprint import Blueprint
from homerl.episode import Episode, EpisodeLimits
from homerl.play import Agent, play
from homerl.recipe import SuiteSettings
from homerl.trajectory import Trajectory, read_rows, to_row, write_rows
from homerl.users.scripted import ScriptedUser

CHUNK = 100
RETRIES = 2
AgentFactory = Callable[[], Agent]


def instances(suite: SuiteSettings, indices: range) -> Iterator[Blueprint]:
    """Blueprints of a suite, all of the held-out split."""
    for index in indices:
        yield make_blueprint(suite.recipe, "heldout", suite.first_seed + index)


def run_suite(
    suite: SuiteSettings,
    make_agent: AgentFactory,
    limits: EpisodeLimits,
    out: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    identity: str = "",
    begin: Callable[[int], None] = lambda first: None,
) -> dict[str, Any]:
    """Play the suite and write `results.jsonl`, `trajectories.jsonl` and `score.json` to `out`; return the score.

    `begin` is called before each chunk with its first index: what is random may be seeded there.
    """
    folder = out / "chunks" / _digest(suite, limits, identity)
    chunks = [range(i, min(i + CHUNK, suite.count)) for i in range(0, suite.count, CHUNK)]
    for chunk in chunks:
        if not _path(folder, chunk).exists():
            begin(chunk.start)
            write_rows(_path(folder, chunk), asyncio.run(_play_chunk(suite, chunk, make_agent, limits)))
        progress(chunk.stop, suite.count)
    rows = [row for chunk in chunks for row in read_rows(_path(folder, chunk))]
    write_rows(out / "results.jsonl", (row["result"] for row in rows))
    write_rows(out / "trajectories.jsonl", (row["trajectory"] for row in rows))
    scored = score([row["result"] for row in rows])
    write_atomic(out / "score.json", json.dumps(scored, indent=1) + "\n")
    return scored


async def _play_chunk(suite: SuiteSettings, chunk: range, make_agent: AgentFactory, limits: EpisodeLimits) -> list[dict]:
    played = [_play_one(blueprint, make_agent, limits) for blueprint in instances(suite, chunk)]
    return [
        {"result": result_row(trajectory, tokens), "trajectory": to_row(trajectory)}
        for trajectory, tokens in await asyncio.gather(*played)
    ]


async def _play_one(blueprint: Blueprint, make_agent: AgentFactory, limits: EpisodeLimits) -> tuple[Trajectory, int]:
    for _ in range(RETRIES + 1):
        agent = _Counted(make_agent())
        trajectory = await play(Episode.begin(blueprint, limits), agent, ScriptedUser(blueprint.seed), blueprint.seed)
        if trajectory.outcome.counts:
            break
    return trajectory, agent.tokens


class _Counted:
    """An agent whose sampled tokens are counted."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.name, self.tokens = agent, agent.name, 0

    async def propose(self, episode: Episode, n: int = 1):
        replies = await self.agent.propose(episode, n)
        self.tokens += sum(reply.tokens for reply in replies)
        return replies


def _digest(suite: SuiteSettings, limits: EpisodeLimits, identity: str) -> str:
    text = json.dumps([suite.model_dump(mode="json", exclude={"count"}), asdict(limits), identity])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _path(folder: Path, chunk: range) -> Path:
    return folder / f"{chunk.start:06d}-{chunk.stop:06d}.jsonl"
