"""The branching factors of HomeFlow's Table 2, (1, 1) being linear sampling, on the same blueprints.

Two readings: as the paper counts, one tree a blueprint that goes on until it has so many rollouts or is exhausted, whose
first rollout is the base and the others the yield of expansion; and at an equal budget, where every cell begins new trees
with other players until it has made so many calls for each blueprint, or sampled so many messages (three candidates are one
call and three messages).

Invariants: all cells play the same blueprints with the same players; what was found twice counts once.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from envs.documents import write_atomic
from homerl.flow.make import Maker
from homerl.flow.mcts import Budget, SearchConfig, TreeStats, forest
from homerl.flow.recipe import SynthesisConfig
from homerl.measure.intervals import mean_interval
from homerl.play.situation import Blueprint
from homerl.play.trajectory import Trajectory, to_row, write_rows

CELLS = ((1, 1), (3, 1), (1, 3), (3, 3))  # (k_user, k_agent), in the paper's order
MOST = 10_000  # trees, of which a budget allows far fewer


@dataclass
class Cell:
    """What one pair of branching factors made of all blueprints."""

    k_user: int
    k_agent: int
    solved: list[bool] = field(default_factory=list)
    trajectories: int = 0
    total: Counter[str] = field(default_factory=Counter)
    rows: list[list[dict[str, Any]]] = field(default_factory=list)

    def add(self, found: Sequence[Trajectory], stats: TreeStats) -> None:
        self.solved.append(bool(found))
        self.trajectories += len(found)
        self.total.update({key: value for key, value in asdict(stats).items() if isinstance(value, int)})
        kept = sorted(found, key=lambda trajectory: len(trajectory.steps))  # as a synthesis keeps them
        self.rows.append([to_row(trajectory) | {"difficulty": stats.difficulty} for trajectory in kept])

    def figures(self) -> dict[str, Any]:
        """Success over blueprints with its 95 % interval, trajectories of the first rollout and of the others, calls."""
        return {
            "k_user": self.k_user, "k_agent": self.k_agent, "blueprints": len(self.solved),
            "success": float(np.mean(self.solved)), "interval": mean_interval(np.array(self.solved, float), 0),
            "base": self.total["first"], "explored": self.trajectories - self.total["first"],
            "trajectories": self.trajectories, "calls": self.total["calls"], "sampled": self.total["sampled"],
            "calls_per_trajectory": self.total["calls"] / max(1, self.trajectories),
            "steps_saved": 1 - self.total["steps_run"] / max(1, self.total["steps_linear"]),
        }  # fmt: skip


def grid(config: SynthesisConfig, budget: Budget | None, progress: Callable[[], None], keep: bool = False) -> list[Cell]:
    """All cells; with a `budget` for each blueprint, else as the paper counts. `keep` keeps the rows."""
    return asyncio.run(_grid(config, budget, progress, keep))


async def _grid(config: SynthesisConfig, budget: Budget | None, progress: Callable[[], None], keep: bool) -> list[Cell]:
    makers = {cell: Maker(with_factors(config, *cell)) for cell in CELLS}
    gate = asyncio.Semaphore(config.in_flight)

    async def one(index: int) -> list[tuple[list[Trajectory], TreeStats]]:
        async with gate:
            blueprint, _ = await makers[CELLS[0]].blueprint(index, Counter())
            found = [await _played(maker, blueprint, budget) for maker in makers.values()]
            progress()
            return found

    cells = [Cell(*cell) for cell in CELLS]
    for found in await asyncio.gather(*map(one, range(config.blueprints))):
        for cell, (trajectories, stats) in zip(cells, found, strict=True):
            cell.add(trajectories, stats)
            if not keep:
                cell.rows.clear()
    for maker in makers.values():
        await maker.close()
    return cells


async def _played(maker: Maker, blueprint: Blueprint, budget: Budget | None) -> tuple[list[Trajectory], TreeStats]:
    """One blueprint in one cell."""
    config = maker.config
    if budget is None:
        return await forest(blueprint, maker.casts(blueprint, 1), config.search, config.limits)
    endless = config.search.model_copy(update={"rollouts": MOST})
    return await forest(blueprint, maker.casts(blueprint, MOST), endless, config.limits, budget)


def with_factors(config: SynthesisConfig, k_user: int, k_agent: int) -> SynthesisConfig:
    """The synthesis with other branching factors."""
    search = SearchConfig(**config.search.model_dump() | {"k_user": k_user, "k_agent": k_agent})
    return config.model_copy(update={"search": search})


def write(cells: Sequence[Cell], folder: Path, seed: int = 0) -> None:
    """`grid.json`, and a dataset a cell, each with as many dialogues as the smallest one has, in the blueprints' order."""
    even = min(cell.trajectories for cell in cells)
    write_atomic(folder / "grid.json", json.dumps([cell.figures() for cell in cells], indent=1) + "\n")
    for cell in cells:
        rows = dealt(cell.rows, even, random.Random(seed))
        write_rows(folder / f"{cell.k_user}-{cell.k_agent}" / "trajectories.jsonl", rows)


def dealt(rows: Sequence[Sequence[dict[str, Any]]], most: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """`most` rows: the shortest of every blueprint, then the next, and so on; of the last round, a draw."""
    chosen: list[tuple[int, int]] = []
    for number in range(max(map(len, rows), default=0)):
        places = [(index, number) for index, found in enumerate(rows) if number < len(found)]
        chosen += rng.sample(places, min(len(places), most - len(chosen)))
    return (rows[index][number] for index, number in sorted(chosen))


def table(cells: Sequence[Cell], title: str) -> Table:
    """The figures, a line a cell: k is (k_user, k_agent), `saved` the steps that shared prefixes saved."""
    made = Table(title=title, title_justify="left")
    names = ("k", "base", "explored", "total", "solved", "95 %", "calls", "messages", "calls each", "saved")
    for name in names:
        made.add_column(name, justify="right")
    for line in lines(cells):
        made.add_row(*line)
    return made


def lines(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    for figures in (cell.figures() for cell in cells):
        low, high = figures["interval"]
        counts = (f"{figures[name]:,}" for name in ("base", "explored", "trajectories"))
        spent = (f"{figures[name]:,}" for name in ("calls", "sampled"))
        solved = f"{figures['success']:.2%}", f"{100 * low:.1f}–{100 * high:.1f}"
        rest = f"{figures['calls_per_trajectory']:.1f}", f"{figures['steps_saved']:.1%}"
        yield f"({figures['k_user']}, {figures['k_agent']})", *counts, *solved, *spent, *rest
