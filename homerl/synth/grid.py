"""Compares the branching factors of HomeFlow's Table 2 on the same blueprints; (1, 1) is linear sampling.

There are two ways to count. As the paper counts, each blueprint gets one tree, which ends after a number of rollouts or
when it is exhausted; the first rollout is the base, and the later ones show the yield of expansion. At an equal budget,
a cell starts new trees with other players until it has made a number of calls, or sampled a number of messages, for
each blueprint (three candidates are one call and three messages).

Invariants: all cells play the same blueprints with the same players; equal trajectories count once.
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

from homerl.envs.core.documents import write_atomic
from homerl.host.measure.intervals import SHARES, mean_interval
from homerl.host.measure.search_stats import TreeStats
from homerl.play.situation import Blueprint
from homerl.play.trajectory import Trajectory, to_row, write_rows
from homerl.synth.make import Maker
from homerl.synth.mcts import CallBudget, SearchConfig, forest
from homerl.synth.recipe import SynthesisConfig

CELLS = ((1, 1), (3, 1), (1, 3), (3, 3))  # (k_user, k_agent), in the paper's order
MOST = 10_000  # trees at most; a budget allows far fewer


@dataclass
class Cell:
    """The results of one pair of branching factors over all blueprints."""

    k_user: int
    k_agent: int
    solved: list[bool] = field(default_factory=list)
    trajectories: int = 0
    total: Counter[str] = field(default_factory=Counter)
    rows: list[list[dict[str, Any]]] = field(default_factory=list)

    def add(self, found: Sequence[Trajectory], stats: TreeStats) -> None:
        """Add the results of one blueprint."""
        self.solved.append(bool(found))
        self.trajectories += len(found)
        self.total.update({key: value for key, value in asdict(stats).items() if isinstance(value, int)})
        kept = sorted(found, key=lambda trajectory: len(trajectory.steps))  # as a synthesis orders them
        self.rows.append([to_row(trajectory) | {"difficulty": stats.difficulty} for trajectory in kept])

    def figures(self) -> dict[str, Any]:
        """Solved share with its 95 % interval, trajectories of the first rollout and of later ones, calls, messages."""
        return {
            "k_user": self.k_user,
            "k_agent": self.k_agent,
            "blueprints": len(self.solved),
            "success": float(np.mean(self.solved)),
            "interval": mean_interval(np.array(self.solved, float), 0, ends=SHARES),
            "base": self.total["first"],
            "explored": self.trajectories - self.total["first"],
            "trajectories": self.trajectories,
            "calls": self.total["calls"],
            "sampled": self.total["sampled"],
            "calls_per_trajectory": self.total["calls"] / max(1, self.trajectories),
            "steps_saved": 1 - self.total["steps_run"] / max(1, self.total["steps_linear"]),
        }


def grid(config: SynthesisConfig, budget: CallBudget | None, progress: Callable[[], None], keep: bool = False) -> list[Cell]:
    """Play all cells: with a `budget` for each blueprint, or, if it is None, as the paper counts.

    `progress` is called after each blueprint; without `keep` the trajectories are dropped, and only figures remain.
    """
    return asyncio.run(_grid(config, budget, progress, keep))


async def _grid(config: SynthesisConfig, budget: CallBudget | None, progress: Callable[[], None], keep: bool) -> list[Cell]:
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


async def _played(maker: Maker, blueprint: Blueprint, budget: CallBudget | None) -> tuple[list[Trajectory], TreeStats]:
    """Play one blueprint in one cell."""
    config = maker.config
    if budget is None:
        return await forest(blueprint, maker.participants(blueprint, 1), config.search, config.limits)
    endless = config.search.model_copy(update={"rollouts": MOST})
    return await forest(blueprint, maker.participants(blueprint, MOST), endless, config.limits, budget)


def with_factors(config: SynthesisConfig, k_user: int, k_agent: int) -> SynthesisConfig:
    """The synthesis with other branching factors."""
    search = SearchConfig(**config.search.model_dump() | {"k_user": k_user, "k_agent": k_agent})
    return config.model_copy(update={"search": search})


def write_grid(cells: Sequence[Cell], folder: Path, seed: int = 0) -> None:
    """Write `grid.json`, and a dataset for each cell. All datasets have as many dialogues as the smallest cell has."""
    even = min(cell.trajectories for cell in cells)
    write_atomic(folder / "grid.json", json.dumps([cell.figures() for cell in cells], indent=1) + "\n")
    for cell in cells:
        rows = balanced_rows(cell.rows, even, random.Random(seed))
        write_rows(folder / f"{cell.k_user}-{cell.k_agent}" / "trajectories.jsonl", rows)


def balanced_rows(rows: Sequence[Sequence[dict[str, Any]]], most: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """`most` rows in the blueprints' order: the shortest of each blueprint, then the second shortest, and so on.

    A round that does not fit as a whole is sampled with `rng`.
    """
    chosen: list[tuple[int, int]] = []
    for number in range(max(map(len, rows), default=0)):
        places = [(index, number) for index, found in enumerate(rows) if number < len(found)]
        chosen += rng.sample(places, min(len(places), most - len(chosen)))
    return (rows[index][number] for index, number in sorted(chosen))


def grid_table(cells: Sequence[Cell], title: str) -> Table:
    """The figures as a table; k is (k_user, k_agent), `saved` the share of steps saved by shared prefixes."""
    made = Table(title=title, title_justify="left")
    names = ("k", "base", "explored", "total", "solved", "95 %", "calls", "messages", "calls each", "saved")
    for name in names:
        made.add_column(name, justify="right")
    for line in grid_lines(cells):
        made.add_row(*line)
    return made


def grid_lines(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """The cells of the table, one tuple for each pair of branching factors."""
    for figures in (cell.figures() for cell in cells):
        low, high = figures["interval"]
        counts = (f"{figures[name]:,}" for name in ("base", "explored", "trajectories"))
        spent = (f"{figures[name]:,}" for name in ("calls", "sampled"))
        solved = f"{figures['success']:.2%}", f"{100 * low:.1f}–{100 * high:.1f}"
        rest = f"{figures['calls_per_trajectory']:.1f}", f"{figures['steps_saved']:.1%}"
        yield f"({figures['k_user']}, {figures['k_agent']})", *counts, *solved, *spent, *rest
