"""Decides which blueprint is played next.

Invariants:
- The order is a function of the recipe, the seed and the results so far. It is the same on every rank.
- A pass visits every blueprint once, in an order of its own. With `by: success` a pass may skip a blueprint; skips are
  counted.
- Batches that were drawn but not trained on are part of the state. A resumed run plays exactly these again.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envs.documents import InputError
from homerl.play.trajectory import read_rows
from homerl.train.recipe import BlueprintSource, CurriculumSettings

LEAST = 0.1  # probability of playing a blueprint that is never or always solved


class Curriculum:
    """The order of blueprints. `draw` a batch, call `train` when its training begins, and `learn` from its results."""

    def __init__(
        self, settings: CurriculumSettings, source: BlueprintSource, seed: int, difficulty: Mapping[int, float] | None = None
    ) -> None:
        self.settings, self.source, self.seed = settings, source, seed
        self.difficulty = difficulty or {}
        self.position = self.passed_over = 0
        self.tally: dict[int, tuple[float, int]] = {}
        self.drawn: deque[list[int]] = deque()
        self.unfinished: deque[list[int]] = deque()
        self.lap: tuple[int, list[int]] | None = None

    def draw(self, count: int) -> list[int]:
        """The blueprint seeds of a batch. Batches that an interrupted run had drawn come first."""
        batch = self.unfinished.popleft() if self.unfinished else self.more(count)
        self.drawn.append(batch)
        return batch

    def train(self) -> None:
        """Note that training on the oldest drawn batch has begun, so that a resumed run does not play it again."""
        self.drawn.popleft()

    def more(self, count: int) -> list[int]:
        """The next `count` seeds of the order, without recording them as a batch."""
        seeds: list[int] = []
        while len(seeds) < count:
            seed = self._at(self.position)
            if self._takes(seed):
                seeds.append(seed)
            else:
                self.passed_over += 1
            self.position += 1
        return seeds

    def learn(self, results: Iterable[tuple[int, bool]]) -> None:
        """Update the running success rates from pairs (blueprint seed, success) of rollouts.

        An older rate counts half after each update, since the policy changes.
        """
        by_seed: dict[int, list[bool]] = {}
        for seed, success in results:
            by_seed.setdefault(seed, []).append(success)
        for seed, successes in by_seed.items():
            before, plays = self.tally.get(seed, (0.0, 0))
            now = sum(successes) / len(successes)
            self.tally[seed] = (now if not plays else (before + now) / 2, plays + 1)

    def metrics(self) -> dict[str, float]:
        """The number of passes made so far (fractional), and the share of positions that were skipped."""
        share = self.passed_over / self.position if self.position else 0.0
        return {"curriculum/passes": self.position / self.source.count, "curriculum/passed_over": share}

    def state(self) -> dict[str, Any]:
        """The state as plain data, for `load`."""
        tally = [[seed, *result] for seed, result in self.tally.items()]
        unfinished = [*self.drawn, *self.unfinished]
        return {"position": self.position, "passed_over": self.passed_over, "tally": tally, "unfinished": unfinished}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        self.position, self.passed_over = state["position"], state["passed_over"]
        self.tally = {seed: (success, plays) for seed, success, plays in state["tally"]}
        self.drawn, self.unfinished = deque(), deque(map(list, state["unfinished"]))

    def _takes(self, seed: int) -> bool:
        """Whether to play a blueprint. With `by: success` the probability is 4p(1-p), which grows with the variance of the
        outcome.

        A blueprint without a known success rate p is always played.
        """
        if self.settings.by != "success" or seed not in self.tally:
            return True
        success, _ = self.tally[seed]
        chance = max(LEAST, 4 * success * (1 - success))
        return random.Random(f"take {self.seed} {self.position}").random() < chance

    def _at(self, position: int) -> int:
        lap, place = divmod(position, self.source.count)
        if self.lap is None or self.lap[0] != lap:
            self.lap = lap, self._order(lap)
        return self.lap[1][place]

    def _order(self, lap: int) -> list[int]:
        """The order of one pass: shuffled, then sorted from easy to hard where difficulties are known."""
        seeds = list(range(self.source.first_seed, self.source.first_seed + self.source.count))
        random.Random(f"blueprints {self.seed} {lap}").shuffle(seeds)
        return sorted(seeds, key=lambda seed: self.difficulty.get(seed, 0.0))


def difficulties(settings: CurriculumSettings, source: BlueprintSource) -> dict[int, float]:
    """The difficulty of each blueprint seed: 1 - its verified success rate in a synthesis of the same blueprints.

    It is empty unless the recipe orders by difficulty. Raises `InputError` if the synthesis lacks a blueprint.
    """
    if settings.by != "difficulty":
        return {}
    path = Path(settings.synthesis or "")
    path = path / "blueprints.jsonl" if path.is_dir() else path
    rows = {row["id"]: row["difficulty"] for row in read_rows(path)}
    seeds = range(source.first_seed, source.first_seed + source.count)
    by_seed = {seed: rows[f"train-{seed}"] for seed in seeds if f"train-{seed}" in rows}
    if len(by_seed) < source.count:
        raise InputError(
            f"{path} has the difficulty of {len(by_seed)} of the {source.count} blueprints",
            where="rlve.curriculum.synthesis",
            remedy="synthesise the same ones: synth.recipe, synth.first_seed and synth.blueprints as in `blueprints`",
        )  # fmt: skip
    return by_seed
