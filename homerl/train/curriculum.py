"""Which blueprint is played next.

Invariants: the order is a function of recipe, seed and what was learned, the same on every rank; a pass takes every
blueprint once (unless running success passes it over, which is counted), each pass in an order of its own; what was
drawn but not yet trained on is part of the state, so that a resumed run plays it, and nothing else, again.
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

LEAST = 0.1  # chance of a blueprint that is never or always solved


class Curriculum:
    """`draw` what to play, `train` on it, `learn` what came of it."""

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
        """Blueprint seeds for a batch: one that a broken-off run had drawn, or the next ones."""
        batch = self.unfinished.popleft() if self.unfinished else self.more(count)
        self.drawn.append(batch)
        return batch

    def train(self) -> None:
        """The oldest batch drawn is being trained on."""
        self.drawn.popleft()

    def more(self, count: int) -> list[int]:
        """The next seeds of the order, without making a batch of them."""
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
        """(blueprint seed, success) of rollouts; older ones fade, since the policy changes."""
        by_seed: dict[int, list[bool]] = {}
        for seed, success in results:
            by_seed.setdefault(seed, []).append(success)
        for seed, successes in by_seed.items():
            before, plays = self.tally.get(seed, (0.0, 0))
            now = sum(successes) / len(successes)
            self.tally[seed] = (now if not plays else (before + now) / 2, plays + 1)

    def metrics(self) -> dict[str, float]:
        """How far the order has got, and how much of it was passed over."""
        share = self.passed_over / self.position if self.position else 0.0
        return {"curriculum/passes": self.position / self.source.count, "curriculum/passed_over": share}

    def state(self) -> dict[str, Any]:
        """Plain data that `load` understands."""
        tally = [[seed, *result] for seed, result in self.tally.items()]
        unfinished = [*self.drawn, *self.unfinished]
        return {"position": self.position, "passed_over": self.passed_over, "tally": tally, "unfinished": unfinished}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.position, self.passed_over = state["position"], state["passed_over"]
        self.tally = {seed: (success, plays) for seed, success, plays in state["tally"]}
        self.drawn, self.unfinished = deque(), deque(map(list, state["unfinished"]))

    def _takes(self, seed: int) -> bool:
        """By running success: 4p(1-p), the variance of an outcome, is the chance to be played; the unknown always are."""
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
        """One pass: shuffled, and from easy to hard where difficulties are known."""
        seeds = list(range(self.source.first_seed, self.source.first_seed + self.source.count))
        random.Random(f"blueprints {self.seed} {lap}").shuffle(seeds)
        return sorted(seeds, key=lambda seed: self.difficulty.get(seed, 0.0))


def difficulties(settings: CurriculumSettings, source: BlueprintSource) -> dict[int, float]:
    """Difficulty (1 - verified success rate) by blueprint seed, from a synthesis of the same blueprints."""
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
