"""Synthesis: blueprints in, verified trajectories out, over processes, resumable.

Invariants: a shard is a pure function of the recipe and its range of seeds (unless an LLM paraphrases); shards are
written atomically and never rewritten, each recipe's in a folder of its own; the dataset is the shards in order, so its
bytes depend neither on the number of processes nor on where a run was killed; workers do not outlive the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pydantic import Field

from envs.documents import write_atomic
from envs.homeenv.types import Model
from homerl.blueprints.author import BlueprintRecipe
from homerl.episode import EpisodeLimits
from homerl.flow.mcts import SearchConfig, search, stats_row
from homerl.language.paraphrase import ParaphraseSettings, reworded
from homerl.lifetime import die_with
from homerl.trajectory import read_rows, to_row, write_rows
from homerl.users.scripted import ScriptedUser
from homerl.worlds import AnyBlueprintRecipe, Split, expert_for, make_blueprint


class ExpertConfig(Model):
    """How the scripted expert works and errs."""

    mistakes: float = 0.25
    styles: dict[str, float] = {"snippet": 1.0}
    minimal: bool = Field(False, description="leave out calls that would change nothing")


class SynthesisConfig(Model):
    """How much to synthesise, from which blueprints, by which search."""

    blueprints: int = Field(1000, ge=1)
    recipe: AnyBlueprintRecipe = BlueprintRecipe()
    curriculum: tuple[AnyBlueprintRecipe, ...] = Field((), description="recipes for equal shares, in order, before `recipe`")
    split: Split = "train"
    first_seed: int = 0
    expert: ExpertConfig = ExpertConfig()
    search: SearchConfig = SearchConfig()
    limits: EpisodeLimits = EpisodeLimits()
    per_blueprint: int = Field(2, ge=1, description="trajectories kept of one blueprint, shortest first")
    shard: int = Field(50, ge=1)
    paraphrase: ParaphraseSettings | None = Field(None, description="an LLM that rewords queries, each one checked")

    def recipe_of(self, index: int) -> AnyBlueprintRecipe:
        """The blueprint recipe for the index-th blueprint."""
        stages = (*self.curriculum, self.recipe)
        return stages[min(index * len(stages) // self.blueprints, len(stages) - 1)]


def synthesise(config: SynthesisConfig, out: Path, processes: int, progress: Callable[[int, int], None]) -> Path:
    """Fill `out` with `trajectories.jsonl` and `stats.json`; finished shards of an earlier run are kept."""
    shards = [range(i, min(i + config.shard, config.blueprints)) for i in range(0, config.blueprints, config.shard)]
    folder = out / "shards" / _digest(config)
    todo = [shard for shard in shards if not _stats_path(folder, shard).exists()]
    progress(len(shards) - len(todo), len(shards))
    done = len(shards) - len(todo)
    with ProcessPoolExecutor(processes, get_context("spawn"), die_with, (os.getpid(),)) as pool:
        running = [pool.submit(make_shard, config, shard, folder) for shard in todo]
        for future in as_completed(running):
            future.result()
            done += 1
            progress(done, len(shards))
    return _assemble(folder, shards, out)


def make_shard(config: SynthesisConfig, shard: range, folder: Path) -> None:
    """Synthesise one range of blueprints; the statistics file is written last and marks the shard as done."""
    rows: list[dict[str, Any]] = []
    per_blueprint, dropped = [], Counter()
    for index in shard:
        found, stats = _one(config, index, dropped)
        rows += found
        per_blueprint.append(stats)
    write_rows(_rows_path(folder, shard), rows)
    write_atomic(
        _stats_path(folder, shard), json.dumps({"blueprints": per_blueprint, "dropped": dict(sorted(dropped.items()))})
    )


def _one(config: SynthesisConfig, index: int, dropped: Counter) -> tuple[list[dict], dict[str, Any]]:
    seed = config.first_seed + index
    blueprint = make_blueprint(config.recipe_of(index), config.split, seed, dropped)
    if config.paraphrase:
        blueprint = asyncio.run(reworded(blueprint, config.paraphrase, dropped))
    expert = expert_for(blueprint, config.expert, seed)
    users = [ScriptedUser(seed + i) for i in range(config.search.k_user)]
    found, stats = asyncio.run(search(blueprint, expert, users, config.search, config.limits))
    kept = sorted(found, key=lambda trajectory: len(trajectory.steps))[: config.per_blueprint]
    row = stats_row(stats)
    return [to_row(t) | {"difficulty": row["difficulty"]} for t in kept], {"id": blueprint.id} | row


def _assemble(folder: Path, shards: list[range], out: Path) -> Path:
    """Join the shards and sum up their statistics."""
    blueprints, dropped = [], Counter()
    for shard in shards:
        data = json.loads(_stats_path(folder, shard).read_text())
        blueprints += data["blueprints"]
        dropped.update(data["dropped"])
    path = out / "trajectories.jsonl"
    write_rows(path, (row for shard in shards for row in read_rows(_rows_path(folder, shard))))
    write_atomic(out / "blueprints.jsonl", "".join(json.dumps(row) + "\n" for row in blueprints))
    write_atomic(out / "stats.json", json.dumps(summary(blueprints, dropped), indent=1) + "\n")
    return path


def summary(blueprints: list[dict[str, Any]], dropped: Counter) -> dict[str, Any]:
    """Totals of a synthesis: rollouts, generation success, prefix reuse, drops by filter."""
    total = {
        key: sum(row[key] for row in blueprints) for key in ("rollouts", "successes", "nodes", "steps_run", "steps_linear")
    }
    return total | {
        "blueprints": len(blueprints),
        "generation_success": sum(row["successes"] > 0 for row in blueprints) / len(blueprints),
        "rollout_success": total["successes"] / total["rollouts"],
        "steps_saved": 1 - total["steps_run"] / max(1, total["steps_linear"]),
        "dropped": dict(sorted(dropped.items())),
    }


def _digest(config: SynthesisConfig) -> str:
    return hashlib.blake2b(config.model_dump_json().encode(), digest_size=8).hexdigest()


def _rows_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.jsonl"


def _stats_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.stats.json"
